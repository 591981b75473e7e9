"""The classes of Pallas' Mosaic GPU backend that are taken apart attribute by attribute.

They are known only to a process that has a launch for a GPU to judge: importing the backend takes
0.3 s.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from grader.kernels.carrier.classes import slotted
from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, filled, member, single
from grader.kernels.jax_internals import (
    GPU_COMPILER_PARAMS,
    GPU_CORE,
    GPU_DATACLASSES,
    GPU_ENUMS,
    GPU_SINGLES,
    GPU_SLOTTED,
    UnsupportedJax,
    found,
)


def is_wanted() -> bool:
    """Whether this process has imported the backend."""
    return GPU_CORE in sys.modules


def make_known() -> None:
    """Import the backend. Raises UnsupportedJax, and ImportError where absl-py is missing."""
    importlib.import_module("jax.experimental.pallas.mosaic_gpu")
    if not is_wanted():
        raise UnsupportedJax(GPU_CORE)


def forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them; none where nobody wants them."""
    if not is_wanted():
        return
    for make, table in ((member, GPU_ENUMS), (filled, GPU_DATACLASSES)):
        yield from map(make, found(table))
    yield from slotted(GPU_SLOTTED)
    for module, names in GPU_SINGLES.items():
        for name in names.split():
            yield from (single(f"mosaic_gpu.{name}", one) for one in found({module: name}))
    yield from map(_compiler_params, found(GPU_COMPILER_PARAMS))


def _compiler_params(kind: type) -> Form:
    form = filled(kind)

    def parts(params: Any) -> Iterable[Any]:
        if params.profile_dir:
            raise NotCarried("a profile_dir in CompilerParams, where the kernel would write files")
        return form.parts(params)

    def build(*parts: Any) -> Any:
        params = form.build(*parts)
        if params.profile_dir:
            raise ValueError("a folder for profiles")
        return params

    return dataclasses.replace(form, parts=parts, build=build)
