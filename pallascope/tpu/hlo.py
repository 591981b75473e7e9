"""Programs for XLA: lowered, as data; and compiled, whose HLO has instructions, bytes, cycles.

Another process can compile a lowered program from its StableHLO alone, without the function or its
file. XLA runs the instructions of the entry computation one after another. Each reads its
operands from HBM and writes its results there, unless their layout is in VMEM, S(1). Intermediates
within an instruction, such as a fusion, stay on the chip.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pallascope.model import ArrayType, InstructionBytes
from pallascope.tpu.chips import Chip

_INSTRUCTION = re.compile(r"^ *(?:ROOT )?%?([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\(", re.MULTILINE)
_KERNEL = 'custom_call_target="tpu_custom_call"'
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')

#: From here on, an estimate means "none": XLA writes the largest number that fits, or half of it.
_NO_CYCLES = 1 << 60

#: Instructions that only name, group or reinterpret existing data.
_FREE = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast")


def kernel_instructions(hlo: str) -> list[str]:
    """The names of the instructions that run a Pallas kernel."""
    return [name for name, _, line in _instructions(hlo) if _KERNEL in line]


def estimated_cycles(hlo: str) -> tuple[int, tuple[str, ...]]:
    """XLA's own estimate for a program: cycles of all instructions of its entry computation.

    Also the operations without an estimate, in alphabetical order: if there are any, the cycles are
    too few. Loops are among them, because the text doesn't have their numbers of iterations.
    """
    entry = hlo[hlo.index("\nENTRY ") :]
    cycles, missing = 0, set[str]()
    for _, operation, line in _instructions(entry):
        found = _CYCLES.search(line)
        if found and int(found[1]) < _NO_CYCLES:
            cycles += int(found[1])
        elif operation not in _FREE:
            missing.add(operation)
    return cycles, tuple(sorted(missing))


def _instructions(hlo: str) -> Iterator[tuple[str, str, str]]:
    """Name, operation and line of each instruction."""
    for line in hlo.splitlines():
        if found := _INSTRUCTION.match(line):
            yield found[1], found[2], line


_XLA_INSTRUCTION = re.compile(r"^ *(?:ROOT )?%?([\w.\-]+) = (\(.*?\)|\S+) ([\w\-]+)\((.*)$")
_NAME = re.compile(r"%([\w.\-]+)")
_ARRAY = re.compile(r"\b([a-z]+\d*\w*)\[([\d,]*)\](\{[^}]*\})?")
_BITS = re.compile(r"\d+")

#: Instructions that only name, group or reinterpret existing data, and the ends of those that were
#: started before.
_LOOPS = ("while", "conditional", "call")
_IN_VMEM = "S(1)"


def has_loops(hlo: str) -> bool:
    """Whether the entry computation has instructions that run others repeatedly."""
    return any(found[3] in _LOOPS for found in map(_XLA_INSTRUCTION.match, _entry(hlo)) if found)


def steps_of(hlo: str) -> tuple[InstructionBytes, ...]:
    """The instructions of a compiled program's entry computation that move bytes, in order."""
    sizes: dict[str, int] = {}
    steps: list[InstructionBytes] = []
    for line in _entry(hlo):
        if not (found := _XLA_INSTRUCTION.match(line)):
            continue
        name, results, operation, rest = found.groups()
        sizes[name] = bytes_in_hbm(results)
        if operation in _FREE or operation.endswith("-done"):
            continue
        operands = dict.fromkeys(_NAME.findall(_arguments(rest)))
        read = sum(sizes.get(operand, 0) for operand in operands)
        if operation.endswith("-start"):  # its result repeats its operand
            sizes[name], written = 0, max(0, sizes[name] - read)
        else:
            written = sizes[name]
        steps.append(InstructionBytes(name, read, written))
    return tuple(step for step in steps if step.bytes)


def _entry(hlo: str) -> list[str]:
    """The lines of the entry computation."""
    return hlo[hlo.index("\nENTRY ") + 1 :].split("\n}", 1)[0].splitlines()


def bytes_in_hbm(types: str) -> int:
    """The bytes of the arrays that a type in HLO's text names, without those in VMEM."""
    return sum(
        math.prod(int(n) for n in shape.split(",") if n) * _bits(dtype) // 8
        for dtype, shape, layout in _ARRAY.findall(types)
        if _IN_VMEM not in layout
    )


def _arguments(rest: str) -> str:
    """The text before the parenthesis that closes an instruction's operands."""
    depth = 1
    for place, letter in enumerate(rest):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth:
            return rest[:place]
    return rest


def _bits(dtype: str) -> int:
    """The bits of an element; pred[] takes a byte."""
    found = _BITS.search(dtype)
    return int(found[0]) if found else 8


# ---- lowered programs ----


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
