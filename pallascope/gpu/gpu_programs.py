"""Traces and lowers a Mosaic GPU function for a GPU that isn't here.

jax alone does this, without the CUDA plugin. Another process can compile what comes of it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pallascope.gpu.gpus import GpuChip
from pallascope.tpu.lowered_programs import (
    LoweredProgram,
    export_from_program,
    lower_for_sharding,
    program_from_export,
)

__all__ = [
    "LoweredProgram",
    "export_from_program",
    "lower_for_sharding",
    "program_of",
    "traced_for",
]


def program_of(function: Callable[..., Any], args: Sequence[Any], chip: GpuChip) -> LoweredProgram:
    """Trace and lower `function(*args)` for a chip. Raises what jax raises."""
    import jax

    with traced_for(chip):
        # A new function each time: jax remembers what it has made of one that it knows.
        traced = jax.jit(lambda *arrays: jax.tree.leaves(function(*arrays)))
        return program_from_export(jax.export.export(traced, platforms=["cuda"])(*args))


@contextlib.contextmanager
def traced_for(chip: GpuChip) -> Iterator[None]:
    """Trace and lower as on this GPU: Mosaic GPU asks the device for its compute capability.

    A function that asks JAX which devices there are gets the answers of that GPU.
    """
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    from pallascope.kernels.lowering import as_on_gpu

    capability = ".".join(map(str, chip.capability))

    class Device(AbstractDevice):
        @property
        def compute_capability(self) -> str:
            return capability

    device = Device(device_kind=chip.title, num_cores=chip.multiprocessors, platform="cuda")
    with (
        as_on_gpu(chip.title, chip.multiprocessors, capability),
        use_abstract_mesh(AbstractMesh((), (), abstract_device=device)),
    ):
        yield
