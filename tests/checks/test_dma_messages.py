"""Kernels whose copies are started or waited for in the wrong way, and what is said of each."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import jax
import numpy as np
import pytest

from pallascope.checks.dma_messages import copies_finding, nothing_there
from pallascope.checks.values import check
from pallascope.kernels import (
    CopyWatch,
    TracedLaunch,
    for_chip,
    watching,
    watching_copies,
)
from pallascope.model import (
    Check,
    DmaFault,
    DmaHazard,
    Mode,
    SourceFile,
)
from tests.pallascope.support import calls
from tests.support import copying_kernels as kernels
from tests.support.copying_kernels import RIGHT, Launch, X
from tests.support.factories import attempt, evidence

FILE = "katas/5_pipelines/kata_01_x.py"
with open(kernels.__file__, "rb") as file:
    SOURCE = SourceFile(kernels.__file__, file.read())


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def run(launch: Launch, eager: bool = False) -> tuple[list[np.ndarray], Sequence[DmaFault]]:
    """The results, none where it raises, and what was found."""
    watch = CopyWatch(SOURCE)
    results: list[np.ndarray] = []
    chip = for_chip("TPU v5 lite", 1)
    ends = contextlib.suppress(jax.errors.JaxRuntimeError)
    with chip, watching(), ends, watching_copies(watch):
        traced = TracedLaunch.of(launch, (X,), {})
        results = traced.run((X,), Mode.STRICT, 1, eager=eager)
    return results, watch.faults


@pytest.mark.parametrize("eager", [False, True], ids=["on wait", "eager"])
@pytest.mark.parametrize("name", RIGHT)
def test_a_right_one_passes_without_remark(name: str, eager: bool) -> None:
    launch, wanted = RIGHT[name]
    results, faults = run(launch, eager)
    np.testing.assert_array_equal(results[0], wanted)
    assert not faults


WRONG = {
    "missing wait": (
        kernels.double_buffer("missing wait"),
        "x_slots[0] is read, and nothing waits for its copy",
        "o_slots[slot] = x_slots[slot] + 1",
        "No wait on ins[0] comes after the copy was started",
    ),
    "no wait for the second of two": (
        kernels.halves("no second wait"),
        "slots[1] is read, and nothing waits for its copy",
        "slots[1] * 2",
        "No wait on sems[1] comes after the copy was started",
    ),
    "late wait": (
        kernels.double_buffer("late wait"),
        "x_slots[0] is read before its copy was waited for",
        "o_slots[slot] = x_slots[slot] + 1",
        "The wait on ins[0] comes too late",
    ),
    "wait for the wrong slot": (
        kernels.double_buffer("wrong slot"),
        "x_slots[0] is read after a wait for another slot",
        "o_slots[slot] = x_slots[slot] + 1",
        "the wait before was on ins[1] (line",
    ),
    "no prologue": (
        kernels.double_buffer("no prologue"),
        "waits on ins[0], where no copy was started",
        "fetch(i, slot).wait()",
        "Copies under way at that time signal ins[1]",
    ),
    "one wait too many": (
        kernels.double_buffer("one wait too many"),
        "waits on outs[1], where no copy was started",
        "send(3, 1).wait()",
        "already waited for all copies started on outs[1] until then (2 in all)",
    ),
    "no epilogue": (
        kernels.double_buffer("no epilogue"),
        "the last copy to o_hbm is never waited for",
        "send(i, slot).start()",
        "Of the 4 copies that the line below starts, the last 2 are never waited for",
    ),
    "an epilogue without the last copy": (
        kernels.double_buffer("waits for all but the last"),
        "the last copy to o_hbm is never waited for",
        "send(i, slot).start()",
        "Of the 4 copies that the line below starts, the last is never waited for: outs[1]",
    ),
    "an epilogue with the last copy only": (
        kernels.double_buffer("waits for the last only"),
        "a copy to o_hbm is never waited for",
        "send(i, slot).start()",
        "Of the 4 copies that the line below starts, the 3rd is never waited for: outs[0]",
    ),
    "a copy of a block that does not exist": (
        kernels.double_buffer("one block too many"),
        "a copy of x_hbm[32:40] is out of bounds",
        "fetch(i + 1, after).start()",
        "x_hbm has 32×128 elements",
    ),
    "the same slot for two": (
        kernels.double_buffer("same slot"),
        "two copies into x_slots[0] are under way at once",
        "fetch(i + 1, after).start()",
        "need separate slots",
    ),
    "one slot, fetched again before it is read": (
        kernels.double_buffer("fetches after the wait, into the same slot"),
        "x_slots[0] is overwritten before it is read",
        "o_slots[slot] = x_slots[slot] + 1",
        "held a block that nothing had read yet",
    ),
    "output slot overwritten before its copy ended": (
        kernels.double_buffer("output slot"),
        "o_slots[0] is overwritten while it is being copied",
        "o_slots[slot] = x_slots[slot] + 1",
        "the 3rd time that this line runs",
    ),
    "outputs never waited for": (
        kernels.double_buffer("no wait for outputs"),
        "o_slots[0] is overwritten while it is being copied",
        "o_slots[slot] = x_slots[slot] + 1",
        "No wait on outs[0] comes after the copy was started",
    ),
    "no wait on the first grid step": (
        kernels.prefetch_over_grid("first wait"),
        "slots[0] is read before its copy was waited for",
        "o_ref[...] = slots[i % 2] + 1",
        "when   grid step (0)",
    ),
    "a copy more than there are blocks": (
        kernels.prefetch_over_grid("one too far"),
        "two copies into slots[1] are under way at once",
        "fetch(jnp.minimum(i + 1, STEPS - 1)).start()",
        "grid step (3)",
    ),
    "parallel steps": (
        kernels.prefetch_over_grid("parallel"),
        "where no copy was started",
        "fetch(i).wait()",
        "had been started before",
    ),
    "a wait for one row of eight": (
        kernels.row_gather("one wait"),
        "o_ref is copied out before all copies on sem have ended",
        "copy(r).start()",
        "8 copies share sem, and the kernel waited for 512 B of their 4 KiB",
    ),
    "no wait for a block that the pipeline copies out": (
        kernels.row_gather("no wait"),
        "o_ref is copied out, and nothing waits for its copy",
        "copy(r).start()",
        "the pipeline copies it to HBM at the end of the step",
    ),
    "a wait for more than comes": (
        kernels.row_gather("waits for too much"),
        "waits for more bytes than sem gets",
        "x_hbm.at[pl.ds(0, 16)]",
        "waits for 8 KiB on sem, but the copies under way on it bring 4 KiB",
    ),
    "two sizes on one semaphore": (
        kernels.two_sizes("one semaphore"),
        "small is read before all copies on sems[0] have ended",
        "small[...] * 2",
        "its own semaphore",
    ),
    "a wait of the wrong size": (
        kernels.two_sizes("waits for the small one twice"),
        "sems[0] is left non-zero: waits for fewer bytes than were copied",
        "rest.start()",
        "8 KiB are left on sems[0]",
    ),
    "no start at all": (
        kernels.through_vmem("starts nothing"),
        "waits on sems[0], where no copy was started",
        "into.wait()",
        "on a TPU it would hang here",
    ),
    "semaphore left": (
        kernels.through_vmem("leaves"),
        "a copy to o_hbm is never waited for",
        "out.start()",
        "sems[1] is left non-zero",
    ),
    "stored to while it arrives": (
        kernels.through_vmem("stores before the wait"),
        "buffer is stored to while a copy into it is under way",
        "jnp.zeros_like(buffer)",
        "Wait on sems[0] before the store",
    ),
    "forwarded before it has arrived": (
        kernels.through_vmem("sends before the wait"),
        "buffer is forwarded before its copy was waited for",
        "out.start()",
        "x_hbm → buffer, 16 KiB, on sems[0]",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_one_is_told_in_its_own_words(name: str) -> None:
    launch, phrase, line, says = WRONG[name]
    _, faults = run(launch, eager=len(name) % 2 == 0)
    finding = copies_finding(faults, FILE)
    assert finding is not None
    assert finding.check is Check.VALUES
    assert phrase in finding.phrase
    assert line in finding.message
    assert says in " ".join(finding.message.split()) or says in finding.message
    assert f"{FILE}:" in finding.message


def test_it_does_not_matter_when_the_interpreter_copies() -> None:
    for bug in ("late wait", "output slot"):
        one, other = (run(kernels.double_buffer(bug), eager)[1] for eager in (False, True))
        assert one == other


def test_parallel_steps_share_no_slots() -> None:
    call = calls.call(parallel=(0,))
    fault = DmaFault(DmaHazard.NO_START, semaphore="sems[1]", size=4096)
    finding = copies_finding([fault], FILE, [call])
    assert finding is not None
    assert "The grid is marked parallel" in finding.message


def test_right_values_do_not_excuse_it() -> None:
    results, faults = run(kernels.double_buffer("late wait"), eager=True)
    np.testing.assert_array_equal(results[0], X + 1)
    finding = check(evidence(attempt(copy_faults=tuple(faults))))
    assert finding is not None
    assert "before its copy was waited for" in finding.phrase


def test_garbage_in_a_slot_is_no_fault_until_a_value_is_wrong() -> None:
    hint = DmaFault(DmaHazard.NOTHING_THERE, "x_slots[1]")
    assert copies_finding([hint], FILE) is None
    diagnosis = nothing_there([hint])
    assert diagnosis is not None
    assert diagnosis.phrase == "x_slots[1] read before anything was copied there"
    assert check(evidence(attempt(copy_faults=(hint,)))) is None
    wrong = check(evidence(attempt(np.full(X.shape, np.nan), copy_faults=(hint,))))
    assert wrong is not None
    assert "prologue" in wrong.message
    numbers = check(evidence(attempt(X + 100, copy_faults=(hint,))))
    assert numbers is not None
    assert "prologue" not in numbers.message


@pytest.mark.parametrize(
    ("part", "shape", "says"),
    [
        ("x_hbm[2, 47:55]", (4, 48, 128), "47 isn't a multiple of 8"),
        (
            "x_hbm[48:56, :]",
            (48, 128),
            "Start a copy only for a block that exists: look at its index.",
        ),
        ("x_hbm[5]", (4, 128), "Start a copy only for a block that exists: look at its index."),
        (
            "x_hbm[45:52]",
            (48, 128),
            "Start a copy only for a block that exists: look at its index.",
        ),
    ],
)
def test_a_start_that_is_no_multiple_of_the_size_is_named(
    part: str, shape: tuple[int, ...], says: str
) -> None:
    fault = DmaFault(DmaHazard.OUTSIDE, part, shape=shape)
    finding = copies_finding((fault,), FILE, ())
    assert finding
    assert says in " ".join(finding.message.split())
