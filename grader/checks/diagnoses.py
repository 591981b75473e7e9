"""What a wrong result looks like: one small function per known pattern.

Each takes a Suspect and returns a Diagnosis, or None where its pattern is not there. `DIAGNOSES`
lists them in the order in which they are asked: the most specific and most certain first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from grader.checks.compare import ROUNDOFF, Comparison, Floats, Index
from grader.checks.words import count, listed, number, times
from grader.model import KernelCall, Operand, Role, Share, Touch, Walk

MOST_PAIRS = 4096  # of blocks compared with blocks


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A phrase for a table cell, and a sentence or two for the learner."""

    phrase: str
    why: str


@dataclass(frozen=True, slots=True)
class Suspect:
    """A wrong result and what is known of where it came from.

    `with_zeros` is the same result with unwritten memory holding zeros instead of NaN, `output` the
    position of the kernel's output that it is; both None where unknown.
    """

    result: Comparison
    call: KernelCall | None = None
    output: int | None = None
    walk: Walk | None = None
    with_zeros: Floats | None = None
    inputs: dict[str, Floats] | None = None
    shares: tuple[tuple[Share, Floats], ...] = ()

    def refs(self, *roles: Role) -> tuple[Operand, ...]:
        return self.call.role(*roles) if self.call else ()

    @property
    def written(self) -> set[Index]:
        """The blocks to which some grid step's index map leads; all of them where unknown."""
        if self.walk is None or self.output is None:
            return set(self.result.indices())
        return set(self.walk.outputs[self.output])


# ---- the grid ----


def shared_by_parallel_steps(suspect: Suspect) -> Diagnosis | None:
    """A grid dimension is marked parallel, but its steps write to one output block.

    Known from the trace alone: whether the values come out right is then a matter of luck.
    """
    for axis in suspect.call.parallel if suspect.call else ():
        steps = suspect.call.grid[axis] if suspect.call else None
        for output in suspect.refs(Role.OUTPUT):
            if steps != 1 and axis not in output.axes:
                return Diagnosis(
                    f"grid dimension {axis} is not parallel: a race",
                    f"Grid dimension {axis} is marked parallel, but all its steps write to the "
                    f"same blocks of {output.name}, whose index map does not look at it. Parallel "
                    "steps may run in any order and on two cores, each with scratch of its own: a "
                    "race. Mark that dimension arbitrary.",
                )
    return None


# ---- NaN: memory that nothing has written ----


def never_visited(suspect: Suspect) -> Diagnosis | None:
    """Blocks to which no grid step's output index map leads."""
    result = suspect.result
    missed = [index for index in result.indices() if index not in suspect.written]
    if not missed:
        return None
    steps = len(suspect.walk.steps) if suspect.walk else 0
    return Diagnosis(
        f"{_blocks(missed)} never written",
        f"{_blocks(missed)} of {result.name} never written: no grid step's output index map leads "
        f"there. The grid has {count(steps, 'step')}, the result "
        f"{count(len(result.indices()), 'block')}.",
    )


def never_stored(suspect: Suspect) -> Diagnosis | None:
    """Elements that stay what memory held before: zeros if it held zeros."""
    result, zeros = suspect.result, suspect.with_zeros
    nan = np.isnan(result.actual) & result.wrong
    if zeros is None or not nan.any() or (zeros[nan] != 0).any() or not result.expected[nan].any():
        return None
    blocks = [index for index in result.indices() if nan[result.part(index)].any()]
    whole = all(nan[result.part(index)].all() for index in blocks)
    what = _blocks(blocks) if whole else f"{_elements(nan, blocks[0], result)}"
    reason = "The kernel stores nothing there."
    touch = next((o.first for o in suspect.refs(Role.OUTPUT) if o.name == result.name), None)
    if touch is Touch.NOTHING:
        reason = f"The kernel's body never stores to {result.name}."
    elif touch is Touch.GUARDED_WRITE:
        reason = (
            f"The store to {result.name} stands under a condition that does not hold on the steps "
            "that should write it."
        )
    return Diagnosis(f"{what} never written", f"{what} of {result.name} never written. {reason}")


def read_before_written(suspect: Suspect) -> Diagnosis | None:
    """NaN that would be another number if memory had started as zeros: garbage was used."""
    if not _garbage(suspect) or (_ragged(suspect) and not _first(suspect, Touch.READ)):
        return None
    sure = _first(suspect, Touch.READ)
    guarded = _first(suspect, Touch.GUARDED_WRITE)
    refs = sure or [o for o in guarded if o.role is Role.SCRATCH] or guarded
    if not refs:
        return None
    name = refs[0].name
    if sure:
        how = "The first thing the kernel does to it is to read it."
    else:
        how = (
            "It is written only under a condition, and that condition does not hold on the first "
            "step that reads it."
        )
    role = "Scratch" if refs[0].role is Role.SCRATCH else "An output block"
    return Diagnosis(
        f"{name} read before it was written",
        f"{name} is read before it was written. {how} {role} starts as whatever bits the memory "
        "held; here that is NaN.",
    )


def padding_used(suspect: Suspect) -> Diagnosis | None:
    """NaN from beyond an input's edge, where the last block overhangs the array."""
    ragged = _ragged(suspect)
    if not ragged or not _garbage(suspect):
        return None
    operand, axis = ragged[0]
    size, block = operand.array.shape[axis], operand.block[axis] or 1
    return Diagnosis(
        f"padding of {operand.name} was used",
        f"The padding of {operand.name} was used. Its dimension {axis} has {size} elements in "
        f"blocks of {block}, so the last block holds only {size % block} of them: what lies past "
        "the edge is garbage, and must be masked before it meets anything else.",
    )


def computed_nan(suspect: Suspect) -> Diagnosis | None:
    """NaN that the arithmetic itself made."""
    result = suspect.result
    nan = np.isnan(result.actual) & result.wrong
    if not nan.any() or suspect.with_zeros is None or not np.isnan(suspect.with_zeros[nan]).any():
        return None
    return Diagnosis(
        "NaN from arithmetic",
        "The arithmetic itself makes NaN, whatever memory held before: 0/0, inf − inf, inf × 0 or "
        "the logarithm or root of a negative number.",
    )


def _garbage(suspect: Suspect) -> bool:
    """Whether NaN in the result comes from memory that nothing had written."""
    nan = np.isnan(suspect.result.actual) & suspect.result.wrong
    if not nan.any() or suspect.with_zeros is None:
        return False
    return not np.isnan(suspect.with_zeros[nan]).any()


def _first(suspect: Suspect, touch: Touch) -> list[Operand]:
    return [o for o in suspect.refs(Role.SCRATCH, Role.OUTPUT) if o.first is touch]


def _ragged(suspect: Suspect) -> list[tuple[Operand, int]]:
    """Input dimensions that their block does not divide."""
    return [
        (operand, axis)
        for operand in suspect.refs(Role.INPUT)
        for axis, block in enumerate(operand.block)
        if block and operand.array.shape[axis] % block
    ]


# ---- numbers, but the wrong ones ----


def overflowed(suspect: Suspect) -> Diagnosis | None:
    """Infinity where a finite value belongs."""
    result = suspect.result
    infinite = np.isinf(result.actual) & np.isfinite(result.expected)
    if not infinite.any():
        return None
    return Diagnosis(
        "overflow to inf",
        f"{count(int(infinite.sum()), 'element')} overflowed to infinity where a finite value "
        "belongs: a value left its dtype's range (exp of a large number?).",
    )


def all_zero(suspect: Suspect) -> Diagnosis | None:
    """Every wrong element is exactly zero."""
    result = suspect.result
    if result.actual[result.wrong].any():
        return None
    return Diagnosis(
        "zeros where values belong",
        "Every wrong element is exactly zero: initialised, but nothing was added or stored after, "
        "or initialised again after the work was done.",
    )


def same_amount(suspect: Suspect) -> Diagnosis | None:
    """Every element is off by one constant."""
    result = suspect.result
    got, wanted, allowed = _wrong_values(result)
    if got.size < 2:
        return None
    amount = float(np.median(got - wanted))
    slack = allowed + _rounding(got, result.dtype)
    if not (np.abs(got - wanted - amount) <= slack).all() or abs(amount) <= slack.max():
        return None
    return Diagnosis(
        f"off by the same amount: {number(amount)}",
        f"Every wrong element is off by the same amount: {number(amount)}.",
    )


def same_factor(suspect: Suspect) -> Diagnosis | None:
    """Every element is off by one constant factor."""
    result = suspect.result
    got, wanted, allowed = _wrong_values(result)
    large = np.abs(wanted) > 4 * allowed
    if large.sum() < 2:
        return None
    factor = float(np.median(got[large] / wanted[large]))
    slack = allowed * max(abs(factor), 1.0) + _rounding(got, result.dtype)
    if not (np.abs(got - factor * wanted) <= slack).all():
        return None
    return Diagnosis(
        f"off by the same factor: {number(factor)}",
        f"Every wrong element is off by the same factor: {number(factor)} times what it should be.",
    )


def input_unchanged(suspect: Suspect) -> Diagnosis | None:
    """The result is one of the inputs."""
    result = suspect.result
    for name, value in (suspect.inputs or {}).items():
        if value.shape == result.actual.shape and np.array_equal(value, result.actual):
            return Diagnosis(f"equals {name}, unchanged", f"The result is {name}, unchanged.")
    return None


def another_block(suspect: Suspect) -> Diagnosis | None:
    """Wrong blocks that hold what belongs in other blocks: an index map that leads astray."""
    result = suspect.result
    wrong, every = result.wrong_blocks, result.indices()
    if len(every) < 2 or len(wrong) * len(every) > MOST_PAIRS:
        return None
    moved = {index: home for index in wrong if (home := _home(result, index, every))}
    if len(moved) < len(wrong) or not moved:
        return None
    whole = "; ".join(f"{i} holds block {home}'s" for i, home in list(moved.items())[:4])
    first, home = next(iter(moved.items()))
    return Diagnosis(
        f"block {first} holds what belongs in block {home}",
        f"{_pattern(moved) or whole}. In all, {count(len(moved), 'block')} of {result.name} "
        f"{'hold' if len(moved) > 1 else 'holds'} what belongs in block elsewhere: for example "
        f"block {first} holds what belongs in block {home}. Look at the index maps.",
    )


def _home(result: Comparison, index: Index, every: list[Index]) -> Index | None:
    got = result.actual[result.part(index)]
    for other in every:
        part = result.part(other)
        if other != index and result.close(got, result.expected[part], result.allowed[part]):
            return other
    return None


def _pattern(moved: dict[Index, Index]) -> str:
    """Name a move that one dimension explains: "block row 1 looks like block row 0's values"."""
    words = {1: ["block"], 2: ["block row", "block column"]}.get(len(next(iter(moved))), [])
    for axis, word in enumerate(words):
        others = all(a[:axis] + a[axis + 1 :] == b[:axis] + b[axis + 1 :] for a, b in moved.items())
        pairs = {(a[axis], b[axis]) for a, b in moved.items()}
        if others and len(dict(pairs)) == len(pairs):
            return listed(
                (f"{word} {a} looks like {word} {b}'s values" for a, b in sorted(pairs)), 3
            )
    return ""


def one_share_of_the_sum(suspect: Suspect) -> Diagnosis | None:
    """The result is what a single block of an input contributes: the rest of a sum is lost."""
    result = suspect.result
    for share, value in suspect.shares:
        slack = 2 * result.allowed + 2 * _rounding(value, result.dtype)
        if result.close(result.actual, value, slack):
            other = "later" if share.which == "first" else "earlier"
            return Diagnosis(
                f"only the {share.which} block of {share.name} counts",
                f"The result is what the {share.which} block of {share.name} along its dimension "
                f"{share.axis} contributes; what {other} grid steps add is lost.",
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
        f"block {index} still holds what was summed for block {other}",
        f"Block {index} holds its own sum plus stale values: what was summed for block {other} "
        "before it. Whatever the sum is kept in was not cleared between the two.",
    )


def _leftover(result: Comparison, index: Index, every: list[Index]) -> Index | None:
    part = result.part(index)
    excess = result.actual[part] - result.expected[part]
    for other in every:
        there = result.part(other)
        slack = 4 * (result.allowed[part].max() + result.allowed[there].max())
        if other != index and result.close(
            excess, result.actual[there], np.full_like(excess, slack)
        ):
            return other
    return None


def transposed(suspect: Suspect) -> Diagnosis | None:
    """Every wrong block is the transpose of what it should be."""
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
    what = "rows" if result.actual.ndim > 1 else "elements"
    return Diagnosis(
        f"{what} are in another order",
        f"The {what} of each wrong block are all there, but the {what} are in another order.",
    )


def _lexical(value: Floats) -> Any:
    """The order of the first axis by the values that follow, coarse enough to survive rounding."""
    rows = value.reshape(value.shape[0], -1)
    return np.argsort(rows[:, 0], kind="stable")


def rounded_too_early(suspect: Suspect) -> Diagnosis | None:
    """Errors of bfloat16 size in a result that should have float32's: rounded on the way."""
    result = suspect.result
    if result.dtype not in ROUNDOFF or not np.isfinite(result.actual).all():
        return None
    scale, error = _rms(result.expected), _rms(result.actual - result.expected)
    # One rounding to bfloat16 errs by about 2**-10 of a value; sums make it a little more.
    if not 2**-12 * scale <= error <= 2**-5 * scale:
        return None
    return Diagnosis(
        "rounded too early",
        "The errors are small, but as large as bfloat16 makes them: something was rounded too "
        "early. Accumulate in float32 (preferred_element_type, a float32 scratch) and cast once, "
        "at the end.",
    )


def only_the_last(suspect: Suspect) -> Diagnosis | None:
    """Every wrong block is the last along one axis."""
    result = suspect.result
    for axis, blocks in enumerate(result.grid):
        if blocks > 1 and {index[axis] for index in result.wrong_blocks} == {blocks - 1}:
            size, block = result.actual.shape[axis], result.block[axis]
            ragged = (
                f", which holds only {size % block} of {block} elements" if size % block else ""
            )
            return Diagnosis(
                "only the last block is wrong",
                f"Along dimension {axis} only the last block is wrong{ragged}: look at what the "
                "kernel does at the array's edge or on its last grid step.",
            )
    return None


def only_the_first(suspect: Suspect) -> Diagnosis | None:
    """Only the first block along one axis is right: later grid steps go wrong."""
    result = suspect.result
    right = set(result.indices()) - set(result.wrong_blocks)
    for axis, blocks in enumerate(result.grid):
        if blocks > 1 and right and {index[axis] for index in right} == {0}:
            return Diagnosis(
                "only the first block is right",
                f"Along dimension {axis} only the first block is right: something that is set up "
                "on the first grid step does not hold on later ones.",
            )
    return None


# ---- helpers ----


def _wrong_values(result: Comparison) -> tuple[Floats, Floats, Floats]:
    wrong = result.wrong
    got, wanted, allowed = result.actual[wrong], result.expected[wrong], result.allowed[wrong]
    finite = np.isfinite(got) & np.isfinite(wanted)
    if not finite.all():
        return got[:0], wanted[:0], allowed[:0]
    return got, wanted, allowed


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def _rounding(got: Floats, dtype: str) -> Floats:
    return 2 * ROUNDOFF.get(dtype, 0.0) * np.abs(got)


def _blocks(indices: Iterable[Index]) -> str:
    found = [index[0] if len(index) == 1 else index for index in indices]
    return f"block {found[0]}" if len(found) == 1 else f"blocks {listed(found)}"


def _elements(mask: Any, block: Index, result: Comparison) -> str:
    """The bounding box of the marked elements of one block, in the whole array's indices."""
    part = result.part(block)
    places = np.argwhere(mask[part])
    starts = [p.start + int(low) for p, low in zip(part, places.min(0), strict=True)]
    ends = [p.start + int(high) + 1 for p, high in zip(part, places.max(0), strict=True)]
    box = ", ".join(f"{a}:{b}" for a, b in zip(starts, ends, strict=True))
    return f"elements [{box}]"


def map_of_blocks(result: Comparison) -> str:
    """The blocks as a picture, "#" wrong and "." right; empty where that shows nothing."""
    grid = result.grid
    all_wrong = len(result.wrong_blocks) == len(result.indices())
    if len(grid) > 2 or max(grid, default=1) > 32 or all_wrong:
        return ""
    rows = grid[0] if len(grid) == 2 else 1
    wrong = set(result.wrong_blocks)
    lines = []
    for row in range(rows):
        cells = ((row, c) if len(grid) == 2 else (c,) for c in range(grid[-1]))
        lines.append("  " + " ".join("#" if cell in wrong else "." for cell in cells))
    return "\n".join(lines)


def headline(result: Comparison) -> str:
    """How much is wrong, in grid terms."""
    blocks, wrong = result.indices(), result.wrong_blocks
    if len(blocks) == 1:
        share = f"{int(result.wrong.sum())} of {result.wrong.size} elements are wrong"
        return f"{result.name}: {share}"
    which = "all" if len(wrong) == len(blocks) else _blocks(wrong)
    verb = "is" if len(wrong) == 1 else "are"
    return f"{result.name}: {which} of its {times(result.grid)} blocks {verb} wrong"


DIAGNOSES: tuple[Callable[[Suspect], Diagnosis | None], ...] = (
    shared_by_parallel_steps,
    never_visited,
    never_stored,
    read_before_written,
    padding_used,
    computed_nan,
    overflowed,
    all_zero,
    input_unchanged,
    same_amount,
    same_factor,
    another_block,
    one_share_of_the_sum,
    left_over,
    transposed,
    rows_reordered,
    rounded_too_early,
    only_the_last,
    only_the_first,
)


def diagnose(suspect: Suspect) -> Diagnosis | None:
    """The first pattern that explains a wrong result, or None."""
    for diagnosis in DIAGNOSES:
        if found := diagnosis(suspect):
            return found
    return None
