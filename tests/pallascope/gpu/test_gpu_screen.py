"""What `kata cost` shows of launches that were timed on a GPU."""

from __future__ import annotations

from rich.console import Group

from pallascope.gpu.gpu_screen import measured
from pallascope.gpu.gpus import CHIPS, peaks_of
from pallascope.model import GpuTimes, Times
from pallascope.tools.text import render_text

OWN, PAR = Times(2e-3, 1.9e-3, 2.5e-3, 20), Times(1e-3, 1e-3, 1e-3, 20)
H100 = CHIPS["h100"].title
BYTES, OPERATIONS = round(3352.32e9 * 5e-4), round(989.4e12 * 8e-4)


def text(times: GpuTimes, operations: int = OPERATIONS) -> str:
    shown = render_text(Group(*measured(times, BYTES, operations)), 120, colour=False)
    return " ".join(shown.split())


def test_times_beside_the_peaks() -> None:
    shown = text(GpuTimes(H100, OWN, PAR))
    assert f"timed in turns on {H100}" in shown
    assert "yours 2000.0 1900.0 to 2500.0 20 25% 40%" in shown
    assert "par 1000.0 1000.0 to 1000.0 20 50% 80%" in shown
    assert "yours / par: 2.00" in shown


def test_shares_that_are_not_known_are_not_shown() -> None:
    assert "20 25% –" in text(GpuTimes(H100, OWN, PAR), 0)
    assert "20 – –" in text(GpuTimes("NVIDIA H800", OWN, PAR))


def test_a_product_of_the_same_generation_has_its_own_peaks() -> None:
    more, same = peaks_of("NVIDIA H200"), peaks_of(H100)
    assert more
    assert same
    assert more.bandwidth > 1.4 * same.bandwidth
    assert more.operations == same.operations


def test_why_there_are_no_times() -> None:
    assert text(GpuTimes(H100, why_not="it is too old")) == "Not timed: it is too old."
    assert text(GpuTimes(H100, OWN, PAR, wrong="it is NaN")) == "Not timed: it is NaN."
    assert "But too short." in text(GpuTimes(H100, OWN, PAR, why_not="too short"))
