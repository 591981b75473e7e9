"""Diagnoses by position: wrong rows, swapped or shifted blocks, blocks added to earlier ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pallascope.checks.compare import Comparison, Floats, Index
from pallascope.checks.diagnoses.suspect import Diagnosis, Suspect, rounding
from pallascope.checks.phrasing import count, listed
from pallascope.model import FirstAccess, Role

MOST_PAIRS = 4096  # of blocks compared with blocks


def never_used(suspect: Suspect) -> Diagnosis | None:
    """An input that nothing depends on: not passed to the kernel, or never read by it.

    An aliased input is left out: the kernel may read it through the output.
    """
    inputs = [operand for operand in suspect.refs(Role.INPUT) if not operand.aliased]
    refs = [operand.name for operand in inputs if operand.first is FirstAccess.NOTHING]
    names = suspect.unused or tuple(refs)
    if not names:
        return None
    never = "never read by the kernel" if not suspect.unused else "never used by the launch"
    are, them = ("is", "it") if len(names) == 1 else ("are", "them")
    return Diagnosis(
        f"{listed(names)} {are} {never}",
        f"{listed(names)} {are} {never}, so the result cannot depend on {them}. Perhaps another "
        "input is used twice, or a part is missing.",
        vague=True,
    )


def another_result(suspect: Suspect) -> Diagnosis | None:
    """The result equals another result of the launch."""
    result = suspect.result
    for other in suspect.others:
        if other.actual.shape == result.actual.shape and result.close(
            result.actual, other.expected, result.allowed + other.allowed
        ):
            return Diagnosis(
                f"{result.name} contains the values of {other.name}",
                f"All of {result.name} has the values of {other.name}: results have been "
                "exchanged. Look at the order in which they are returned or stored.",
                vague=True,
            )
    return None


def another_block(suspect: Suspect) -> Diagnosis | None:
    """Wrong blocks that contain other blocks' values, because of an index map."""
    result = suspect.result
    wrong, every = result.wrong_blocks, result.indices()
    if len(every) < 2 or len(wrong) * len(every) > MOST_PAIRS:
        return None
    moved = {index: home for index in wrong if (home := _home(result, index, every))}
    if len(moved) < len(wrong) or not moved:
        return None
    whole = "; ".join(
        f"block {i} contains block {home}'s values" for i, home in list(moved.items())[:4]
    )
    first, home = next(iter(moved.items()))
    return Diagnosis(
        f"block {first} contains the values of block {home}",
        f"{_pattern(moved) or whole}. In all, {count(len(moved), 'block')} of {result.name} "
        f"{'contain' if len(moved) > 1 else 'contains'} another block's values: for example, block "
        f"{first} contains the values of block {home}. Look at the index maps.",
        vague=True,
    )


def _home(result: Comparison, index: Index, every: list[Index]) -> Index | None:
    got = result.actual[result.part(index)]
    for other in every:
        part = result.part(other)
        if other != index and result.close(got, result.expected[part], result.allowed[part]):
            return other
    return None


def _pattern(moved: dict[Index, Index]) -> str:
    """Name a move that one dimension explains: "block row 1 contains block row 0's values"."""
    words = {1: ["block"], 2: ["block row", "block column"]}.get(len(next(iter(moved))), [])
    for axis, word in enumerate(words):
        others = all(a[:axis] + a[axis + 1 :] == b[:axis] + b[axis + 1 :] for a, b in moved.items())
        pairs = {(a[axis], b[axis]) for a, b in moved.items()}
        if others and len(dict(pairs)) == len(pairs):
            return listed((f"{word} {a} contains {word} {b}'s values" for a, b in sorted(pairs)), 3)
    return ""


def one_share_of_the_sum(suspect: Suspect) -> Diagnosis | None:
    """The result is one block's contribution: the rest of a sum is lost."""
    result = suspect.result
    for share, value in suspect.shares:
        if result.explained_by(value, rounding(value, result.dtype)):
            other = "later" if share.which == "first" else "earlier"
            return Diagnosis(
                f"only the {share.which} block of {share.name} counts",
                f"The result is only the contribution of the {share.which} block of {share.name} "
                f"along its dimension {share.axis}; {other} grid steps' contributions are lost.",
            )
    return None


def left_over(suspect: Suspect) -> Diagnosis | None:
    """Wrong blocks that hold their own values plus another block's: stale sums, never cleared."""
    result = suspect.result
    wrong, every = result.wrong_blocks, result.indices()
    if (
        len(every) < 2
        or len(wrong) * len(every) > MOST_PAIRS
        or not np.isfinite(result.actual).all()
    ):
        return None
    stale = {index: other for index in wrong if (other := _leftover(result, index, every))}
    if len(stale) < len(wrong) or not stale:
        return None
    index, other = next(iter(stale.items()))
    return Diagnosis(
        f"block {index} still holds the sum of block {other}",
        f"Block {index} holds its own sum plus stale values: the earlier sum of block {other}. The "
        "accumulator was not cleared between the two.",
    )


def _leftover(result: Comparison, index: Index, every: list[Index]) -> Index | None:
    part = result.part(index)
    excess = result.actual[part] - result.expected[part]
    for other in every:
        there = result.part(other)
        slack = np.full_like(excess, 4 * (result.allowed[part].max() + result.allowed[there].max()))
        if other == index or result.close(result.actual[there], 0 * excess, slack):
            continue  # nothing was summed for a block of zeros
        if result.close(excess, result.actual[there], slack):
            return other
    return None


def transposed(suspect: Suspect) -> Diagnosis | None:
    """Every wrong block is the transpose of the expected block."""
    result = suspect.result
    if result.actual.ndim < 2:
        return None
    for index in result.wrong_blocks:
        part = result.part(index)
        turned = np.swapaxes(result.expected[part], -1, -2)
        allowed = np.swapaxes(result.allowed[part], -1, -2)
        if not result.close(result.actual[part], turned, allowed):
            return None
    return Diagnosis(
        "blocks are transposed",
        f"Every wrong block of {result.name} is transposed: its rows and columns are exchanged.",
    )


def rows_reordered(suspect: Suspect) -> Diagnosis | None:
    """The right rows (or, of a vector, elements) in another order, within each wrong block."""
    result = suspect.result
    for index in result.wrong_blocks:
        part = result.part(index)
        got, wanted = result.actual[part], result.expected[part]
        if np.isnan(got).any() or not got.ndim:
            return None
        order = [_lexical(value) for value in (got, wanted)]
        if not result.close(got[order[0]], wanted[order[1]], result.allowed[part][order[1]]):
            return None
    units = "rows" if result.actual.ndim > 1 else "elements"
    return Diagnosis(
        f"{units} are in another order",
        f"Each wrong block has all the right {units}, but the {units} are in another order.",
        vague=True,
    )


def _lexical(value: Floats) -> Any:
    """The order of the first axis by the values that follow, coarse enough to survive rounding."""
    rows = value.reshape(value.shape[0], -1)
    return np.argsort(rows[:, 0], kind="stable")


def only_the_last(suspect: Suspect) -> Diagnosis | None:
    """Every wrong block is the last along one axis."""
    result = suspect.result
    for axis, blocks in enumerate(result.grid):
        if blocks > 1 and {index[axis] for index in result.wrong_blocks} == {blocks - 1}:
            size, block = result.actual.shape[axis], result.block[axis]
            ragged = (
                f", which holds only {size % block} of {block} elements" if size % block else ""
            )
            where = "the array's edge" if ragged else "that block"
            first = " Or only the first is right: is a block's number missing in an index?"
            return Diagnosis(
                "only the last block is wrong",
                f"Along dimension {axis} only the last block is wrong{ragged}: look at the "
                f"kernel's handling of {where}, or of its last grid step, and at the values that "
                "earlier steps pass on to it." + (first if blocks == 2 and not ragged else ""),
                vague=True,
                guess=True,
            )
    return None


#: A row is wrong as a whole if more than this part of it is, and few of the rows are wrong if less
#: than this part of them is.
_WHOLE, _FEW = 0.5, 0.25


def only_some_rows(suspect: Suspect) -> Diagnosis | None:
    """Few rows are wrong, or few columns, and each of them in most of its elements."""
    result = suspect.result
    if result.actual.ndim < 2:
        return None
    wrong = result.wrong.reshape(-1, result.actual.shape[-1])
    for axis, lines in ((1, "rows"), (0, "columns")):
        parts = wrong.mean(axis)
        touched = parts > 0
        if touched.sum() < 2 or touched.mean() > _FEW or parts[touched].mean() < _WHOLE:
            continue
        first, last = np.flatnonzero(touched)[[0, -1]]
        return Diagnosis(
            f"only {int(touched.sum())} of {touched.size} {lines} are wrong",
            f"Only {int(touched.sum())} of {touched.size} {lines} are wrong (the first is "
            f"{_number(result, axis, first)}, the last {_number(result, axis, last)}), each in "
            "most of its elements. Look for a difference from the others: their number, a mask, "
            "the size of their values, or the grid step that computes them.",
            vague=True,
            guess=True,
        )
    return None


def _number(result: Comparison, axis: int, line: int) -> str:
    """A row's indices along all dimensions before the last; a column's index alone."""
    if axis == 0:
        return str(line)
    place = np.unravel_index(line, result.actual.shape[:-1])
    return ", ".join(str(int(index)) for index in place).join("()" if len(place) > 1 else ("", ""))


def only_the_first(suspect: Suspect) -> Diagnosis | None:
    """Only the first block along one axis is right: later grid steps go wrong.

    A block of zeros doesn't count, since a kernel that computes nothing has it right.
    """
    result = suspect.result
    right = {
        index
        for index in set(result.indices()) - set(result.wrong_blocks)
        if result.expected[result.part(index)].any()
    }
    for axis, blocks in enumerate(result.grid):
        if blocks > 1 and right and {index[axis] for index in right} == {0}:
            return Diagnosis(
                "only the first block is right",
                f"Along dimension {axis} only the first block is right: look at each index, offset "
                "and mask that depends on the number of the block, in the kernel and in the index "
                "maps, and at values that only the first grid step sets up.",
                vague=True,
                guess=True,
            )
    return None
