"""The data of grading: hidden cases, checks, findings, costs and grades."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from pallascope.model import Finding, NotJudged
from pallascope.model.observations import Mode

MAX_STARS = 3
#: Follows the text of a case of production size.
PRODUCTION_NOTE = "of production size"


class State(enum.Enum):
    """The verdict on one hidden case, and on a kata (its worst case)."""

    TODO = "todo"
    FAILED = "failed"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class Device:
    """Where and how kernels run in this session.

    `also` describes additional runs. With `tpu`, kernels that pass also run on the TPU.
    """

    backend: str  # JAX's name: "cpu" or "tpu"
    mode: Mode
    also: tuple[str, ...] = ()
    tpu: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """The settings of one session. Costs are predicted for the first of `chips`.

    `isolation` describes how a kata's process was isolated from the machine, or why it was not.
    Katas for GPUs were judged for `gpu`, unless their key names the only GPU that they run on.
    """

    seed: int
    device: Device
    chips: tuple[str, ...]
    isolation: str = ""
    gpu: str = "h100"


@dataclass(frozen=True, slots=True)
class Case:
    """One hidden case, drawn from a kata's answer key for one session.

    `sizes` holds dimensions and block sizes by name. `dtype` is the dtype of arrays whose
    annotation admits several, such as `Float`. `seed` determines the values of the arrays. A case
    of `production` size is compiled and predicted, and never run.
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
        description = ", ".join([*sizes, f"dtype={self.dtype}"])
        return f"{description} ({PRODUCTION_NOTE})" if self.production else description


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a launch and of par on one chip: bytes from and to HBM, and cycles.

    None where the index maps or the compiler's schedule don't determine a number.
    """

    chip: str
    bytes: int | None
    par_bytes: int | None
    cycles: int | None
    par_cycles: int | None


@dataclass(frozen=True, slots=True)
class Grade:
    """The verdict on one kata for one hidden case. `stars` are 0 to 3.

    A passed case may have a finding, which then explains the missing third star. `not_judged` is
    the first rung that could not be judged; `stars` stop below it. `blob` is git's id of the file's
    content, "" if the file changed during grading. `gpu` is the GPU that the kata was judged for,
    "" for TPUs. `accident`: a judging process was killed from outside, or the grader itself failed.
    Another run may give another verdict then, so such a grade is not stored.
    """

    kata: str
    case: int
    state: State
    stars: int
    finding: Finding | None = None
    drawn: str = ""  # the case as text
    seconds: float = 0.0
    printed: str = ""  # what the learner's code printed
    cost: Cost | None = None
    not_judged: NotJudged | None = None
    notes: tuple[str, ...] = ()  # for the learner; they don't change the verdict
    blob: str = ""
    gpu: str = ""
    accident: bool = False
