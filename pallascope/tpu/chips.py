"""The table of TPU chips, each number with its source.

Numbers are of one TensorCore, of which v4, v5p and tpu7x have two to a chip. Sources:

    pages      Google's "System architecture" page of each chip, at docs.cloud.google.com/tpu/docs
    jax        `pltpu.get_tpu_info()`; `test_chips.py` compares this table with it
    paper      Jouppi et al., "TPU v4", ISCA 2023 (arXiv 2304.01433)
    book       "How to Scale Your Model", jax-ml.github.io/scaling-book, chapter on TPUs
    peak       what makes the peak of the pages: clock = peak / (2 * multiply-adds a cycle)
    compiler   what libtpu says or does: 0.0.42.1, 0.0.50.1 and 0.0.51 agree
    fitted     to measured times; see `dma_latency`
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from pallascope.tools.text import format_time


class Trust(enum.Enum):
    """Whether predicted times were compared with times measured on the chip, and how that went."""

    VALIDATED = "compared with measured ones, and close to them"
    TWO_CORES = "the same, whether one TensorCore runs the kernel or two share its grid"
    UNKNOWN = "no measured times are known to compare predicted ones with"
    DOUBTFUL = "predicted times have been wrong by a factor of up to 2.8: not to be judged by"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """All measured times of `least` seconds or more differ from the predicted by at most `error`,
    which is a fraction of the measured time."""

    least: float
    error: float


@dataclass(frozen=True, slots=True)
class Chip:
    """One TPU generation. Times in seconds, sizes in bytes, all of one TensorCore.

    `kind` is JAX's `device_kind`, and `cores` the `num_cores` of a device of `topology`, which is
    libtpu's name for the smallest set of such chips.
    """

    name: str
    kind: str
    cores: int
    topology: str
    clock: float  # Hz
    bandwidth: float  # of HBM, bytes a second
    mxus: int
    mxu_shape: tuple[int, int]
    multiply_adds: int  # bfloat16 ones that all MXUs together finish in a cycle
    vmem: int
    scoped_vmem: int  # of `vmem`, what a kernel gets unless it asks for more
    trust: Trust
    link: float = 0.0
    """Bytes a second over one link to another chip, one way; 0 where it is not published. The
    pages have it for a chip, both ways: this is that, by two and by the number of links."""
    accuracy: tuple[Accuracy, ...] = ()
    """By the length of what was measured, the longest first; empty where nothing was compared."""
    narrow: tuple[float, float] = (1.0, 1.0)
    """How many times `peak` products reach whose operands have 8 bits, and 4 bits (jax)."""
    alone: float = 1.0
    """How much of `bandwidth` one core gets whose chip's other core rests. Fitted on v5p to every
    other row of grouped matmul of tokamax; where a core has no other, it is 1."""
    dma_latency: float = 440e-9
    """From a DMA's start to its last byte, less the time that its bytes take. Fitted on v5e to the
    18 rows of JAX's matmul tutorial; assumed to be the same elsewhere."""
    granule: int = 32
    """The unit in which the compiler's listings give a DMA's size (compiler: from sizes that are
    known)."""
    branch_delay: int = 4
    """How many bundles are still issued after a branch (compiler: from its listings)."""

    @property
    def peak(self) -> float:
        """Operations a second that the MXUs reach in bfloat16: a multiply-add counts as two."""
        return 2 * self.multiply_adds * self.clock

    def peak_of(self, bits: int) -> float:
        """The same of products whose wider operand has so many bits."""
        by_8_bits, by_4_bits = self.narrow
        return self.peak * (1.0 if bits > 8 else by_8_bits if bits > 4 else by_4_bits)

    @property
    def vector_peak(self) -> float:
        """Operations a second that the VPU reaches: four a cycle on each of 8 by 128 elements
        (compiler: from its schedule of a long chain of additions)."""
        return 4 * 8 * 128 * self.clock

    def accuracy_of(self, seconds: float) -> str:
        """How far a predicted time may be from a measured one, in words."""
        if not self.accuracy:
            return self.trust.value
        shortest = self.accuracy[-1]
        matching = next(
            (accuracy for accuracy in self.accuracy if seconds >= accuracy.least), shortest
        )
        text = (
            f"predicted times of {format_time(matching.least)} or more are within "
            f"{matching.error:.0%} of measured ones"
        )
        if seconds < shortest.least:
            return f"{text}; no shorter times are known to compare with"
        return text

    def bandwidth_of_each(self, sharing: int) -> float:
        """Bytes a second that one core moves while `sharing` cores of its chip run the kernel."""
        return self.bandwidth * (1.0 if sharing > 1 else self.alone)


_MIB = 1 << 20
_SMALL, _LARGE = (128, 128), (256, 256)

_ALL = (
    Chip(
        name="v4",
        kind="TPU v4",  # compiler
        cores=1,  # compiler: without megacore, which v5p has
        topology="v4:2x2x1",
        clock=1.05e9,  # paper; peak: 275e12 for two cores
        bandwidth=1228e9 / 2,  # jax rounds it to 1.23e12 a chip, the pages to 1200e9
        mxus=4,  # pages
        mxu_shape=_SMALL,  # book
        multiply_adds=4 * 128 * 128,
        vmem=16 * _MIB,  # jax, compiler
        scoped_vmem=16 * _MIB,  # compiler
        trust=Trust.UNKNOWN,
        granule=512,
        branch_delay=1,
    ),
    Chip(
        name="v5e",
        kind="TPU v5 lite",  # compiler
        cores=1,
        topology="v5e:2x2",
        clock=1.5e9,  # book; peak: 197e12
        bandwidth=819e9,  # pages
        link=400e9 / 2 / 4,  # pages
        mxus=4,  # pages
        mxu_shape=_SMALL,  # book
        multiply_adds=4 * 128 * 128,
        vmem=128 * _MIB,  # jax, compiler
        scoped_vmem=16 * _MIB,  # compiler
        trust=Trust.VALIDATED,  # JAX's matmul tutorial; grouped matmul of tokamax
        accuracy=(Accuracy(0.75e-3, 0.13), Accuracy(16e-6, 0.22)),  # tools/benchmarks
        narrow=(2.0, 4.0),
    ),
    Chip(
        name="v5p",
        kind="TPU v5",  # compiler
        cores=2,
        topology="v5p:2x2x1",
        clock=1.75e9,  # peak: 459e12 for two cores
        bandwidth=2765e9 / 2,  # pages; jax has 2.46e12 a chip
        link=1200e9 / 2 / 6,  # pages
        mxus=4,  # pages
        mxu_shape=_SMALL,  # book
        multiply_adds=4 * 128 * 128,
        vmem=64 * _MIB,  # jax, compiler
        scoped_vmem=16 * _MIB,  # compiler
        trust=Trust.TWO_CORES,  # grouped matmul and splash attention of tokamax
        accuracy=(Accuracy(0.4e-3, 0.16),),  # tools/benchmarks
        narrow=(2.0, 4.0),
        alone=1.4,
    ),
    Chip(
        name="v6e",
        kind="TPU v6 lite",  # compiler
        cores=1,
        topology="v6e:2x2",
        clock=1.75e9,  # peak: 918e12
        bandwidth=1640e9,  # pages and jax
        link=800e9 / 2 / 4,  # pages
        mxus=2,  # pages and jax
        mxu_shape=_LARGE,  # jax, book
        # Twice what two arrays of 256 by 256 do with one multiply-add a cycle and cell: so much the
        # peak of the pages asks for at this clock, at which predicted times agree with measured.
        multiply_adds=4 * 256 * 256,
        vmem=128 * _MIB,  # jax, compiler
        scoped_vmem=32 * _MIB,  # compiler
        trust=Trust.VALIDATED,  # splash attention of tokamax
        accuracy=(Accuracy(0.75e-3, 0.16),),
        narrow=(2.0, 4.0),
    ),
    Chip(
        name="tpu7x",
        kind="TPU7x",  # compiler
        cores=1,  # compiler: each of a chip's two cores is a device of its own
        topology="tpu7x:2x2x1",
        clock=2.2e9,  # peak: 2307e12 for two cores
        bandwidth=7380e9 / 2,  # pages; jax rounds it to 7.40e12 a chip
        link=1200e9 / 2 / 6,  # pages
        mxus=2,  # jax
        mxu_shape=_LARGE,  # jax
        multiply_adds=4 * 256 * 256,  # as on v6e
        vmem=64 * _MIB,  # jax, compiler
        scoped_vmem=32 * _MIB,  # compiler
        trust=Trust.DOUBTFUL,
        narrow=(2.0, 2.0),
        branch_delay=6,
    ),
)

CHIPS = {chip.name: chip for chip in _ALL}
DEFAULT = "v5e"


def chips_with_cores(cores: int, names: Sequence[str]) -> tuple[str, ...]:
    """Those of the named chips whose devices have so many TensorCores; or else the first that does.

    Raises ValueError for a name that no chip has.
    """
    having = tuple(name for name in names if named(name).cores >= cores)
    return having or tuple(chip.name for chip in _ALL if chip.cores >= cores)[:1]


def named(name: str) -> Chip:
    """The chip of that name. Raises ValueError that lists the names there are."""
    if name not in CHIPS:
        raise ValueError(f"no chip {name!r}: choose from {', '.join(CHIPS)}")
    return CHIPS[name]
