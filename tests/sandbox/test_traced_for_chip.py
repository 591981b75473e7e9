"""A kata's file asks about devices while it is imported, and is answered as on the chip."""

from __future__ import annotations

import pytest

from grader.sandbox.messages import TargetDevice, TraceLaunch
from grader.sandbox.trace_worker import loaded_for, traced
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import SourceFile
from pallascope.tpu.chips import CHIPS
from tests.pallascope.kernels.test_device_queries import FILE, X


@pytest.mark.parametrize(("chip", "steps"), [("v5e", 6), ("v6e", 5)])
def test_a_learners_file_is_imported_and_traced_as_on_the_chip(chip: str, steps: int) -> None:
    source = SourceFile(f"katas/asks_{chip}.py", FILE.encode())
    question = TraceLaunch(source, "doubled", (X,), {}, TargetDevice(chip))
    heard = traced(loaded_for(question).doubled, question)
    with for_chip(CHIPS[chip].kind, CHIPS[chip].cores):
        (call,) = TracedLaunch.carried(heard).trace().calls
    assert call.grid == (steps,)
