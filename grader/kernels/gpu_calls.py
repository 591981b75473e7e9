"""A kernel for a GPU as data: what it is given and gives back, and its grid."""

from __future__ import annotations

from collections.abc import Iterator

from jax.extend import core

from grader.kernels.pallas_params import body, is_pallas_call, mesh
from grader.model import ArrayType, KernelCall, Operand, Role, Touch


def is_for_gpus(kernel: core.JaxprEqn) -> bool:
    """Whether a kernel is a `plgpu.kernel`: its mesh is one of blocks and of threads."""
    if is_pallas_call(kernel) or not kernel.params.get("meshes"):
        return False
    return type(mesh(kernel)).__module__.startswith("jax._src.pallas.mosaic_gpu")


def gpu_call(kernel: core.JaxprEqn, name: str, callbacks: tuple[str, ...]) -> KernelCall:
    """The equation of a `plgpu.kernel` as data. Its grid ends with the threads of a block.

    Blocks are cut by the kernel itself, so each operand is one whole array in global memory.
    """
    return KernelCall(
        name=name,
        grid=tuple(int(size) for size in mesh(kernel).shape.values()),
        operands=tuple(_operands(kernel)),
        callbacks=callbacks,
    )


def _operands(kernel: core.JaxprEqn) -> Iterator[Operand]:
    inputs = len(kernel.invars)
    names = getattr(body(kernel).debug_info, "arg_names", None) or ()
    for position, var in enumerate(body(kernel).invars):
        aval = getattr(var.aval, "inner_aval", var.aval)
        dtype = getattr(aval, "dtype", None)
        shape = tuple(int(size) for size in getattr(aval, "shape", ()))
        given = str(names[position]) if position < len(names) else ""
        name = given if given.isidentifier() else f"operand {position}"
        role = Role.INPUT if position < inputs else Role.OUTPUT
        array = ArrayType(str(getattr(dtype, "name", dtype)), shape)
        # Which of them it touches is not looked for here: none is to be called unused.
        first = Touch.READ if role is Role.INPUT else Touch.WRITE
        yield Operand(name, role, array, block=shape, space="any", first=first, buffers=1)
