"""A program lowered for a TPU, as data.

jax and its bytes of StableHLO are all that is needed there: neither the function, nor the file that
it comes from, nor what has been done with jax before.
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
    """StableHLO in `module`. `kept` are the positions of the inputs that it looks at."""

    module: bytes
    kept: tuple[int, ...]
    inputs: tuple[ArrayType, ...]
    outputs: tuple[ArrayType, ...]


def program_of(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> LoweredProgram:
    """Trace and lower `function(*args)` for one TensorCore of a chip. Raises what jax raises."""
    import jax

    from pallascope.kernels.lowering import for_chip

    with for_chip(chip.kind, chip.cores):
        # A new function each time: jax remembers what it has made of one that it knows.
        traced = jax.jit(lambda *arrays: function(*arrays))
        return as_data(jax.export.export(traced, platforms=["tpu"])(*args))


def as_data(exported: Any) -> LoweredProgram:
    """A jax.export.Exported without the trees of its inputs and outputs."""
    return LoweredProgram(
        bytes(exported.mlir_module_serialized),
        tuple(exported.module_kept_var_idx),
        tuple(map(_type, exported.in_avals)),
        tuple(map(_type, exported.out_avals)),
    )


def lowered_again(program: LoweredProgram, chip: Chip) -> Any:
    """The program, lowered for a device of the chip's topology. Raises CompilerUnavailable."""
    import jax

    from pallascope.tpu.libtpu import device

    return lowered_for(program, jax.sharding.SingleDeviceSharding(device(chip)), "tpu")


def lowered_for(program: LoweredProgram, sharding: Any, platform: str) -> Any:
    """The same for the device of a sharding, on the platform that it was lowered for."""
    import jax

    placed = [jax.ShapeDtypeStruct(t.shape, _dtype(t), sharding=sharding) for t in program.inputs]
    # Without inputs, only the outputs say for which device it is compiled.
    launched = jax.jit(exported_of(program, platform).call, out_shardings=sharding)
    return launched.trace(*placed).lower(lowering_platforms=(platform,))


def exported_of(program: LoweredProgram, platform: str) -> Any:
    """The jax.export.Exported that `as_data` was given, for the platform that it is for."""
    import jax
    import jax.numpy as jnp

    inputs = [jax.ShapeDtypeStruct(t.shape, _dtype(t)) for t in program.inputs]

    def stand_in(*_: Any) -> list[Any]:
        return [jnp.zeros(t.shape, _dtype(t)) for t in program.outputs]

    # What jax can call again has more fields than a module; they follow from the types alone.
    same_types = jax.export.export(jax.jit(stand_in), platforms=[platform])(*inputs)
    return dataclasses.replace(
        same_types, mlir_module_serialized=program.module, module_kept_var_idx=program.kept
    )


def _type(aval: Any) -> ArrayType:
    return ArrayType(aval.dtype.name, tuple(aval.shape))


def _dtype(of: ArrayType) -> Any:
    import jax.numpy as jnp

    return jnp.dtype(of.dtype)
