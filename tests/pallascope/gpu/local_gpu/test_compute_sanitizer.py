"""compute-sanitizer's reports, in the format that its user guide documents."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pallascope.gpu import compute_sanitizer
from pallascope.gpu.compute_sanitizer import (
    MEMCHECK,
    RACECHECK,
    found,
    look,
    reports,
)
from pallascope.gpu.timed_gpu_process import RunQuestion
from pallascope.tools.child_process import ChildProcess
from tests.pallascope.gpu.local_gpu.programs import doubling
from tests.pallascope.support import ROOT

MEMORY = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at tma_copy_kernel+0x160 in tma_copy.py:6
=========     by thread (96,0,0) in block (3,1,0)
=========     Address 0x7f6510c00001 is out of bounds
=========     and is 1 bytes after the nearest allocation at 0x7f6510c00000 of size 1 bytes
=========
========= Invalid __shared__ read of size 16 bytes
=========     at 0x578 in matmul_kernel(float *)
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x10 is misaligned
=========
========= Program hit CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified launch failure".
========= ERROR SUMMARY: 3 errors
"""
RACES = """\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at matmul_kernel+0x430 in matmul.py:46
=========     and Read access at matmul_kernel+0x770 in matmul.py:55 [248 hazards]
=========     and Write access at matmul_kernel+0x7a0 in matmul.py:55 [8 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
HAZARD = """\
========= ERROR: Potential RAW hazard detected at __shared__ 0x8c in block (2, 0, 0) :
=========     Write Thread (34, 0, 0) at 0x430 in copy_kernel(float *)
=========     Read Thread (35, 0, 0) at 0x770 in copy_kernel(float *)
=========     Current Value : 0, Incoming Value : 69
"""
NOTHING = "========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"


def test_what_memcheck_reports() -> None:
    told = reports(MEMORY, MEMCHECK)
    assert told
    first, second = told
    assert (first.space, first.kernel) == ("global", "tma_copy_kernel")
    assert (first.thread, first.block) == ((96, 0, 0), (3, 1, 0))
    assert str(first) == (
        "a write of 4 bytes of global memory: out of bounds "
        "(thread 96,0,0, block 3,1,0, kernel tma_copy_kernel)"
    )
    assert (second.space, second.kernel, second.why) == ("shared", "matmul_kernel", "misaligned")


def test_what_racecheck_reports() -> None:
    told = reports(RACES, RACECHECK)
    assert told
    assert str(told[0]) == (
        "a write and a read and a write of shared memory: nothing orders them "
        "(kernel matmul_kernel)"
    )


def test_a_hazard_has_its_thread_and_block() -> None:
    told = reports(HAZARD, RACECHECK)
    assert told
    assert (told[0].thread, told[0].block, told[0].kernel) == ((34, 0, 0), (2, 0, 0), "copy_kernel")
    assert "(RAW)" in told[0].why


def test_reports_of_other_kinds_of_memory() -> None:
    tensor = """\
========= Tensor Memory column 32 being accessed by instruction tcgen05.ld is not allocated.
=========     at step_kernel+0x1250
=========     by thread (0,0,0) in block (0,0,0)
"""
    told = reports(tensor, MEMCHECK)
    assert told
    assert (told[0].space, told[0].kernel, told[0].block) == ("tensor", "step_kernel", (0, 0, 0))
    assert "tcgen05.ld is not allocated" in told[0].why
    cluster = """\
========= Potential invalid __shared__ read of size 4 bytes
=========     at step_kernel(int *, int)+0x170
=========     by thread (0,0,0) in block (1,0,0)
=========     Address 0x1000400 is located in a block that might have already exited
"""
    told = reports(cluster, RACECHECK)
    assert told
    assert told[0].why == "located in a block that might have already exited"


def test_what_names_a_thread_comes_first() -> None:
    told = reports(RACES.replace("========= RACECHECK", HAZARD + "========= RACECHECK"), RACECHECK)
    assert told
    assert [bool(report.thread) for report in told] == [True, False]


def test_a_tool_that_has_lost_count_says_nothing() -> None:
    lost = "========= Warning: Detected overflow of tracked cuda::barrier structures.\n"
    assert reports(lost + RACES, RACECHECK) is None


def test_no_report_is_not_no_run() -> None:
    assert reports(NOTHING, MEMCHECK) == ()
    assert reports("========= Error: Target application failed to start\n", MEMCHECK) is None


def test_where_it_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_sanitizer.sys, "path", [])
    assert found({"PATH": str(tmp_path)}, tmp_path) is None
    below = tmp_path / "usr/local/cuda/bin/compute-sanitizer"
    below.parent.mkdir(parents=True)
    below.touch(0o755)
    assert found({"PATH": ""}, tmp_path) == below
    assert found({"PATH": str(below.parent)}, tmp_path / "none") == below
    assert found({"PATH": "", "CUDA_HOME": str(below.parents[1])}, tmp_path / "none") == below


#: Stands for the tool and the process that it looks at. The log may come after the answer.
TOOL = """
import sys, time
from pallascope.gpu.timed_gpu_process import GpuRunResult
from pallascope.tools import codec
from pallascope.tools.child_process import ParentConnection
parent = ParentConnection(at_end=lambda: None)
parent.receive()
parent.send(codec.pack(GpuRunResult()))
if sys.argv[1] != "--":
    time.sleep(0.2)
    open(sys.argv[1], "w").write(sys.argv[2])
sys.exit(1)
"""


def looked(tool: str, log: str) -> tuple[object, Sequence[str], Mapping[str, str]]:
    """What `look` returns where the tool writes this log; what it starts, and its environment."""
    seen: list[Any] = []

    def start(module: str, environ: Mapping[str, str], before: Sequence[str]) -> ChildProcess:
        seen.extend([before, environ])
        written = [before[before.index("--log-file") + 1], log] if log else []
        command = ["env", f"PYTHONPATH={ROOT}", sys.executable, "-c", TOOL, *written, "--"]
        return ChildProcess.running(module, environ, command)

    found = look(RunQuestion(doubling(), ()), tool, Path("/cuda/compute-sanitizer"), start)
    return found, *seen


@pytest.mark.parametrize(("tool", "log"), [(MEMCHECK, MEMORY), (RACECHECK, RACES)])
def test_a_process_is_run_under_it(tool: str, log: str) -> None:
    found, command, environ = looked(tool, log)
    assert found == reports(log, tool)
    assert command[:3] == ["/cuda/compute-sanitizer", "--tool", tool]
    assert ("--padding" in command) == (tool == MEMCHECK)
    assert ("--racecheck-report" in command) == (tool == RACECHECK)
    assert environ["XLA_PYTHON_CLIENT_ALLOCATOR"] == "platform"
    assert environ["JAX_PLATFORMS"] == "cuda"


def test_a_tool_that_writes_no_log() -> None:
    assert looked(MEMCHECK, "")[0] is None
