"""XLA's programs on a terminal."""

from __future__ import annotations

import dataclasses

from pallascope.model import (
    Baseline,
    InstructionBytes,
    Measured,
    MeasuredProgram,
)
from pallascope.tools.text import render_text
from pallascope.tpu.launch_screen import baselines_screen

NORM = MeasuredProgram(
    "norm",
    read=2048,
    written=1024,
    elements=768,
    flops=512,
    bandwidth=1e9,
    peak=1e12,
    other_peak=2e12,
    baseline=Baseline(
        (InstructionBytes("sum", 2048, 0), InstructionBytes("scale", 2048, 1024)), 5e-6
    ),
)


def test_each_instruction_has_a_line() -> None:
    text = render_text(baselines_screen(Measured((NORM,)), "leave", "M=8", "v5e"), 80, colour=False)
    assert "leave on a TPU v5e" in text
    assert "M=8" in text
    assert "norm: 5 KiB moved, 5 µs by XLA's estimate" in text
    rows = [line.split() for line in text.splitlines() if line.startswith("  ")]
    assert rows == [
        ["instruction", "read", "written"],
        ["sum", "2", "KiB", "0", "B"],
        ["scale", "2", "KiB", "1", "KiB"],
    ]


def test_the_answers_are_not_told() -> None:
    text = render_text(baselines_screen(Measured((NORM,)), "leave", "M=8", "v5e"), 80, colour=False)
    assert "3 KiB" not in text, "the bytes at best"


def test_a_program_that_xla_was_not_asked_about() -> None:
    unasked = dataclasses.replace(NORM, baseline=Baseline(missing="no libtpu here"))
    text = render_text(
        baselines_screen(Measured((unasked,)), "leave", "M=8", "v5e"), 80, colour=False
    )
    assert "norm: no libtpu here" in text
