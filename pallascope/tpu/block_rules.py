"""The block shapes that a TPU accepts; the text of a refusal: broken rules, nearest legal blocks.

A vector register holds 8 sublanes by 128 lanes of 32 bits, and arrays are stored as tiles of that
shape, so blocks have to be cut along tile edges. Mosaic, the compiler behind Pallas on a TPU,
checks this when it lowers a kernel. This module gives the same answer without jax.

Source: `_check_block_mappings` in `jax/_src/pallas/mosaic/lowering.py`, the same in jax 0.10.2 and
0.12.0.1; `tests/test_block_rules.py` compares thousands of answers with Mosaic's own.

Shapes are in elements. In a block, None is a squeezed dimension: it counts as a size of 1, and as
a dimension, so `(None, 128)` has rank 2. `pl.Blocked`, `pl.Element` and `pl.BoundedSlice` count as
their block size. Inputs and outputs obey the same rules.
"""

from __future__ import annotations

import enum
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pallascope.model import KernelCall, Operand, Role

SUBLANES, LANES = 8, 128

Shape = tuple[int, ...]
Block = tuple[int | None, ...]


class Space(enum.Enum):
    """A block's memory space, by Pallas' names. Index, key and error are other names for SMEM."""

    DEFAULT = "default"  # VMEM; also where a BlockSpec names no space
    VMEM = "vmem"
    SMEM = "smem"
    ANY = "any"
    HBM = "hbm"
    SEMAPHORE = "semaphore_mem"
    HOST = "host"
    CMEM = "cmem"
    VMEM_SHARED = "vmem_shared"
    INDEX = "index"
    KEY = "key"
    ERROR = "error"

    @classmethod
    def of(cls, memory_space: object) -> Space:
        """The member for a Pallas memory space or None. Raises ValueError for one unknown here."""
        if memory_space is None:
            return cls.DEFAULT
        return cls(str(memory_space).rpartition(".")[2].lower())


class Rule(enum.Enum):
    """A rule that a block can break; its value is the sentence that its author reads."""

    LANES = (
        "The last dimension of a block must be a multiple of 128, or the array's whole dimension: "
        "registers are 8 sublanes by 128 lanes, and this dimension runs along the lanes."
    )
    SUBLANES = (
        "The second-to-last dimension of a block must be a multiple of 8, or the array's whole "
        "dimension: registers are 8 sublanes by 128 lanes, and it runs along the sublanes."
    )
    SQUEEZED = (
        "A squeezed dimension (None) is a block of 1, but the last two dimensions must be a "
        "multiple of 8 and a multiple of 128, or the array's whole dimensions: registers are 8 "
        "sublanes by 128 lanes. Squeeze earlier dimensions, or dimensions of size 1."
    )
    RANK_1 = (
        "A block of rank 1 must be the whole array, a multiple of 1024, or a power of two of at "
        "least 128 * (32 / bits), with bits the width of an element: 1024 elements of 32 bits fill "
        "a register of 8 sublanes by 128 lanes, and 128 * (32 / bits) elements fill one sublane."
    )
    RANK_0 = (
        "A block needs at least one dimension: vector memory is read in rows of 128 lanes. Give a "
        "scalar a dimension of 1 and keep it in SMEM, which is read word by word."
    )
    WHOLE = (
        "A block in ANY or HBM must be the whole array: the pipeline copies nothing there, so the "
        "kernel gets the array itself and copies the parts that it needs."
    )
    MOVES = (
        "The index map of a block in ANY or HBM must return zeros, or be left out: the pipeline "
        "copies nothing there, so there is no next block to move to."
    )
    MIXED = (
        "Either every dimension of a block is a pl.Element, or squeezed, or none is: Mosaic counts "
        "the steps of a block in elements or in blocks, not in both."
    )
    KIND = (
        "Mosaic cuts blocks by sizes, pl.Blocked and pl.Element, and supports no other kind, such "
        "as pl.BoundedSlice, where the grid moves the blocks: copy such a part in the kernel."
    )


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that a block breaks.

    `dimension` counts from 0; None if the rule isn't about a single one. `legal` holds the nearest
    sizes below and above that the rule allows there within the array, and the whole dimension, in
    ascending order.
    """

    rule: Rule
    dimension: int | None
    legal: Shape


def dtype_bits(dtype: str) -> int:
    """Bits of an element as Mosaic counts them: 16 for "bfloat16", 4 for "int4".

    32 for "bool": Mosaic stores booleans as int32. Raises ValueError for a dtype without numbers.
    """
    if dtype == "bool":
        return 32
    width = re.match(r"(?:bfloat|float|int|uint|complex)(\d+)", dtype)
    if width is None:
        raise ValueError(f"no bit width is known for dtype {dtype!r}")
    return int(width[1])


def native_tile(bits: int) -> tuple[int, int]:
    """(sublanes, lanes) in elements of the tile that fills one register: (16, 128) for 16 bits.

    A lane is 32 bits wide; narrower elements are packed along the sublanes. The block rules require
    (8, 128) at any width. Raises ValueError for widths that don't fill a lane evenly.
    """
    if bits not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"elements of {bits} bits do not fill a 32-bit lane evenly")
    return SUBLANES * (32 // bits), LANES


def kinds_violations(kinds: Sequence[str], space: Space) -> tuple[Violation, ...]:
    """The rules that a block on a grid breaks by the kinds of its dimensions, whatever their sizes.

    `kinds` are the names of Pallas' classes, such as "Element"; a plain size is "Blocked".
    """
    if space in (Space.SEMAPHORE, Space.ANY, Space.HBM):
        return ()
    if set(kinds) - {"Blocked", "Element", "Squeezed"}:
        return (Violation(Rule.KIND, None, ()),)
    mixed = {"Blocked", "Element"} <= set(kinds)
    return (Violation(Rule.MIXED, None, ()),) if mixed else ()


def violations(
    block: Block, array: Shape, bits: int, space: Space, *, moves: bool = False
) -> tuple[Violation, ...]:
    """The rules that a block breaks; none if and only if Mosaic's lowering accepts the block.

    Assumes that all dimensions of the block are cut alike; see `kinds_violations`.

    `array` is the whole array's shape, `bits` its `dtype_bits`. `moves`: the index map returns
    something other than literal zeros (`i * 0` counts as something else).
    Raises ValueError if the ranks differ; so does Pallas.
    """
    if len(block) != len(array):
        raise ValueError(f"block {block} and array {array} differ in rank")
    if space is Space.SEMAPHORE:
        return ()
    if not block:
        smem = space in (Space.SMEM, Space.INDEX, Space.KEY, Space.ERROR)
        return () if smem else (Violation(Rule.RANK_0, None, ()),)
    if space in (Space.ANY, Space.HBM):
        return _not_pipelined(block, array, moves)
    if len(block) == 1:
        sublane = LANES * (32 // bits)
        powers = [1 << k for k in range(10) if 1 << k >= sublane]  # larger: multiples of 1024
        return _along(0, Rule.RANK_1, SUBLANES * LANES, block, array, powers)
    rows, columns = len(block) - 2, len(block) - 1
    return (
        *_along(rows, Rule.SUBLANES, SUBLANES, block, array),
        *_along(columns, Rule.LANES, LANES, block, array),
    )


def nearest_legal_blocks(block: Block, array: Shape, bits: int, space: Space) -> tuple[Block, ...]:
    """At most three legal blocks, nearest first, that differ only where the block breaks a rule.

    Only the block itself if it is legal; nothing for rank 0 outside SMEM. Assumes an index map of
    zeros in ANY and HBM.
    """
    options: list[tuple[int | None, ...]] = [(size,) for size in block]
    for violation in violations(block, array, bits, space):
        if violation.dimension is not None:
            options[violation.dimension] = violation.legal
    legal = (b for b in itertools.product(*options) if not violations(b, array, bits, space))
    return tuple(sorted(legal, key=lambda other: _distance(block, other, array))[:3])


def _not_pipelined(block: Block, array: Shape, moves: bool) -> tuple[Violation, ...]:
    parts = [Violation(Rule.WHOLE, i, (n,)) for i, n in enumerate(array) if _size(block[i]) != n]
    return (*parts, *([Violation(Rule.MOVES, None, ())] if moves else []))


def _along(
    dimension: int, rule: Rule, step: int, block: Block, array: Shape, powers: Sequence[int] = ()
) -> tuple[Violation, ...]:
    """The violations in a dimension that must be whole, a multiple of `step`, or in `powers`."""
    size, whole = _size(block[dimension]), array[dimension]
    if size == whole or size % step == 0 or size in powers:
        return ()
    multiples = ((min(size, whole) - 1) // step * step, size // step * step + step)
    inside = [c for c in (*powers, *multiples) if 0 < c < whole]
    below = max((c for c in inside if c < size), default=whole)
    above = min((c for c in inside if c > size), default=whole)
    if block[dimension] is None and rule is not Rule.RANK_1:
        rule = Rule.SQUEEZED
    return (Violation(rule, dimension, tuple(sorted({below, above, whole}))),)


def _size(block: int | None) -> int:
    return 1 if block is None else block


def _distance(block: Block, other: Block, array: Shape) -> float:
    """Octaves between the sizes, plus two for each ragged edge that `block` doesn't have."""
    distance = 0.0
    for old, new, whole in zip(block, other, array, strict=True):
        ragged = whole % (old or 1) == 0 and whole % (new or 1) != 0
        distance += abs(math.log2((new or 1) / (old or 1))) + 2 * ragged
    return distance


def refused_blocks(call: KernelCall) -> tuple[tuple[Operand, tuple[Violation, ...]], ...]:
    """The inputs and outputs whose blocks a TPU refuses, with the rules that they break."""
    operands = (
        (operand, _operand_violations(operand, bool(call.grid)))
        for operand in call.role(Role.INPUT, Role.OUTPUT)
    )
    return tuple((operand, violated) for operand, violated in operands if violated)


def refused_blocks_phrase(call: KernelCall) -> str:
    """The blocks that a TPU refuses, in a few words; "" if it refuses none."""
    refused = refused_blocks(call)
    if not refused:
        return ""
    first, _ = refused[0]
    others = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
    return f"a TPU refuses block {block_text(first.block)} of {first.name}{others}"


Paragraph = tuple[str, str]  # label and text


def block_paragraphs(
    refused: Sequence[tuple[Operand, tuple[Violation, ...]]],
) -> Iterator[Paragraph]:
    """The rules that blocks break and the nearest legal blocks, as labelled paragraphs.

    Operands with the same block, array and rules share their paragraphs.
    """
    names: dict[tuple[str, tuple[Paragraph, ...]], list[str]] = {}
    for operand, broken in refused:
        block = f"block {block_text(operand.block)} of {operand.array}"
        names.setdefault((block, tuple(_broken_rules(operand, broken))), []).append(operand.name)
    for (block, rules), operands in names.items():
        yield "ref", f"{_joined(tuple(operands))}: {block}"
        yield from rules


def _broken_rules(operand: Operand, broken: tuple[Violation, ...]) -> Iterator[Paragraph]:
    for violation in broken:
        yield "rule", _rule(operand, violation)
    shape, bits = operand.array.shape, dtype_bits(operand.array.dtype)
    legal = nearest_legal_blocks(operand.block, shape, bits, _space(operand))
    if legal and legal != (operand.block,):
        yield "legal", f"nearest: {_joined(tuple(map(block_text, legal)))}"
    if operand.space == "smem" and operand.role is Role.INPUT:
        yield "try", _WHOLE_TABLE


_WHOLE_TABLE = (
    "A table that is read number by number needs no blocks: pl.BlockSpec(memory_space=pltpu.SMEM) "
    "puts all of it into SMEM, and the kernel indexes it with its grid step."
)


def block_text(block: Block) -> str:
    """A block's shape in Python's notation: "(8, None, 128)"."""
    return f"({', '.join(map(str, block))}{',' * (len(block) == 1)})"


def _joined(texts: tuple[str, ...]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _space(operand: Operand) -> Space:
    return Space.of(None if operand.space == "default" else operand.space)


def _operand_violations(operand: Operand, on_grid: bool) -> tuple[Violation, ...]:
    try:
        bits = dtype_bits(operand.array.dtype)
    except ValueError:  # random keys, semaphores: not a block of numbers
        return ()
    shape = operand.array.shape
    space = _space(operand)
    broken = violations(operand.block, shape, bits, space, moves=operand.moves)
    return (*broken, *(kinds_violations(operand.kinds, space) if on_grid else ()))


def _rule(operand: Operand, violation: Violation) -> str:
    if violation.dimension is None:
        return violation.rule.value
    size = operand.block[violation.dimension]
    whole = operand.array.shape[violation.dimension]
    got = "squeezed" if size is None else f"a block of {size}"
    return f"dimension {violation.dimension} ({got} of {whole}): {violation.rule.value}"
