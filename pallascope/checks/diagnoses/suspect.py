"""A wrong result, its headline and the picture of wrong blocks, and helpers of all diagnoses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from pallascope.checks.compare import (
    ROUNDOFF,
    Comparison,
    Floats,
    Index,
    Mask,
)
from pallascope.checks.phrasing import listed, times
from pallascope.model import (
    KernelCall,
    Operand,
    OutputBlocks,
    Role,
    Share,
)


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A phrase for a table cell, and a sentence or two for the author.

    `vague`: it describes the numbers and doesn't name their cause. `guess`: it names likely causes,
    which the name of a known mistake may contradict. `tested`: the cause explains all elements;
    only the name of a known mistake says more. `symptom`: a change of the kernel that makes the
    results right may say more.
    """

    phrase: str
    why: str
    vague: bool = False
    guess: bool = False
    tested: bool = False
    symptom: bool = False


@dataclass(frozen=True, slots=True)
class Suspect:
    """A wrong result, and the evidence about its cause.

    `with_zeros` is the same result with zeros instead of NaN in unwritten memory; `output` says
    which of the kernel's outputs it is, by position. Both are None where unknown. `padding` are the
    inputs whose padding alone makes NaN, None where unknown; `strict`: the strict interpreter ran
    it. Nothing depends on the inputs of the launch that are `unused`. `others` are the launch's
    other results. `as_xla` is the result if the operation that `edge` describes is computed as by
    XLA on the CPU, `finite` that for inputs with zeros instead of NaN and infinity. Other contents
    of the buffers `unwritten`, before their first write, change the results. `nonfinite_by` are the
    operations that make NaN of other numbers, or infinity of finite ones, and their lines.
    """

    result: Comparison
    call: KernelCall | None = None
    output: int | None = None
    output_blocks: OutputBlocks | None = None
    with_zeros: Floats | None = None
    inputs: dict[str, Floats] | None = None
    shares: tuple[tuple[Share, Floats], ...] = ()
    padding: tuple[str, ...] | None = None
    strict: bool = True
    unused: tuple[str, ...] = ()
    others: tuple[Comparison, ...] = ()
    edge: str = ""
    as_xla: Floats | None = None
    finite: Floats | None = None
    unwritten: tuple[str, ...] = ()
    nonfinite_by: tuple[tuple[str, int], ...] = ()

    def refs(self, *roles: Role) -> tuple[Operand, ...]:
        return self.call.role(*roles) if self.call else ()

    @property
    def written(self) -> set[Index]:
        """The blocks that the index map returns on some grid step; all of them where unknown."""
        if self.output_blocks is None or self.output is None:
            return set(self.result.indices())
        return set(self.output_blocks.outputs[self.output])

    @property
    def wrong_nan(self) -> Mask:
        """Where the result is NaN and should not be."""
        return np.isnan(self.result.actual) & self.result.wrong

    @property
    def garbage(self) -> bool:
        """Whether the NaN in the result come from memory that nothing had written."""
        nan = self.wrong_nan
        if self.with_zeros is None or not nan.any():
            return False
        return not np.isnan(self.with_zeros[nan]).any()

    @property
    def computed_nan(self) -> bool:
        """Whether the result has NaN even if all unwritten memory holds zeros."""
        nan = self.wrong_nan
        zeros = self.with_zeros
        return bool(nan.any() and zeros is not None and np.isnan(zeros[nan]).any())


def wrong_values(result: Comparison) -> tuple[Floats, Floats, Floats]:
    wrong = result.wrong
    got, wanted, allowed = result.actual[wrong], result.expected[wrong], result.allowed[wrong]
    finite = np.isfinite(got) & np.isfinite(wanted)
    if not finite.all():
        return got[:0], wanted[:0], allowed[:0]
    return got, wanted, allowed


def rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if values.size else 0.0


def rounding(got: Floats, dtype: str) -> Floats:
    return 2 * ROUNDOFF.get(dtype, 0.0) * np.abs(got)


def blocks_in_words(indices: Iterable[Index]) -> str:
    names = [index[0] if len(index) == 1 else index for index in indices]
    return f"block {names[0]}" if len(names) == 1 else f"blocks {listed(names)}"


def map_of_blocks(result: Comparison) -> str:
    """The blocks as a picture, "#" wrong and "." right; "" if it would show nothing."""
    grid = result.grid
    all_wrong = len(result.wrong_blocks) == len(result.indices())
    if len(grid) > 2 or max(grid, default=1) > 32 or all_wrong:
        return ""
    cells = np.full(grid, ".")
    for index in result.wrong_blocks:
        cells[index] = "#"
    return "\n".join("  " + " ".join(row) for row in np.atleast_2d(cells))


def headline(result: Comparison) -> str:
    """How much is wrong, in grid terms."""
    blocks, wrong = result.indices(), result.wrong_blocks
    if len(blocks) == 1:
        share = f"{int(result.wrong.sum())} of {result.wrong.size} elements are wrong"
        return f"{result.name}: {share}"
    which = "all" if len(wrong) == len(blocks) else blocks_in_words(wrong)
    verb = "is" if len(wrong) == 1 else "are"
    return f"{result.name}: {which} of its {times(result.grid)} blocks {verb} wrong"
