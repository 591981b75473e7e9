"""The rungs of a launch for GPUs: what is told of each answer, and where the stars stop."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from grader.checks import (
    gpu_compiles,
    gpu_hardware,
    gpu_interpreted,
)
from grader.checks.evidence import GpuEvidence, required_by
from grader.checks.gpu_interpreted import ordering_finding, run_finding
from grader.exercise.targets import GpuTarget
from grader.grading.ladder import verdict
from grader.verdict import State
from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind
from pallascope.gpu.gpu_compiler import Compiled, GpuKernel
from pallascope.gpu.gpu_resources import Mix, Resources
from pallascope.model import (
    Check,
    Clues,
    Finding,
    GpuFault,
    GpuHazard,
    GpuTimes,
    Mode,
    NotJudged,
    OnGpu,
    Problem,
    SourceLine,
    Stage,
    Times,
)
from pallascope.tools import codec
from tests.support.factories import FILE, attempt, key, reference

MIX = Mix(311, (("wgmma", 8), ("TMA loads", 4)))
TMEM = GpuRefusal(
    GpuRefusalKind.CHIP, "sm_90a has no such instruction (tcgen05.alloc)", "the whole text"
)


def kernel(spills: int = 0, mix: Mix | None = MIX) -> GpuKernel:
    return GpuKernel("step", None, Resources("sm_90a", 90, spills, spills, 0, 1, 0), mix, None)


def on_gpu(*kernels: GpuKernel, failure: GpuRefusal | None = None, lowered: bool = True) -> OnGpu:
    answer = codec.pack(Compiled("h100", kernels, failure))
    return OnGpu("h100", compiled=answer, lowered=lowered)


def judged(own: OnGpu, units: tuple[str, ...] = (), **others: Any) -> GpuEvidence:
    asked = key(target=others.pop("target", GpuTarget(units)))
    known = {"attempt": attempt(), "reference": reference(), "compiled": lambda: own, **others}
    return GpuEvidence(
        **required_by(asked), mode=Mode.STRICT, file=FILE, chips=("h100",), clues=Clues, **known
    )


def found(told: Finding | NotJudged | None) -> Finding:
    assert isinstance(told, Finding)
    return told


NOT_HERE = OnGpu("h100", not_compiled="not installed: ptxas", lowered=True)


def test_the_stars_without_the_extra_and_without_a_gpu() -> None:
    without = verdict(judged(NOT_HERE))
    assert (without.state, without.stars) == (State.PASSED, 1)
    assert without.not_judged == NotJudged(Check.COMPILES, "not installed: ptxas")
    with_extra = verdict(judged(on_gpu(kernel()), ("wgmma",)))
    assert (with_extra.state, with_extra.stars) == (State.PASSED, 2)
    assert with_extra.not_judged
    assert "needs a GPU: a Hopper" in with_extra.not_judged.why


def test_what_no_interpreter_runs_has_no_star_and_is_compiled_all_the_same() -> None:
    target = GpuTarget((), "tensor memory is not simulated")
    told = verdict(judged(on_gpu(kernel()), target=target))
    assert (told.state, told.stars) == (State.PASSED, 0)
    assert str(told.not_judged) == (
        "not judged: values (tensor memory is not simulated; a GPU would show it)"
    )
    refused = verdict(judged(on_gpu(failure=TMEM), target=target))
    assert refused.state is State.FAILED


def test_the_interpreter_may_say_so_itself() -> None:
    problem = Problem(Stage.RUN, "JaxRuntimeError", "…\nNotImplementedError: predicate not here")
    given = judged(NOT_HERE, attempt=attempt(problem=problem))
    told = gpu_interpreted.check_gpu_interpreted(given)
    assert isinstance(told, NotJudged)
    assert "can't run it: predicate not here; a GPU would show it" in told.why


@pytest.mark.parametrize(
    ("message", "phrase"),
    [
        ("ValueError: Barrier arrival was completed again before previous completion", "twice"),
        ("ValueError: Barrier completed phase 1, but no threads observed phase 0.", "twice"),
        ("ValueError: Not all … operations completed before kernel finished", "last copy out"),
        (
            "IndexError: Out-of-bounds read of HostAllocationKey(memory_space_id=0): (512,)",
            "bounds",
        ),
    ],
)
def test_what_the_interpreter_raises(message: str, phrase: str) -> None:
    problem = Problem(Stage.RUN, "JaxRuntimeError", f"Traceback\n{message}", SourceLine(3, "x"))
    told = found(
        gpu_interpreted.check_gpu_interpreted(judged(NOT_HERE, attempt=attempt(problem=problem)))
    )
    assert phrase in told.phrase
    assert "HostAllocationKey" not in told.message


def test_a_block_that_asks_for_program_id_is_told_of_axis_index() -> None:
    race = attempt(complaints=("RACE DETECTED",))
    launch = judged(NOT_HERE, attempt=race, lines=("i = pl.program_id(0)",))
    assert "only lax.axis_index tells" in " ".join(
        found(gpu_interpreted.check_gpu_interpreted(launch)).message.split()
    )
    comment = dataclasses.replace(launch, lines=("i = 0  # no pl.program_id(0)",))
    assert "axis_index alone" not in found(gpu_interpreted.check_gpu_interpreted(comment)).message


@pytest.mark.parametrize(
    ("kind", "message", "traceback"),
    [
        ("AssertionError", "", "    assert val is not None\nAssertionError"),
        ("ValueError", "could not broadcast input array from shape (9,8) into shape (16,8)", ""),
    ],
)
def test_a_box_that_is_not_all_there_is_out_of_bounds(
    kind: str, message: str, traceback: str
) -> None:
    finding = run_finding(Problem(Stage.RUN, kind, message, traceback=traceback), "a.py")
    assert finding.phrase == "reads or writes out of bounds"


@pytest.mark.parametrize(
    ("arrived", "advice"),
    [(0, "Start the copy or product that arrives at here"), (1, "Let 2 arrive")],
)
def test_what_to_try_against_a_wait_that_never_ends(arrived: int, advice: str) -> None:
    fault = GpuFault(GpuHazard.NEVER_ARRIVES, "here", None, arrived=arrived, needed=2)
    assert advice in ordering_finding(fault, "a.py").message


def test_what_the_trace_shows_is_told_before_races_and_values() -> None:
    fault = GpuFault(
        GpuHazard.NO_COMMIT, "o_smem", SourceLine(7, "copy"), SourceLine(6, "store"), "wgmma"
    )
    seen = attempt(gpu_faults=(fault,), complaints=("RACE DETECTED",))
    told = found(gpu_interpreted.check_gpu_interpreted(judged(NOT_HERE, attempt=seen)))
    assert told.phrase == "o_smem is stored to, and not committed before wgmma"


@pytest.mark.parametrize("disorder", GpuHazard)
def test_each_disorder_has_words_of_its_own(disorder: GpuHazard) -> None:
    fault = GpuFault(
        disorder, "a_smem", SourceLine(7, "here()"), reader="wgmma", arrived=1, needed=2
    )
    told = ordering_finding(fault, "katas/x.py")
    assert "a_smem" in told.phrase
    assert "katas/x.py:7" in told.message
    others = {
        d: ordering_finding(dataclasses.replace(fault, hazard=d), "").phrase for d in GpuHazard
    }
    assert len(set(others.values())) == len(GpuHazard)


def test_what_jax_refuses_is_told_without_the_extra() -> None:
    full = GpuRefusal(GpuRefusalKind.SHARED_MEMORY, "too much", "…", wanted=300_000, limit=232_448)
    refused = dataclasses.replace(
        on_gpu(failure=full, lowered=False), buffers=(("float32[1024,64]", 262_144),)
    )
    told = found(gpu_compiles.check_gpu_lowers(judged(refused)))
    assert told.check is Check.LOWERS
    assert "float32[1024,64]   256 KiB" in told.message
    assert (
        gpu_compiles.check_gpu_lowers(judged(on_gpu(failure=TMEM))) is None
    )  # the compiler's: the next rung's


def test_what_the_compiler_refuses_spills_or_leaves_out() -> None:
    assert (
        "no such instruction"
        in found(gpu_compiles.check_gpu_compiles(judged(on_gpu(failure=TMEM)))).phrase
    )
    spilled = found(gpu_compiles.check_gpu_compiles(judged(on_gpu(kernel(spills=408)))))
    assert spilled.phrase == ("spills registers on h100: 408 bytes stored and 408 bytes loaded")
    unused = found(
        gpu_compiles.check_gpu_compiles(judged(on_gpu(kernel()), ("wgmma", "TMA stores")))
    )
    assert unused.phrase == "no TMA stores in the compiled code"
    assert gpu_compiles.check_gpu_compiles(judged(on_gpu(kernel(mix=None)), ("wgmma",))) is None


def test_an_accident_of_the_compiler_is_no_fault_where_par_has_it_too() -> None:
    aborted = on_gpu(failure=GpuRefusal(GpuRefusalKind.ABORT, "it ends", "…"))
    assert isinstance(
        gpu_compiles.check_gpu_compiles(judged(aborted, par_compiled=lambda: aborted)), NotJudged
    )
    assert isinstance(
        gpu_compiles.check_gpu_compiles(judged(aborted, par_compiled=lambda: on_gpu(kernel()))),
        Finding,
    )


def test_times_that_a_gpu_would_give() -> None:
    def given(own: float, **others: Any) -> GpuEvidence:
        times = GpuTimes("H100", Times(own, own, own, 30), Times(1e-5, 1e-5, 1e-5, 30), **others)
        return judged(on_gpu(kernel()), timed=lambda: times)

    assert gpu_hardware.check_gpu_timed(given(1.14e-5)) is None
    assert (
        found(gpu_hardware.check_gpu_timed(given(1.3e-5))).phrase == "1.30× par's time on the GPU"
    )
    assert (
        "wrong on the GPU"
        in found(gpu_hardware.check_gpu_timed(given(1e-5, wrong="half is NaN"))).phrase
    )
