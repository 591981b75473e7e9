"""The table of TPU chips, each number with its source.

Numbers are for one TensorCore; v4, v5p and tpu7x have two TensorCores per chip. Sources:

    pages      Google's "System architecture" page of each chip, at docs.cloud.google.com/tpu/docs
    jax        `pltpu.get_tpu_info()`; `test_chips.py` compares this table with it
    paper      Jouppi et al., "TPU v4", ISCA 2023 (arXiv 2304.01433)
    book       "How to Scale Your Model", jax-ml.github.io/scaling-book, chapter on TPUs
    peak       derived from the pages' peak: clock = peak / (2 * multiply-adds a cycle)
    compiler   libtpu's output or behavior: 0.0.42.1, 0.0.50.1 and 0.0.51 agree
    fitted     to measured times; see `dma_latency`
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from pallascope.tools.text import format_time, format_times


class Trust(enum.Enum):
    """Whether predicted times were compared with measured times, and the result."""

    VALIDATED = "compared with measured ones, and close to them"
    TWO_CORES = "the same, whether one TensorCore runs the kernel or two share its grid"
    UNKNOWN = "no measured times are known to compare predicted ones with"
    DOUBTFUL = "predicted times have been wrong by a factor of up to 2.8: don't judge by them"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Measured times of `least` seconds or more differ from the predicted ones by at most `error`,
    a fraction of the measured time. `only` names the kernels that were compared, if of one kind."""

    least: float
    error: float
    only: str = ""

    def range_of(self, seconds: float) -> tuple[float, float]:
        """The measured times, in seconds, that a predicted time may stand for."""
        return seconds / (1 + self.error), seconds / (1 - self.error)


@dataclass(frozen=True, slots=True)
class Chip:
    """One TPU generation. Times in seconds, sizes in bytes, all for one TensorCore.

    `kind` is JAX's `device_kind`. `topology` is libtpu's name for the smallest set of such chips,
    and `cores` is the `num_cores` of a device in it.
    """

    name: str
    kind: str
    cores: int
    topology: str
    clock: float  # Hz
    bandwidth: float  # of HBM, bytes a second
    mxus: int
    mxu_shape: tuple[int, int]
    multiply_adds: int  # in bfloat16, of all MXUs together, in a cycle
    vmem: int
    scoped_vmem: int  # the part of `vmem` that a kernel gets unless it asks for more
    trust: Trust
    link: float = 0.0
    """Bytes a second over one link to another chip, one way; 0 if it isn't published. The pages
    give a chip's total for both ways; this is that divided by two and by the number of links."""
    accuracy: tuple[Accuracy, ...] = ()
    """By the shortest measured time, longest first; empty if nothing was compared."""
    narrow: tuple[float, float] = (1.0, 1.0)
    """The peaks for products of 8-bit and of 4-bit operands, as multiples of `peak` (jax)."""
    alone: float = 1.0
    """The fraction of `bandwidth` that one core gets while the chip's other core is idle. Fitted on
    v5p to every other row of tokamax's grouped matmul; 1 for a chip with a single core."""
    dma_latency: float = 440e-9
    """The time from a DMA's start to its last byte, without the time for its bytes. Fitted on v5e
    to the 18 rows of JAX's matmul tutorial, and on v6e as `launch` is; assumed on other chips."""
    launch: float = 0.0
    """The time of a launch before a kernel's first bundle and after its last one. Fitted on v6e,
    together with `dma_latency`, to half of the rows of tengyifei/playground, by
    `tools/benchmarks/tpu_accuracy.py --fit`; 0 where nothing published tells it."""
    free_gaps: bool = False
    """Whether the empty bundles that wait for a predicate take no time. Only then do the same two
    numbers fit both pipelined copies and DMAs by hand on a v6e; rows of v5e fit either way."""
    granule: int = 32
    """The unit of a DMA's size in the compiler's listings (compiler: from DMAs of known size)."""
    branch_delay: int = 4
    """The number of bundles that are still issued after a branch (compiler: from its listings)."""

    @property
    def peak(self) -> float:
        """The MXUs' peak for bfloat16 in operations a second; a multiply-add counts as two."""
        return 2 * self.multiply_adds * self.clock

    def peak_of(self, bits: int) -> float:
        """The peak for products whose wider operand has this many bits."""
        by_8_bits, by_4_bits = self.narrow
        return self.peak * (1.0 if bits > 8 else by_8_bits if bits > 4 else by_4_bits)

    @property
    def vector_peak(self) -> float:
        """The VPU's peak in operations a second: four a cycle for each of 8 by 128 elements
        (compiler: from its schedule of a long chain of additions)."""
        return 4 * 8 * 128 * self.clock

    def accuracy_of(self, seconds: float) -> str:
        """The accuracy of predicted times of this length, in words."""
        if not self.accuracy:
            return self.trust.value
        shortest = self.accuracy[-1]
        matching = next(
            (accuracy for accuracy in self.accuracy if seconds >= accuracy.least), shortest
        )
        only = f", of {matching.only} only," if matching.only else ""
        text = (
            f"predicted times of {format_time(matching.least)} or more{only} are within "
            f"{matching.error:.0%} of measured ones"
        )
        if seconds < shortest.least:
            return f"{text}; no shorter times are known to compare with"
        return f"{text}: {format_times(*matching.range_of(seconds))} for this one"

    def link_times(self, size: int) -> tuple[float, float]:
        """The least and the most time that one link takes for `size` bytes, in seconds.

        The least is at its full rate. The most is that of published transfers between neighbours.
        Both are 0 if the rate of a link isn't published.
        """
        if not self.link:
            return 0.0, 0.0
        return size / self.link, LINK_START + size / (LINK_SHARE * self.link)

    def bandwidth_of_each(self, sharing: int) -> float:
        """Bytes a second of one core while `sharing` cores of its chip run the kernel."""
        return self.bandwidth * (1.0 if sharing > 1 else self.alone)


#: Published times of `lax.ppermute` between neighbours on v5p and v6e, of 1 KiB to 64 MiB a chip,
#: are at most a start of this many seconds and the bytes at this share of a link's rate. Source:
#: issue 6736 of marin-community/marin; `test_chips.py` has the rows.
LINK_START, LINK_SHARE = 6e-6, 0.86

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
        # Twice the rate of two arrays of 256 by 256 with one multiply-add a cycle and cell: the
        # pages' peak needs that at this clock, and predicted times then agree with measured ones.
        multiply_adds=4 * 256 * 256,
        vmem=128 * _MIB,  # jax, compiler
        scoped_vmem=32 * _MIB,  # compiler
        trust=Trust.VALIDATED,  # splash attention of tokamax; copies of tengyifei/playground
        accuracy=(Accuracy(0.75e-3, 0.16), Accuracy(9e-6, 0.10, "copies")),
        narrow=(2.0, 4.0),
        dma_latency=470e-9,
        launch=2.5e-6,
        free_gaps=True,
    ),
    Chip(
        name="tpu7x",
        kind="TPU7x",  # compiler
        cores=1,  # compiler: each of a chip's two cores is a separate device
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
    """The named chips whose devices have this many TensorCores; if none, the first chip that has.

    Raises ValueError for a name that no chip has.
    """
    having = tuple(name for name in names if named(name).cores >= cores)
    return having or tuple(chip.name for chip in _ALL if chip.cores >= cores)[:1]


def named(name: str) -> Chip:
    """The chip with this name. Raises ValueError with all names."""
    if name not in CHIPS:
        raise ValueError(f"no chip {name!r}: choose from {', '.join(CHIPS)}")
    return CHIPS[name]
