"""The classes of Pallas' Mosaic GPU backend that are taken apart attribute by attribute.

They are known only to a process that has a launch for a GPU to judge: importing the backend takes
0.3 s. Each module's row lists what any supported version of JAX has there.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from grader.kernels.carrier.errors import NotCarried
from grader.kernels.carrier.forms import Form, filled, found, member, single
from grader.kernels.jaxprs import UnsupportedJax

_CORE = "jax._src.pallas.mosaic_gpu.core"
_LAYOUTS = "jax.experimental.mosaic.gpu"
_ENUMS = {
    _CORE: "Layout MemorySpace PrimitiveSemantics SemaphoreType TMEMLayout TraceScope",
    "jax._src.pallas.mosaic_gpu.primitives": "AtomicOpType",
    f"{_LAYOUTS}.core": "LoweringSemantics",
    f"{_LAYOUTS}.launch_context": "OOBFillMode",
}
_DATACLASSES = {
    _CORE: (
        "BarrierType ClusterBarrierType ClusterRefTransform ExtractAliasedRef "
        "CollapseLeadingBatchDimensionsTransform ExpandLeadingBatchDimensionsTransform "
        "GPUMemoryRef IdentityTransform Im2ColTransform Mesh MulticastRef ParameterizedLayout "
        "PeerMemRef ReducedLayout SwizzleTransform TilingTransform UnswizzleRef UntilingTransform "
        "WarpMesh"
    ),
    f"{_LAYOUTS}.fragmented_array": (
        "Replicated TiledLayout Tiling WGSplatFragLayout WGStridedFragLayout"
    ),
    f"{_LAYOUTS}.launch_context": "_Partitioned _Replicated",
    f"{_LAYOUTS}.tcgen05": "TMEMLayout",
}
_SLOTTED = {
    "AbstractRefUnion": ("inner_aval", "memory_space", "kind", "refs"),
    "AbstractTMEMRef": ("inner_aval", "memory_space", "kind", "layout", "collective"),
    "WGMMAAbstractAccumulatorRef": ("inner_aval", "memory_space", "kind"),
}
_SINGLES = "_memory_effect _pdl_effect _wgmma_pipeline_effect"


def is_wanted() -> bool:
    """Whether this process has imported the backend."""
    return _CORE in sys.modules


def make_known() -> None:
    """Import the backend. Raises UnsupportedJax, and ImportError where absl-py is missing."""
    importlib.import_module("jax.experimental.pallas.mosaic_gpu")
    if not is_wanted():
        raise UnsupportedJax(_CORE)


def forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them; none where nobody wants them."""
    if not is_wanted():
        return
    for make, table in ((member, _ENUMS), (filled, _DATACLASSES)):
        for module, names in table.items():
            yield from map(make, found(module, names))
    for name, names in _SLOTTED.items():
        yield from (filled(kind, names) for kind in found(_CORE, name))
    for name in _SINGLES.split():
        yield from (single(f"mosaic_gpu.{name}", one) for one in found(_CORE, name))
    yield from map(_compiler_params, found(_CORE, "CompilerParams"))


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
