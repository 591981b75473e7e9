"""The data of an answer key: defaults, dtypes, number of hidden cases, titles of hints, slack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from grader.exercise.key_tables import KataKind, Predictions, Randomness, Tested
from grader.exercise.targets import DEFAULT_TARGET, Target
from pallascope.model import Axes, Check, Roundings

#: A kata's hints in order, and how much each gives away.
HINTS = ("a nudge", "the pattern", "nearly all of it")
DTYPES = ("float32", "bfloat16", "float16", "int32", "int8", "uint8", "int16", "uint32", "bool")

#: Operations that are allowed around a kernel by default: they only change the layout of elements.
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

#: The choices of each name in [cases]: numbers, or arithmetic over other names.
Choices = dict[str, tuple[int | str, ...]]


#: The default number of hidden cases in a session, and the bounds of a key's `count`.
DEFAULT_CASES = 4
MIN_CASES, MAX_CASES = 3, 5


@dataclass(frozen=True, slots=True)
class Slack:
    """A kernel may exceed par by these fractions of par."""

    bytes: float = 0.10
    cycles: float = 0.15


@dataclass(frozen=True, slots=True)
class Sizes:
    """The choices of the sizes and the dtype of a case.

    Names that are grouped in `together` have lists of the same length, and a case takes the same
    index of each.
    """

    choices: Choices
    together: tuple[tuple[str, ...], ...]
    dtypes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Mistake:
    """A known mistake: replace `old` by `new` in the solution.

    The check `caught` must reject it with a message that contains `says`.
    """

    title: str
    old: str
    new: str
    caught: Check
    says: str


@dataclass(frozen=True, slots=True)
class Key:
    """One kata's answer key.

    `write` names the part of the kata that the learner writes, such as "kernel and specs".
    `choices` maps each name in [cases] to its choices. `together` is as in `Sizes`. `alike` maps
    sizes or numbers of blocks ("N", "K//bk") that may have one value in all cases, and pairs that
    may be equal in all cases ("T, S"), to the reason. `edges` maps sides of a region's comparisons,
    branches and loops ("left > 0: equal") that no case of a session may reach to the reason.
    `fillings` are the region bodies of the stub, as code. Without a `kernel` the launch is plain
    jax.numpy, traced by jit; with `block_by_block`, no array may be as large as all blocks
    together. `outside` are the primitives that are allowed around the kernel; those that compute
    are only for integers, unless `outside_floats` is set. Products of float32 need
    `full_precision`. With `operations`, a kernel's body of more operations, as traced, costs the
    third star: a loop that Python unrolls has many. `timeout` is in seconds, None for pytest's.
    `count` hidden cases are run. With `production`, one more case is compiled and predicted, and
    only this case is compared with par. `values` are smaller sizes for its values, if those of
    production size take too long to compute. `par_required`: missing par fails the kata instead of
    costing a star. `predictions` and `tested` are for katas that ask for numbers or for a test;
    these have no `kernel`. `random` describes random results. `results` names the launch's results
    if some aren't outputs of a kernel.
    `mesh` has the axes of the launch's devices; () for a single device. `cores` is the number of
    TensorCores of the chip that it is judged for. `target` is the launch's hardware.
    `after` is the text for learners who have solved the kata; "" for none.
    """

    title: str
    concept: str
    write: str
    hints: tuple[str, ...]  # as many as HINTS
    fillings: tuple[str, ...]
    debugging: bool  # the stub's regions have wrong code to repair instead of a raise
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
    values: Sizes | None = None
    alike: Mapping[str, str] = field(default_factory=dict)
    edges: Mapping[str, str] = field(default_factory=dict)
    block_by_block: bool = False
    after: str = ""
    predictions: Predictions | None = None
    tested: Tested | None = None
    random: Randomness | None = None
    results: tuple[str, ...] = ()
    mesh: Axes = ()
    target: Target = DEFAULT_TARGET
    cores: int = 1
    operations: int | None = None

    @property
    def kind(self) -> KataKind:
        """The kind of kata, which says what the learner writes."""
        if self.predictions:
            return KataKind.PREDICTIONS
        if self.tested:
            return KataKind.TEST
        if not self.kernel:
            return KataKind.TABLES
        return KataKind.CASE_FILE if self.debugging else KataKind.KERNEL

    def is_about(self, check: Check) -> bool:
        """Whether the kata can't be solved on a machine without this check and those after it.

        That is so if par is required, or if these checks catch at least half of the known mistakes.
        """
        order = list(Check)
        behind = [m for m in self.mistakes if order.index(m.caught) >= order.index(check)]
        return self.par_required or 2 * len(behind) >= max(len(self.mistakes), 1)

    @property
    def total(self) -> int:
        """The number of the kata's hidden cases in a session."""
        return self.count + (self.production is not None)
