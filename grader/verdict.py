"""What is checked, under which conditions, and the verdict: Case in, Grade out."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pallascope.model.observations import Mode

MOST_STARS = 3
#: What is said of a case of production size, in words.
PREDICTED = "of production size: judged without being run"


class Check(enum.Enum):
    """One rung of the ladder: one question asked of a kernel on a hidden case."""

    RUNS = "runs"
    CONTRACT = "contract"
    OWN_WORK = "own_work"
    PALLAS_USED = "pallas_used"
    PREDICTIONS = "predictions"
    PLANTED = "planted"
    VALUES = "values"
    RANDOM = "random"
    BLOCKS = "blocks"
    LOWERS = "lowers"
    COMPILES = "compiles"
    COST = "cost"

    @property
    def title(self) -> str:
        return self.value.replace("_", " ")


class State(enum.Enum):
    """The verdict on one hidden case, and on a kata (its worst case)."""

    TODO = "todo"
    FAILED = "failed"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Device:
    """Where kernels run in this session, and how.

    `also` names, in words, the runs that come in addition. `tpu`: what passes also runs on the TPU.
    """

    backend: str  # JAX's name: "cpu" or "tpu"
    mode: Mode
    also: tuple[str, ...] = ()
    tpu: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """What the grades of one session were given under. Costs are of the first of the chips.

    `isolation` says by what a kata's process was kept from the rest of the machine, or why not.
    Katas for GPUs were judged for `gpu`, or for the only one that has what they are about.
    """

    seed: int
    device: Device
    chips: tuple[str, ...]
    isolation: str = ""
    gpu: str = "h100"


@dataclass(frozen=True, slots=True)
class Case:
    """One hidden case: what was drawn from the answer key for one kata in one session.

    `sizes` holds dimensions and block sizes by name; `dtype` is what the kata's `Float` (or other
    open) annotations become; `seed` fixes the values of the arrays. A case of `production` size is
    compiled and predicted, and never run.
    """

    kata: str
    index: int
    session_seed: int
    seed: int
    sizes: dict[str, int]
    dtype: str
    production: bool = False

    def __str__(self) -> str:
        sizes = [f"{name}={size}" for name, size in self.sizes.items()]
        drawn = ", ".join([*sizes, f"dtype={self.dtype}"])
        return f"{drawn} ({PREDICTED})" if self.production else drawn


@dataclass(frozen=True, slots=True)
class Finding:
    """Why a check said no: a phrase for a table cell, and the whole explanation.

    `full` is an exception's whole traceback, which -vv shows.
    """

    check: Check
    phrase: str
    message: str
    full: str = ""


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A rung that could not be asked, and why: its star, and those above it, are not given.

    It is no fault of the kernel's, as far as is known.
    """

    check: Check
    why: str

    def __str__(self) -> str:
        return f"not judged: {self.check.title} ({self.why})"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a launch and par take on one chip: bytes from and to HBM, and cycles.

    None where the index maps, or the compiler's schedule, don't say.
    """

    chip: str
    bytes: int | None
    par_bytes: int | None
    cycles: int | None
    par_cycles: int | None


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one kata for one hidden case. `stars` are 0 to 3.

    A case may be passed with a finding, which then says what the last star takes. `not_judged` is
    the first rung that could not be asked: `stars` stop below it. `blob` is git's id of the file's
    content, "" where that changed while it was graded. `gpu` is the one that it was judged for, ""
    of a kata for TPUs. `accident`: a process that judged was killed from outside, or the grader
    itself failed, so that another run may find something else; nothing stores such a grade.
    """

    kata: str
    case: int
    state: State
    stars: int
    finding: Finding | None = None
    drawn: str = ""  # the case in words
    seconds: float = 0.0
    printed: str = ""  # what the learner's code printed
    cost: Cost | None = None
    not_judged: NotJudged | None = None
    notes: tuple[str, ...] = ()  # what the learner should know, and what changes no verdict
    blob: str = ""
    gpu: str = ""
    accident: bool = False
