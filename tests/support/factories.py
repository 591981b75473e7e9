"""Small values of the grader's model, made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from grader.checks.evidence import TpuEvidence, required_by
from grader.exercise.answer_key import Key, Slack
from pallascope.model import (
    Accident,
    Array,
    ArrayType,
    BlockSample,
    Clues,
    Mode,
    Observation,
    Reference,
    ResultSample,
    Roundings,
    SourceFile,
    Trace,
)
from pallascope.tools.arrays import from_numpy
from pallascope.tpu import OnChip, Prediction
from pallascope.tpu.traffic import Traffic
from tests.pallascope.support.calls import array, doubling, trace

FILE = "katas/1_first/kata_01_double.py"
X = np.random.default_rng(0).standard_normal((32, 128))


def attempt(result: Any = 2 * X, traced: Trace | None = None, **others: Any) -> Observation:
    """An attempt at doubling X with one result."""
    return Observation(trace=traced or trace(doubling()), outputs=(array(result),), **others)


def reference(expected: Sequence[Any] = (2 * X,), contraction: int = 1) -> Reference:
    wanted = tuple(from_numpy(np.asarray(value, np.float64)) for value in expected)
    return Reference(
        names=("x",),
        inputs=(array(X),),
        keywords={"bm": 8},
        expected=wanted,
        results=tuple(ArrayType("float32", value.shape) for value in wanted),
        annotations=('Float[Array, "M N"]',) * len(wanted),
        contraction=contraction,
    )


@dataclass(frozen=True, slots=True)
class OwnAndPar:
    """A launch and par's, each with the compiler's prediction or a problem."""

    own: OnChip | Accident
    par: OnChip | Accident


def at_par() -> OwnAndPar:
    """A compiled launch that is also its own par."""
    moved = Traffic("double", (4,), (), ())
    compiled = OnChip(None, (Prediction("v5e", doubling(), (), moved, (), compiled=True),))
    return OwnAndPar(compiled, compiled)


def evidence(
    tried: Observation | Accident,
    against: Reference | None = None,
    outside: tuple[str, ...] = ("reshape", "transpose"),
    clues: Callable[[], Clues] = Clues,
    mode: Mode = Mode.STRICT,
    roundings: int = 2,
    operand_roundings: int = 0,
    kernel: bool = True,
    on_chips: OwnAndPar | None = None,
    chips: tuple[str, ...] = ("v5e",),
    par_required: bool = False,
    slack: Slack = Slack(),  # noqa: B008
    outside_floats: bool = False,
    full_precision: bool = False,
    production: bool = False,
    costs: bool = True,
    block_by_block: bool = False,
    operations: int | None = None,
) -> TpuEvidence:
    """Evidence; by default the kernel has the same cost as par."""
    arrived = on_chips or at_par()
    asked = key(
        outside=outside,
        kernel=kernel,
        roundings=Roundings(roundings, operand_roundings),
        par_required=par_required,
        slack=slack,
        block_by_block=block_by_block,
        outside_floats=outside_floats,
        full_precision=full_precision,
        operations=operations,
    )
    return TpuEvidence(
        **required_by(asked),
        mode=mode,
        file=FILE,
        attempt=tried,
        reference=against or reference(),
        clues=clues,
        chips=chips,
        own_on_chips=lambda: arrived.own,
        par_on_chips=lambda: arrived.par,
        production=production,
        costs=costs,
        own_sample=lambda: NOTHING_SAMPLED,
        par_sample=lambda: NOTHING_SAMPLED,
    )


#: A result without elements.
NOTHING_SAMPLED = BlockSample(
    (ResultSample((0,), Array("int64", (0,), b""), Array("float32", (0,), b"")),)
)


def key(**fields: Any) -> Key:
    """The answer key of a kata for TPUs, with these fields."""
    plain = Key(
        *("Double", "grids", "kernel", (), (), False, {}, ("float32",), 4),
        *(None, True, (), False, False, Roundings(), None, False, Slack(), ()),
    )
    return dataclasses.replace(plain, **fields)


def with_key(given: TpuEvidence, **fields: Any) -> TpuEvidence:
    """The same evidence for a kata with other fields in its key."""
    return dataclasses.replace(given, **required_by(dataclasses.replace(given.key, **fields)))


#: A file that no line of anybody's is in.
NOWHERE = SourceFile("absent.py", b"")


def read(file: Path) -> SourceFile:
    """The current content of a file."""
    return SourceFile(str(file), file.read_bytes())
