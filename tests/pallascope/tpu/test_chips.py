"""The table of chips, held against jax's own, and against the compiler's topologies."""

from __future__ import annotations

import importlib
import re
import statistics

import pytest

from pallascope.tools import codec
from pallascope.tpu import chips
from pallascope.tpu.chips import CHIPS, Chip, Trust
from tests.pallascope.support import ROOT

ALL = [pytest.param(chip, id=name) for name, chip in CHIPS.items()]

#: Published peaks in bfloat16, of a whole chip, in units of 1e12; and how many TensorCores it has.
PEAKS = {"v4": (275, 2), "v5e": (197, 1), "v5p": (459, 2), "v6e": (918, 1), "tpu7x": (2307, 2)}


def test_names() -> None:
    assert tuple(CHIPS) == ("v4", "v5e", "v5p", "v6e", "tpu7x")
    assert all(chip.name == name for name, chip in CHIPS.items())
    assert chips.named(chips.DEFAULT) is CHIPS["v5e"]
    with pytest.raises(ValueError, match="no chip 'v3': choose from v4, v5e, v5p, v6e, tpu7x"):
        chips.named("v3")


@pytest.mark.parametrize(
    ("asked", "for_one", "for_two"),
    [
        (("v5e",), ("v5e",), ("v5p",)),
        (("v6e", "tpu7x"), ("v6e", "tpu7x"), ("v5p",)),
        (tuple(CHIPS), tuple(CHIPS), ("v5p",)),
    ],
)
def test_chips_with_enough_cores(
    asked: tuple[str, ...], for_one: tuple[str, ...], for_two: tuple[str, ...]
) -> None:
    assert chips.chips_with_cores(1, asked) == for_one
    assert chips.chips_with_cores(2, asked) == for_two


@pytest.mark.parametrize("chip", ALL)
def test_clock_and_mxus_make_the_published_peak(chip: Chip) -> None:
    peak, cores = PEAKS[chip.name]
    assert chip.peak * cores == pytest.approx(peak * 1e12, rel=0.002)
    cells = chip.mxus * chip.mxu_shape[0] * chip.mxu_shape[1]
    assert chip.multiply_adds in (cells, 2 * cells)


@pytest.mark.parametrize("chip", ALL)
def test_jax_has_the_same_numbers(chip: Chip) -> None:
    from jax.experimental.pallas import tpu as pltpu

    from pallascope.kernels.lowering import for_chip

    with for_chip(chip.kind, chip.cores):
        info = pltpu.get_tpu_info()
    assert info.vmem_capacity_bytes == chip.vmem
    assert (info.mxu_column_size, info.num_mxus) == (chip.mxu_shape[1], chip.mxus)
    assert info.bf16_ops_per_second == pytest.approx(chip.peak, rel=0.005)
    # jax has less for v5p than the public page, 2765e9 for its two cores.
    expected = 2.46e12 / 2 if chip.name == "v5p" else chip.bandwidth
    assert info.mem_bw_bytes_per_second == pytest.approx(expected, rel=0.005)
    assert info.num_cores == chip.cores


@pytest.mark.parametrize("chip", ALL)
def test_what_a_kernel_gets_is_within_what_there_is(chip: Chip) -> None:
    assert 0 < chip.scoped_vmem <= chip.vmem
    assert chip.granule in (32, 512)
    assert 0 < chip.dma_latency < 1e-6


@pytest.mark.parametrize("chip", ALL)
def test_a_core_gets_more_than_its_part_only_where_it_has_another(chip: Chip) -> None:
    assert chip.bandwidth_of_each(chip.cores) == chip.bandwidth
    assert chip.bandwidth <= chip.bandwidth_of_each(1) <= chip.cores * chip.bandwidth


def test_only_measured_chips_are_trusted() -> None:
    trusted = {name for name, chip in CHIPS.items() if chip.trust is Trust.VALIDATED}
    assert trusted == {"v5e", "v6e"}
    assert CHIPS["v5p"].trust is Trust.TWO_CORES
    assert CHIPS["tpu7x"].trust is Trust.DOUBTFUL


def test_a_chip_travels() -> None:
    for chip in CHIPS.values():
        assert codec.unpack(Chip, codec.pack(chip)) == chip


def test_links_are_slower_than_memory_where_they_are_known() -> None:
    known = [chip for chip in CHIPS.values() if chip.link]
    assert {chip.name for chip in known} == {"v5e", "v5p", "v6e", "tpu7x"}
    for chip in known:
        assert 0 < chip.link < chip.bandwidth / 4


@pytest.mark.parametrize("chip", ALL)
def test_the_page_states_the_accuracy_of_each_chip(chip: Chip) -> None:
    text = (ROOT / "docs/predictions.md").read_text(encoding="utf-8")
    pattern = rf"^\| {chip.name} \| (.*) \| (bytes, time|bytes) \|$"
    ((row, judged),) = re.findall(pattern, text, re.MULTILINE)
    assert ("time" in judged) is bool(chip.accuracy)
    found = re.findall(r"([\d.]+) (ms|µs) or more: within (\d+) %", row)
    units = {"ms": 1e-3, "µs": 1e-6}
    said = [(float(n) * units[unit], int(error) / 100) for n, unit, error in found]
    assert said == [pytest.approx((one.least, one.error)) for one in chip.accuracy]
    assert [one.least for one in chip.accuracy] == sorted((t for t, _ in said), reverse=True)


def test_the_page_states_the_accuracy_on_a_v6e() -> None:
    """The half of the rows that nothing was fitted to."""
    pytest.importorskip("libtpu")
    benchmark = importlib.import_module("tools.benchmarks.tpu_accuracy")
    pairs = [
        (measured, predict(chip="v6e") / measured)
        for _, half, measured, predict in benchmark.copied()
        if half == "test"
    ]
    ratios = [ratio for _, ratio in pairs]
    worst = max(ratios, key=lambda ratio: max(ratio, 1 / ratio))
    text = (ROOT / "docs/predictions.md").read_text(encoding="utf-8")
    found = re.findall(r"on a v6e: .* \| 6 of 13 \| ([\d.]+) \| ([\d.]+) \|$", text, re.MULTILINE)
    said = [float(number) for number in found[0]]
    assert len(ratios) == 6
    assert said == [
        pytest.approx(statistics.median(ratios), abs=1e-3),
        pytest.approx(worst, abs=1e-3),
    ]
    (shortest,) = (one for one in CHIPS["v6e"].accuracy if one.only)
    assert abs(worst - 1) <= shortest.error
    assert min(measured for measured, _ in pairs) == pytest.approx(shortest.least)


@pytest.mark.parametrize("chip", ALL)
def test_the_peaks_of_narrow_products_are_jaxs(chip: Chip) -> None:
    from jax.experimental.pallas import tpu as pltpu

    from pallascope.kernels.lowering import for_chip

    with for_chip(chip.kind, chip.cores):
        info = pltpu.get_tpu_info()
    of_8_bits = max(info.bf16_ops_per_second, info.int8_ops_per_second, info.fp8_ops_per_second)
    assert chip.peak_of(8) == pytest.approx(of_8_bits, rel=0.01)
    assert chip.peak_of(4) == pytest.approx(max(of_8_bits, info.int4_ops_per_second), rel=0.01)
    assert chip.peak_of(16) == chip.peak_of(32) == chip.peak


@pytest.mark.parametrize(
    ("chip", "size", "microseconds"),
    [
        ("v5p", 1 << 10, 4.5),
        ("v5p", 16 << 10, 5.5),
        ("v5p", 1 << 20, 16.94),
        ("v5p", 64 << 20, 781.98),
        ("v6e", 1 << 10, 5.6),
        ("v6e", 16 << 10, 5.9),
        ("v6e", 1 << 20, 17.45),
        ("v6e", 64 << 20, 776.34),
    ],
)
def test_the_range_of_a_link_has_the_published_times(
    chip: str, size: int, microseconds: float
) -> None:
    """`lax.ppermute` between neighbours, measured for issue 6736 of marin-community/marin."""
    least, most = CHIPS[chip].link_times(size)
    assert least < microseconds * 1e-6 < most
    assert most < 1.2 * microseconds * 1e-6 or size < 1 << 20


def test_without_a_published_rate_there_is_no_range() -> None:
    assert CHIPS["v4"].link_times(1 << 20) == (0.0, 0.0)
