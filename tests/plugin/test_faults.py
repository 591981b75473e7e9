"""Whatever a learner's file does to its process, the other grades are reported."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path

import pytest

from tests.support.repositories import Repository

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no zygote")

#: What a kata does to the machine where nothing keeps it from that.
FREE = ("--kata-isolation", "off")

PYTHON_LOOP = "while True:\n    pass"
COMPILED_LOOP = """n = jax.lax.while_loop(lambda n: n < 10, lambda n: (n + 1) % 5, 0)
o_ref[...] = x_ref[...] * n.astype(x_ref.dtype)"""
LONE_WAIT = """from jax.experimental.pallas import tpu as pltpu
def body(buffer, semaphore):
    pltpu.make_async_copy(x_ref, buffer, semaphore).wait()
    o_ref[...] = buffer[...] * 2
pl.run_scoped(body, pltpu.VMEM(x_ref.shape, x_ref.dtype), pltpu.SemaphoreType.DMA)"""
LONE_SEMAPHORE = """from jax.experimental.pallas import tpu as pltpu
def body(semaphore):
    pltpu.semaphore_wait(semaphore, 1)
    o_ref[...] = x_ref[...] * 2
pl.run_scoped(body, pltpu.SemaphoreType.REGULAR)"""
SEGFAULT = "import ctypes\nctypes.string_at(0)"
ALLOCATION = "import numpy\nhoard = numpy.ones(30 * 2**30, numpy.uint8)"
GROWTH = "hoard = []\nwhile True:\n    hoard.append(bytes(2**26))"
EXIT = "import sys\nsys.exit(0)"
SKIP = "import pytest\npytest.skip('not today')"
KILLED = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
HANGS_UP = f"import os\nos.closerange(3, 1000)\n{PYTHON_LOOP}"
PATCHED = "import numpy\nnumpy.testing.assert_allclose = print\no_ref[...] = x_ref[...] * 3"
PATCHED_MORE = """import numpy
numpy.abs = numpy.isnan = lambda *_: numpy.zeros(())
o_ref[...] = x_ref[...] * 3"""

#: By kata: the region's body, and words of the reason that the learner must be given.
FAULTS = {
    "python_loop": (PYTHON_LOOP, "no answer after"),
    "compiled_loop": (COMPILED_LOOP, "no answer after"),
    "lone_wait": (LONE_WAIT, "where no copy was started"),
    "lone_semaphore": (LONE_SEMAPHORE, "no answer after"),
    "segfault": (SEGFAULT, "SIGSEGV"),
    "allocation": (ALLOCATION, "Unable to allocate"),
    "growth": (GROWTH, "MemoryError"),
    "sys_exit": (EXIT, "calls sys.exit"),
    "skip": (SKIP, "tries to skip itself"),
    "killed": (KILLED, "killed (SIGKILL)"),
    "hangs_up": (HANGS_UP, "closed its connection to the grader"),
    "debugger": ("breakpoint()", "opens a debugger"),
    "jax_debugger": ("jax.debug.breakpoint()", "opens a debugger"),
    "patched": (PATCHED, "off by the same factor"),
    "patched_more": (PATCHED_MORE, "off by the same factor"),
}
AT_IMPORT = {
    "os_exit": ("import os\nos._exit(0)\n", "exit code 0"),
    "raises": ("1 / 0\n", "ZeroDivisionError"),
    "no_syntax": ("def\n", "SyntaxError"),
    "missing": ("from jax.numpy import no_such_thing\n", "no_such_thing"),
}


#: One of each way that a process ends, or doesn't. What is told of the others is the pool's, which
#: is the same in pytest's process and in its workers.
ENDS = ("python_loop", "segfault", "sys_exit", "hangs_up", "os_exit")


#: Two hidden cases show what becomes of the others of a kata, and of its process.
TWO_CASES = ("-k", "hidden0 or hidden1")


def build(repository: Repository, names: Collection[str]) -> dict[str, str]:
    """A kata for each of these faults between two good ones; returns the words by name."""
    hasty = "timeout = 1\n" + repository.KEY
    repository.solve(repository.add("good_before", number=1))
    for number, name in enumerate(names, start=2):
        if name in FAULTS:
            body, words = FAULTS[name]
            key = hasty if words.startswith("no answer") else repository.KEY
            repository.solve(repository.add(name, number=number, key=key), body)
        else:
            kata = repository.add(name, number=number)
            kata.path.write_text(AT_IMPORT[name][0] + kata.solution.read_text())
    repository.solve(repository.add("good_after", number=99))
    every = {**FAULTS, **AT_IMPORT}
    return {name: every[name][1] for name in names}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("names", "arguments"),
    [((*FAULTS, *AT_IMPORT), ()), (ENDS, ("-n", "2"))],
    ids=["one-process", "xdist"],
)
def test_each_fault_is_its_own_failure(
    repository: Repository, names: Collection[str], arguments: Sequence[str]
) -> None:
    words = build(repository, names)
    ran = repository.process(*arguments, *TWO_CASES, timeout=300)
    assert ran.code == 1
    assert set(ran.grades) == {"good_before", "good_after", *words}
    for name, said in words.items():
        assert ran.state(name) == "failed", name
        assert said in ran.phrase(name), name
        assert len(ran.grades[name]) == 2, name
    assert ran.state("good_before") == ran.state("good_after") == "passed"


def test_a_hang_is_told_with_its_line(repository: Repository) -> None:
    kata = repository.add("python_loop", key="timeout = 2\n" + repository.KEY)
    repository.solve(kata, PYTHON_LOOP)
    out = repository.pytest().out
    assert "no answer after 2 s" in out
    assert "while True:" in out or "pass" in out
    assert "kata_01_python_loop.py:" in out


def test_only_the_first_hanging_case_is_waited_for(repository: Repository, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    note = f"with open({str(begun)!r}, 'a') as file:\n    file.write('begun\\n')\n"
    kata = repository.add("python_loop", key="timeout = 2\n" + repository.KEY)
    repository.solve(kata, note + PYTHON_LOOP)
    ran = repository.process(*FREE)
    assert begun.read_text() == "begun\nbegun\n"  # a second try of the same case
    assert len(ran.grades["python_loop"]) > 1
    assert "no answer after 2 s" in ran.phrase("python_loop")


def test_nothing_is_graded_against_an_answer_that_was_rewritten(repository: Repository) -> None:
    """Neither a solution nor a key."""
    rewritten = {
        "solution": (".py", "* 2", "* 3"),
        "key": (".toml", "hints", "outside=['mul']\nhints"),
    }
    for number, (name, (suffix, old, new)) in enumerate(rewritten.items(), start=1):
        victim = repository.add(f"victim_{name}", number=10 + number)
        repository.solve(victim, "o_ref[...] = x_ref[...] * 3")
        file = victim.solution.with_suffix(suffix)
        rewrite = f"""import pathlib
file = pathlib.Path({str(file)!r})
file.write_text(file.read_text().replace({old!r}, {new!r}))
o_ref[...] = x_ref[...] * 2"""
        repository.solve(repository.add(f"writer_{name}", number=number), rewrite)
    ran = repository.process(*FREE, *TWO_CASES)
    for name in rewritten:
        assert ran.state(f"writer_{name}") == "passed"
        assert ran.state(f"victim_{name}") == "failed"
        assert "not your kernel" in ran.phrase(f"victim_{name}")
    assert ran.out.count("has changed since this session began") >= len(rewritten)
    assert ran.code == 1


def test_prints_are_shown_with_the_failure(repository: Repository) -> None:
    repository.solve(repository.add("talks"), "print('look here', x_ref.shape)")
    out = repository.pytest().out
    assert "Captured stdout" in out
    assert "look here (" in out


def test_an_exception_of_30_mb_is_cut(repository: Repository) -> None:
    repository.solve(repository.add("verbose"), "raise ValueError('x' * 30_000_000)")
    ran = repository.pytest("-vv")
    assert "MB more" in ran.out
    assert len(ran.out) < 200_000


def test_prints_of_50_mb_are_cut(repository: Repository) -> None:
    """Also of a process that dies, where pytest's reads them."""
    talks = "for _ in range(500):\n    print('y' * 100_000)"
    repository.solve(repository.add("talks", number=1), talks)
    dies = f"{talks}\nimport os, sys\nsys.stdout.flush()\nos._exit(3)"
    repository.solve(repository.add("dies", number=2), dies)
    ran = repository.pytest()
    assert ran.state("talks") == ran.state("dies") == "failed"
    for grade in [*ran.grades["talks"], *ran.grades["dies"]]:
        assert "MB more" in grade["printed"]
    assert len(ran.out) < 400_000


def test_an_exception_without_a_text_is_told(repository: Repository) -> None:
    mute = """class Mute(Exception):
    def __str__(self):
        raise KeyError
raise Mute"""
    repository.solve(repository.add("mute"), mute)
    assert "its text raises KeyError" in repository.pytest().phrase("mute")


def test_an_exception_in_the_interpreter_poisons_nothing(repository: Repository) -> None:
    """The second case of the same process is graded on its own merits."""
    body = """if x_ref.shape[0] == 8:
    o_ref[...] = x_ref[pl.ds(8 + pl.program_id(0), 8)]
else:
    o_ref[...] = x_ref[...] * 2"""
    repository.solve(repository.add("now_and_then"), body)
    ran = repository.pytest()
    states = {grade["drawn"].split(",")[0]: grade["state"] for grade in ran.grades["now_and_then"]}
    assert states == {"bm=8": "failed", "bm=16": "passed"}
    assert "out of bounds" in ran.phrase("now_and_then")


@linux
def test_a_killed_zygote_is_started_anew(repository: Repository) -> None:
    """Whatever becomes of the one that killed it, the others are graded."""
    repository.solve(repository.add("good_before", number=1))
    killer = "import os\nos.kill(os.getppid(), 9)\no_ref[...] = x_ref[...] * 3"
    repository.solve(repository.add("killer", number=2), killer)
    leaver = "import os\nos.kill(os.getppid(), 9)\nos._exit(3)"
    repository.solve(repository.add("leaver", number=3), leaver)
    repository.solve(repository.add("good_after", number=4))
    ran = repository.process(*FREE, *TWO_CASES)
    assert ran.state("good_before") == ran.state("good_after") == "passed"
    assert ran.state("killer") == ran.state("leaver") == "failed"
    assert "off by the same factor" in ran.phrase("killer")
    assert "ended, and its parent process too" in ran.phrase("leaver")
    assert "BrokenPipeError" not in ran.out


def test_each_has_a_folder_for_temporary_files(repository: Repository) -> None:
    """Who removes all of it harms nobody else, though others have theirs beside it."""
    remover = """import shutil, tempfile
shutil.rmtree(tempfile.gettempdir(), ignore_errors=True)
o_ref[...] = x_ref[...] * 3"""
    repository.solve(repository.add("remover", number=1), remover)
    writer = """import tempfile
tempfile.TemporaryFile().close()
open("beside", "w").close()
o_ref[...] = x_ref[...] * 2"""
    repository.solve(repository.add("writer", number=2), writer)
    ran = repository.pytest()
    assert "off by the same factor" in ran.phrase("remover")
    assert ran.state("writer") == "passed"
    assert not (repository.root / "beside").exists()


@linux
def test_a_daemon_ends_with_its_worker(repository: Repository) -> None:
    mark = f"{time.time_ns() % 10**8}.25"
    daemon = f"""import os
if not os.fork():
    os.setsid()
    if not os.fork():
        os.execvp("sleep", ["sleep", "{mark}"])
    os._exit(0)
o_ref[...] = x_ref[...] * 2"""
    # A process with threads may hang as it forks: then this is how long.
    key = "timeout = 5\n" + repository.KEY
    repository.solve(repository.add("daemon", key=key), daemon)
    repository.process("--kata-isolation=off")  # else it could start nothing
    assert mark not in _running()


def test_nothing_is_left_behind(
    repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No process and no file outlives the session, also when a kernel hangs."""
    scratch = tmp_path_factory.mktemp("scratch")
    key = "timeout = 2\n" + repository.KEY
    mark = f"{time.time_ns() % 10**8}.5"
    body = f"import subprocess\nsubprocess.Popen(['sleep', '{mark}'])\n{PYTHON_LOOP}"
    repository.solve(repository.add("python_loop", key=key), body)
    assert (
        repository.process("--kata-isolation=off", TMPDIR=str(scratch)).state("python_loop")
        == "failed"
    )
    assert not list(scratch.glob("pallas-katas-*"))
    assert mark not in _running()


def _running() -> str:
    ran = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True)
    return ran.stdout
