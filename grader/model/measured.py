"""What is known of a program, and what came of a learner's test: for katas without a kernel."""

from __future__ import annotations

import enum
from dataclasses import dataclass

#: What is asked of a program, in the order of a learner's answers: bytes, operations, µs at best,
#: how many times as fast as XLA's program a kernel may be.
QUANTITIES = ("bytes", "flops", "best_us", "speedup")


@dataclass(frozen=True, slots=True)
class Moved:
    """One instruction of XLA's program, and the bytes that it reads from and writes to HBM."""

    name: str
    read: int
    written: int

    @property
    def bytes(self) -> int:
        return self.read + self.written


@dataclass(frozen=True, slots=True)
class Baseline:
    """What XLA makes of a program: its instructions, and its own estimate in seconds.

    Where XLA could not be asked, `missing` says why.
    """

    steps: tuple[Moved, ...] = ()
    seconds: float = 0.0
    missing: str = ""

    @property
    def bytes(self) -> int:
        return sum(step.bytes for step in self.steps)


@dataclass(frozen=True, slots=True)
class Program:
    """A program at the sizes of a case, as it is measured.

    `read` and `written` are the bytes of its inputs and results, each once, and `elements` how many
    elements these have. `bandwidth` is that of HBM in bytes a second, `peak` how many of its
    operations the MXU does in a second, and `other_peak` that of the dtype that it does not
    multiply. Of its `flops`, `products` are those of matrix products. `baseline` is None where
    nobody asked for it.
    """

    name: str
    read: int
    written: int
    elements: int
    flops: int
    bandwidth: float
    peak: float
    other_peak: float
    baseline: Baseline | None = None
    products: int = 0

    @property
    def bytes(self) -> int:
        return self.read + self.written

    @property
    def best(self) -> float:
        """Seconds that no program can be faster than: the roofline."""
        return max(self.bytes / self.bandwidth, self.flops / self.peak)

    @property
    def speedup(self) -> float:
        """How many times as fast as XLA's program the best one is, were both at the roofline."""
        assert self.baseline
        return max(self.baseline.bytes / self.bandwidth, self.flops / self.peak) / self.best


@dataclass(frozen=True, slots=True)
class Measured:
    """The programs of a kata on one chip."""

    programs: tuple[Program, ...]


class Verdict(enum.Enum):
    """What a test says of a kernel."""

    PASSED = "passed"
    REJECTED = "rejected"


@dataclass(frozen=True, slots=True)
class Trial:
    """What a learner's test said of one version of the kernel under test.

    `kernel` goes on from "a kernel that". `error` and `line` are of the exception with which it was
    rejected, and `calls` is how often the test called the kernel.
    """

    kernel: str
    right: bool
    verdict: Verdict
    calls: int
    error: str = ""
    line: int = 0
