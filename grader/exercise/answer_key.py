"""What an answer key holds, once read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.exercise.key_tables import KataKind, Predictions, Randomness, Tested
from grader.exercise.targets import DEFAULT_TARGET, Target
from grader.verdict import Check
from pallascope.model import Axes

#: A kata's hints, from the first to the last: what each of them gives away.
HINTS = ("a nudge", "the pattern", "nearly all of it")
DTYPES = ("float32", "bfloat16", "float16", "int32", "int8", "uint8", "int16", "uint32", "bool")

#: What may stand around a kernel unless its key says otherwise: operations that only say how the
#: elements are laid out.
LAYOUT = (
    "reshape",
    "transpose",
    "broadcast_in_dim",
    "squeeze",
    "expand_dims",
    "slice",
    "concatenate",
    "stack",
    "unstack",
    "split",
    "pad",
    "copy",
)

#: What each name of [cases] may be: numbers, or arithmetic over other names.
Choices = dict[str, tuple[int | str, ...]]


@dataclass(frozen=True, slots=True)
class Slack:
    """How far above par a kernel may lie, as fractions of par."""

    bytes: float = 0.10
    cycles: float = 0.15


@dataclass(frozen=True, slots=True)
class Roundings:
    """How often a kernel may round: each result to its own dtype, and the operands of its sums to
    the coarsest floating dtype among the inputs."""

    results: int = 2
    operands: int = 0


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the sizes and the dtype of a case may be.

    Names that stand `together` have equally many choices, and a case takes the same one of each.
    """

    choices: Choices
    together: tuple[tuple[str, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known wrong solution: replace `old` by `new`; `caught` must reject it, saying `says`."""

    title: str
    old: str
    new: str
    caught: Check
    says: str


@dataclass(frozen=True, slots=True)
class Key:
    """One kata's answer key.

    `write` is the part of the kata that the learner writes, as in "kernel and specs".
    `choices` maps each name of [cases] to what it may be: numbers, or arithmetic over other names.
    Names that stand `together` have equally many choices, and a case takes the same one of each.
    `alike` says what a session's cases need not tell apart, and why: a size or a number of blocks
    ("N", "K//bk"), or two that may be equal in all cases ("T, S").
    `fillings` are the stubs' region bodies, as code. Without a `kernel` the launch is plain
    jax.numpy, traced by jit; if it is to go `block_by_block`, no array may be as large as all
    blocks together. `outside` are primitives; those that compute are for integers only,
    unless there is `outside_floats`; products of float32 need `full_precision`. `timeout` is in
    seconds, None for pytest's. `count` hidden cases are run; where there is a `production`, one
    more is compiled and predicted instead, and it alone decides about par.
    `par_required`: missing par fails the kata, instead of costing a star. Where numbers or a test
    are asked for, `predictions` or `tested` say which, and there is no `kernel`. `random` says how
    results come about by chance, if they do. `results` names what the launch returns, where not
    all of it is a kernel's output.
    `mesh` are the axes of the devices that the launch is for; () for a single device. `cores` is
    how many TensorCores it is for: it is judged for a chip of which a device has as many. `target`
    is the hardware that the launch is for.
    `after` is what is said once the kata is solved, as paragraphs; "" for nothing.
    """

    title: str
    concept: str
    write: str
    hints: tuple[str, ...]  # as many as HINTS
    fillings: tuple[str, ...]
    debugging: bool  # the regions ship with wrong code to mend instead of a raise
    choices: Choices
    dtypes: tuple[str, ...]
    count: int
    production: Sizes | None
    kernel: bool
    outside: tuple[str, ...]
    outside_floats: bool
    full_precision: bool
    roundings: Roundings
    timeout: float | None
    par_required: bool
    slack: Slack
    mistakes: tuple[Mistake, ...]
    together: tuple[tuple[str, ...], ...] = ()
    alike: Mapping[str, str] = field(default_factory=dict)
    block_by_block: bool = False
    after: str = ""
    predictions: Predictions | None = None
    tested: Tested | None = None
    random: Randomness | None = None
    results: tuple[str, ...] = ()
    mesh: Axes = ()
    target: Target = DEFAULT_TARGET
    cores: int = 1

    @property
    def kind(self) -> KataKind:
        """What the learner writes."""
        if self.predictions:
            return KataKind.PREDICTIONS
        if self.tested:
            return KataKind.TEST
        if not self.kernel:
            return KataKind.TABLES
        return KataKind.CASE_FILE if self.debugging else KataKind.KERNEL

    def is_about(self, check: Check) -> bool:
        """Whether the kata can't be solved where this check, and those behind it, can't judge.

        So it is where par is required, which the last check compares with, and where at least half
        of the known mistakes are caught by these checks.
        """
        order = list(Check)
        behind = [m for m in self.mistakes if order.index(m.caught) >= order.index(check)]
        return self.par_required or 2 * len(behind) >= max(len(self.mistakes), 1)

    @property
    def total(self) -> int:
        """How many hidden cases a session has of the kata."""
        return self.count + (self.production is not None)
