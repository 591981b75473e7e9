"""The pool and its processes, beyond what the faults show."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.grading.grader import Grader
from grader.sandbox import devices, launcher, process_limits
from grader.sandbox.client import WorkerClient
from grader.sandbox.isolation import Isolation
from grader.sandbox.launch_client import BrokenKata, WorkerQueues
from grader.sandbox.launcher import Launcher, SandboxError
from grader.sandbox.messages import EvaluateReference, Question, TraceLaunch, WorkerRole
from grader.sandbox.worker_environment import environment
from grader.sandbox.worker_pool import (
    MOST_ASKED,
    MOST_USED,
    Worker,
    WorkerPool,
)
from grader.verdict import Device, State
from pallascope.model import Mode
from pallascope.runs.questions import Predict, RunTrace, Warm
from tests.support.repositories import Repository
from tests.support.sessions import LentPool

CPU = devices.choose("interpret", devices.Hardware(tpu=False, gpu=False, platforms="cpu"))


@pytest.fixture
def solved(repository: Repository) -> Kata:
    kata = repository.add("double")
    repository.solve(kata)
    return kata


@pytest.fixture
def pool(lent: LentPool) -> Iterator[WorkerPool]:
    """A pool with no attempt at it; its fork server, and what judges, may have served others."""
    yield lent.opened(CPU)
    lent.close()


def state(grader: Grader, kata: Kata, case: int = 0) -> State:
    return grader.grade(kata, draw(kata.id, kata.key, 1)[case], 60).state


def test_without_forking_the_answers_are_the_same(
    solved: Kata, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS: each worker is a process of its own."""
    monkeypatch.setattr(launcher, "FORKS", False)
    pool = WorkerPool(CPU)
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert state(grader, solved) is State.PASSED
    repository.solve(solved, "import os\nos._exit(3)")
    assert state(grader, solved) is State.FAILED
    repository.solve(solved)
    assert state(grader, solved) is State.PASSED
    pool.close()


def test_a_changed_file_gets_a_fresh_process(
    pool: WorkerPool, solved: Kata, repository: Repository
) -> None:
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert state(grader, solved) is State.PASSED
    repository.solve(solved, "o_ref[...] = x_ref[...] * 3")  # as long, and in the same second
    assert state(grader, solved) is State.FAILED
    assert not list(repository.root.rglob("__pycache__"))


def test_a_case_that_was_prepared_and_never_graded_is_passed_over(
    pool: WorkerPool, solved: Kata
) -> None:
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    first, second, third = draw(solved.id, solved.key, 1)
    grader.prepare(solved, first)
    grader.prepare(solved, second)
    assert grader.grade(solved, third, 60).drawn == str(third)
    assert grader.grade(solved, first, 60).state is State.PASSED


def test_large_inputs_in_both_directions_do_not_wait_for_each_other(
    pool: WorkerPool, repository: Repository
) -> None:
    """While the next case's reference waits to be taken, par is asked for with its inputs."""
    key = repository.KEY.replace("N = [128, 256]", "N = [32768, 65536]")
    large = repository.add("large", key=key)
    repository.solve(large)
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    cases = draw(large.id, large.key, 1)
    for case, following in zip(cases, [*cases[1:], cases[-1]], strict=True):
        grader.prepare(large, case)
        grader.prepare(large, following)
        assert grader.grade(large, case, 60).state is State.PASSED


def test_a_reference_is_computed_once(
    pool: WorkerPool, solved: Kata, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.renew(0)  # else those that earlier tests have left large would be renewed, and asked again
    asked: list[Question] = []
    ask = Worker.ask
    monkeypatch.setattr(Worker, "ask", lambda w, a: (asked.append(a), ask(w, a))[1])
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    first, second, _ = draw(solved.id, solved.key, 1)
    for case in (first, second):
        grader.prepare(solved, first)
        grader.prepare(solved, second)
        grader.grade(solved, case, 60)
    references = [a.case for a in asked if isinstance(a, EvaluateReference)]
    assert references.count(second) == 1


@pytest.mark.parametrize("eager", [False, True])
def test_a_launch_is_traced_once_and_compiled_once(
    pool: WorkerPool, solved: Kata, monkeypatch: pytest.MonkeyPatch, eager: bool
) -> None:
    """So is the solution's."""
    asked: list[Question] = []
    ask = Worker.ask
    monkeypatch.setattr(Worker, "ask", lambda w, a: (asked.append(a), ask(w, a))[1])
    assert state(Grader(WorkerClient(WorkerQueues(pool), eager=eager)), solved) is State.PASSED
    files = [str(solved.path), str(solved.solution.resolve())]
    for kind in (TraceLaunch, Predict):
        assert sorted(q.source.file for q in asked if isinstance(q, kind)) == files
    assert [q.source.file for q in asked if isinstance(q, RunTrace)] == files[:1]


def test_a_crash_that_does_not_come_again_is_no_verdict(
    solved: Kata, repository: Repository, tmp_path: Path
) -> None:
    once = f"""import pathlib
been = pathlib.Path({str(tmp_path / "been")!r})
if not been.exists():
    been.touch()
    import ctypes
    ctypes.string_at(0)
o_ref[...] = x_ref[...] * 2"""
    repository.solve(solved, once)
    pool = WorkerPool(CPU, isolation=Isolation.OFF)  # else the file could not be touched
    assert state(Grader(WorkerClient(WorkerQueues(pool))), solved) is State.PASSED
    pool.close()


HANGS_ONCE = "import time\ntime.sleep(1000)"
KILLS_ITSELF_ONCE = "import os\nos.kill(os.getpid(), 9)"


@pytest.mark.parametrize("does", [HANGS_ONCE, KILLS_ITSELF_ONCE], ids=["hangs", "is-killed"])
def test_an_accident_that_does_not_come_again_is_no_verdict(
    solved: Kata, repository: Repository, tmp_path: Path, does: str
) -> None:
    once = f"""import pathlib
been = pathlib.Path({str(tmp_path / "been")!r})
if not been.exists():
    been.touch()
    ONCE
{repository.BODY}""".replace("ONCE", does.replace("\n", "\n    "))
    repository.solve(solved, once)
    pool = WorkerPool(CPU, isolation=Isolation.OFF)  # else the file could not be touched
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert grader.grade(solved, draw(solved.id, solved.key, 1)[0], 3).state is State.PASSED
    pool.close()


def test_processes_killed_by_somebody_change_no_verdict(pool: WorkerPool, solved: Kata) -> None:
    """All of them, at every post."""
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    first, second, _ = draw(solved.id, solved.key, 1)
    whole = grader.grade(solved, first, 60)
    for pid in pool.pids.values():
        os.kill(pid, signal.SIGKILL)
    again = grader.grade(solved, second, 60)
    assert (again.state, again.stars, again.finding) == (whole.state, whole.stars, whole.finding)


def test_a_process_that_somebody_stops_for_a_while_changes_no_verdict(
    pool: WorkerPool, solved: Kata
) -> None:
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert state(grader, solved) is State.PASSED
    running = pool.worker(WorkerRole.RUNNING).pid
    os.kill(running, signal.SIGSTOP)
    begun = threading.Timer(6, os.kill, (running, signal.SIGCONT))
    begun.start()
    found = grader.grade(solved, draw(solved.id, solved.key, 1)[1], 5)
    begun.join()
    assert found.state is State.PASSED
    assert pool.worker(WorkerRole.RUNNING).pid == running


def test_processes_that_were_stopped_at_work_are_replaced(pool: WorkerPool, solved: Kata) -> None:
    """As by a new save under `kata watch`: the next attempt meets none of them."""
    lines = WorkerQueues(pool)
    grader = Grader(WorkerClient(lines))
    assert state(grader, solved) is State.PASSED
    killed = set(pool.pids.values()) - {pool.pids[WorkerRole.TRUSTED]}
    for post in (WorkerRole.RUNNING, WorkerRole.COMPILING):
        pool.worker(post).ask(Warm())
    pool.stop()
    pool.go()
    assert not killed & set(pool.pids.values())
    assert state(grader, solved, 1) is State.PASSED
    assert not killed & set(pool.pids.values())


@pytest.mark.parametrize(
    "does",
    [
        "import os; os.closerange(1, 3)",
        "import os; os.dup2(os.open('mine', os.O_WRONLY | os.O_CREAT), 1)",
        "import os; [os.close(n) for n in range(3, 99) if os.path.exists(f'/proc/self/fd/{n}') "
        "and os.readlink(f'/proc/self/fd/{n}').endswith('/out')]",
        "import sys; sys.stdout.close(); sys.stderr = None",
    ],
    ids=["closes-its-output", "replaces-it", "closes-the-copy", "closes-its-streams"],
)
def test_closed_or_replaced_output_changes_no_verdict(
    pool: WorkerPool, solved: Kata, repository: Repository, does: str
) -> None:
    repository.solve(solved, f"{repository.BODY}\n{does}")
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert [state(grader, solved, case) for case in (0, 1)] == [State.PASSED] * 2


def test_an_exception_in_the_worker_itself_is_shown(
    pool: WorkerPool, solved: Kata, repository: Repository
) -> None:
    """Nothing has called os._exit."""
    broken = (
        "import grader.sandbox.worker_environment as f\nf.shortened = f.os.fstat = f.stat = None"
    )
    repository.solve(solved, f"{repository.BODY}\n{broken}")
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    found = grader.grade(solved, draw(solved.id, solved.key, 1)[0], 60).finding
    assert found
    assert found.phrase == "left the process (exit code 1)"
    assert "TypeError: 'NoneType' object is not callable" in found.message
    assert "os._exit" not in found.message


def test_a_worker_that_lost_its_connection_did_not_leave(
    pool: WorkerPool, solved: Kata, repository: Repository
) -> None:
    repository.solve(solved, f"{repository.BODY}\nimport os\nos.closerange(3, 1000)")
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    found = grader.grade(solved, draw(solved.id, solved.key, 1)[0], 60).finding
    assert found
    assert found.phrase == "closed its connection to the grader"


def test_a_solution_that_dies_is_told_apart(pool: WorkerPool, solved: Kata) -> None:
    solved.solution.write_text("import os\nos._exit(0)\n")
    with pytest.raises(BrokenKata, match="exit code 0"):
        state(Grader(WorkerClient(WorkerQueues(pool))), solved)


def test_a_jax_that_cannot_be_imported_is_named(solved: Kata, tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "jax.py").write_text("raise ImportError('jaxlib is broken here')")
    pool = WorkerPool(CPU, Launcher(CPU, {**os.environ, "PYTHONPATH": str(broken)}))
    with pytest.raises(SandboxError, match="jaxlib is broken here"):
        state(Grader(WorkerClient(WorkerQueues(pool))), solved)
    pool.close()


def test_another_backend_than_the_one_announced_is_an_error(
    solved: Kata, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_the_cpu = environment(CPU, os.environ)
    monkeypatch.setattr(launcher, "environment", lambda *_: on_the_cpu)
    pool = WorkerPool(Device("tpu", Mode.COMPILED))
    with pytest.raises(SandboxError, match="jax should use the tpu, but uses the cpu"):
        state(Grader(WorkerClient(WorkerQueues(pool))), solved)
    pool.close()


def test_a_fork_does_not_answer_in_its_parents_place(solved: Kata) -> None:
    """Where no filter of system calls refuses it."""
    text = solved.path.read_text()
    pool = WorkerPool(CPU, isolation=Isolation.OFF)
    for first in ("import os\nos.fork()\n", "import os\nif os.fork(): os._exit(5)\n"):
        solved.path.write_text(first + text)
        grader = Grader(WorkerClient(WorkerQueues(pool)))
        found = [grader.grade(solved, case, 60) for case in draw(solved.id, solved.key, 1)[:2]]
        if "_exit" in first:
            assert [each.finding and each.finding.phrase for each in found] == [
                "left the process (exit code 5)"
            ] * 2
        else:
            assert [each.state for each in found] == [State.PASSED] * 2
    pool.close()


def test_closing_twice_or_unused_does_no_harm(solved: Kata) -> None:
    unused = WorkerPool(CPU)
    unused.close()
    used = WorkerPool(CPU)
    state(Grader(WorkerClient(WorkerQueues(used))), solved)
    used.close()
    used.close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process holds")
def test_processes_grown_large_are_replaced(
    solved: Kata, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those alone, when a file is done with; a new process is far from large."""
    pool.renew(0)
    lines = WorkerQueues(pool)
    assert state(Grader(WorkerClient(lines)), solved) is State.PASSED
    running, trusted = pool.worker(WorkerRole.RUNNING), pool.worker(WorkerRole.TRUSTED)
    lines.part()
    assert pool.worker(WorkerRole.RUNNING) is running
    large = {running.pid}
    monkeypatch.setattr(process_limits, "used", lambda pid: MOST_USED + (pid in large))
    lines.part()
    assert not running.alive
    assert trusted.alive
    assert state(Grader(WorkerClient(lines)), solved, 1) is State.PASSED
    monkeypatch.setattr(process_limits, "asked", lambda _pid: MOST_ASKED + 1)
    lines.part()
    assert not trusted.alive


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process holds")
def test_processes_grown_large_are_replaced_between_exercises(
    solved: Kata, repository: Repository, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that have begun on the next kata: their successors answer for them."""
    following = repository.add("triple", number=2)
    repository.solve(following)
    _, second, *_ = draw(solved.id, solved.key, 1)
    other = draw(following.id, following.key, 1)[0]
    pool.renew(0)
    grader = Grader(WorkerClient(WorkerQueues(pool)))
    assert state(grader, solved) is State.PASSED
    large = {
        pool.worker(post) for post in (WorkerRole.TRUSTED, WorkerRole.RUNNING, WorkerRole.COMPILING)
    }
    pids = {worker.pid for worker in large}
    monkeypatch.setattr(process_limits, "used", lambda pid: MOST_USED + (pid in pids))
    grader.prepare(solved, second)
    grader.prepare(following, other)
    assert grader.grade(solved, second, 60).state is State.PASSED
    assert all(worker.alive for worker in large)
    assert grader.grade(following, other, 60).state is State.PASSED
    assert not any(worker.alive for worker in large)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says what a process holds")
def test_processes_grown_large_are_replaced_while_nobody_waits(
    solved: Kata, pool: WorkerPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As under `kata watch`, where one kata is saved again and again."""
    lines = WorkerQueues(pool)
    assert state(Grader(WorkerClient(lines)), solved) is State.PASSED
    running = pool.worker(WorkerRole.RUNNING)
    monkeypatch.setattr(process_limits, "used", lambda pid: MOST_USED + (pid == running.pid))
    lines.warm(())
    assert not running.alive
    assert pool.worker(WorkerRole.RUNNING).alive


@pytest.mark.parametrize("workers", ["0", "2"])
def test_pytest_renews_once_for_each_exercise(
    solved: Kata, repository: Repository, workers: str
) -> None:
    repository.solve(repository.add("triple", number=2))
    note = "open(os.path.join(os.environ['NOTES'], 'renewed'), 'a').write('r')"
    imports = "import os\nfrom grader.sandbox.worker_pool import WorkerPool\n"
    text = f"{imports}WorkerPool.renew = lambda _: {note}\n"
    (repository.root / "conftest.py").write_text(text)
    done = repository.process("-n", workers, "--dist=loadfile", NOTES=str(repository.root))
    assert (done.state("double"), done.state("triple")) == ("passed", "passed")
    assert (repository.root / "renewed").read_text() == "rr"
