"""A program lowered for a TPU, as data, to compile elsewhere.

Another process can compile it from its StableHLO alone, without the function or its file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pallascope.model import ArrayType
from pallascope.tpu.chips import Chip


@dataclass(frozen=True, slots=True)
class LoweredProgram:
    """StableHLO in `module`. `kept` are the positions of the inputs that it uses."""

    module: bytes
    kept: tuple[int, ...]
    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]


def program_of(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> LoweredProgram:
    """Trace and lower `function(*args)` for one TensorCore. Propagates exceptions from jax."""
    import jax

    from pallascope.kernels.lowering import for_chip

    with for_chip(chip.kind, chip.cores):
        # A new function each time, because jax caches traces by function.
        traced = jax.jit(lambda *arrays: function(*arrays))
        return program_from_export(jax.export.export(traced, platforms=["tpu"])(*args))


def program_from_export(exported: Any) -> LoweredProgram:
    """A jax.export.Exported without the trees of its inputs and outputs."""
    return LoweredProgram(
        bytes(exported.mlir_module_serialized),
        tuple(exported.module_kept_var_idx),
        tuple(map(_type, exported.in_avals)),
        tuple(map(_type, exported.out_avals)),
    )


def lower_for_chip(program: LoweredProgram, chip: Chip) -> Any:
    """The program, lowered for a device of the chip's topology. Raises CompilerUnavailable."""
    import jax

    from pallascope.tpu.libtpu import device

    return lower_for_sharding(program, jax.sharding.SingleDeviceSharding(device(chip)), "tpu")


def lower_for_sharding(program: LoweredProgram, sharding: Any, platform: str) -> Any:
    """The program, lowered for the device of a sharding, on its original platform."""
    import jax

    placed = [jax.ShapeDtypeStruct(t.shape, _dtype(t), sharding=sharding) for t in program.inputs]
    # Without inputs, only the outputs name the device to compile for.
    launched = jax.jit(export_from_program(program, platform).call, out_shardings=sharding)
    return launched.trace(*placed).lower(lowering_platforms=(platform,))


def export_from_program(program: LoweredProgram, platform: str) -> Any:
    """The jax.export.Exported of a program, for its platform."""
    import jax
    import jax.numpy as jnp

    inputs = [jax.ShapeDtypeStruct(t.shape, _dtype(t)) for t in program.inputs]

    def stand_in(*_: Any) -> list[Any]:
        return [jnp.zeros(t.shape, _dtype(t)) for t in program.outputs]

    # The other fields of an Exported follow from the types alone.
    same_types = jax.export.export(jax.jit(stand_in), platforms=[platform])(*inputs)
    return dataclasses.replace(
        same_types, mlir_module_serialized=program.module, module_kept_var_idx=program.kept
    )


def _type(aval: Any) -> ArrayType:
    return ArrayType(aval.dtype.name, tuple(aval.shape))


def _dtype(array: ArrayType) -> Any:
    import jax.numpy as jnp

    return jnp.dtype(array.dtype)
