"""Repositories of small katas, to be graded, broken, and kept by git."""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from grader.cli import main
from grader.exercise.catalog import Kata
from grader.record.ledger import Pass, append_passes
from grader.sandbox.worker_pool import WorkerPool
from grader.tools.git import Git, blob_id, git_in
from grader.verdict import Device
from tests.support import sessions

ROOT = Path(__file__).parent.parent.parent


def with_text(kata: Kata, root: Path, text: str) -> Kata:
    """The same kata in a repository at `root` that shares our solutions, its file `text`."""
    link = root / "solutions"
    if not link.exists():
        link.symlink_to(kata.root / "solutions")
    copy = Kata(root, kata.track, kata.stem)
    copy.path.parent.mkdir(parents=True, exist_ok=True)
    copy.path.write_text(text, encoding="utf-8")
    return copy


@dataclass(frozen=True)
class Ran:
    """The result of a pytest session."""

    code: int
    out: str
    grades: dict[str, list[dict[str, Any]]]  # by kata, in the order of the cases

    def state(self, kata: str) -> str:
        """The worst state among the kata's cases."""
        states = {grade["state"] for grade in self.grades[kata]}
        return next(state for state in ("failed", "todo", "passed") if state in states)

    def phrase(self, kata: str) -> str:
        finding = next(g["finding"] for g in self.grades[kata] if g["finding"])
        return finding["phrase"]


class Repository:
    """A repository of small katas in its own folder."""

    SOLUTION = '''"""Double every element."""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def NAME_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    return x * 2


def NAME_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    o_ref[...] = x_ref[...] * 2
    # END SOLUTION


def NAME(x: Float[Array, "M N"], *, bm: int = 8) -> Float[Array, "M N"]:
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        NAME_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
    BODY = "o_ref[...] = x_ref[...] * 2"
    KEY = """title = "NAME"
concept = "doubling"
write = "kernel"
todo = ["double it"]
hints = ["a", "b", "c"]
count = 3

[cases]
bm = [8, 16]
M = ["2*bm", "3*bm"]
N = [128, 256]
dtype = ["float32", "bfloat16"]
"""

    def __init__(self, root: Path, opened: Callable[[Device], WorkerPool] = WorkerPool) -> None:
        self.root, self._opened = root, opened
        self.grades = root / "for" / "machines" / "grades.json"  # of the latest session
        for folder in ("katas", "solutions"):
            (root / folder).mkdir()
        (root / "pytest.ini").write_text("[pytest]\ntestpaths = katas\ntimeout = 60\n")

    def add(self, name: str, track: str = "1_first", number: int = 1, key: str = KEY) -> Kata:
        """A kata with its solution and key, its file the stub."""
        kata = Kata(self.root, track, f"kata_{number:02}_{name}")
        for file in (kata.path, kata.solution):
            file.parent.mkdir(parents=True, exist_ok=True)
        kata.solution.write_text(self.SOLUTION.replace("NAME", name))
        kata.key_path.write_text(key.replace("NAME", name))
        kata.path.write_text(kata.stub_text())
        return kata

    def solve(self, kata: Kata, body: str = BODY) -> None:
        """Write the learner's file with this region body."""
        text = kata.solution.read_text()
        indented = body.replace("\n", "\n    ")
        kata.path.write_text(text.replace(self.BODY, indented))

    def pytest(self, *arguments: str, **environ: str) -> Ran:
        """Run pytest here, in this process, with a pool that other tests have used."""
        return self._ran(arguments, environ, functools.partial(sessions.here, self._opened))

    def process(self, *arguments: str, timeout: float = 120, **environ: str) -> Ran:
        """Run pytest here, in its own process."""
        return self._ran(arguments, environ, functools.partial(sessions.apart, timeout))

    def _ran(
        self, arguments: Sequence[str], environ: Mapping[str, str], session: sessions.Session
    ) -> Ran:
        self.grades.unlink(missing_ok=True)
        arguments = (f"--kata-json={self.grades}", *arguments)
        code, out = session(self.root, arguments, {"COLUMNS": "100", **environ})
        found: dict[str, list[dict[str, Any]]] = {}
        if self.grades.exists():
            for grade in json.loads(self.grades.read_text())["grades"]:
                found.setdefault(grade["kata"].split("_", 3)[3], []).append(grade)
        return Ran(code, out, found)


class Shop:
    """A repository of three exercises in the current folder, in which commands run."""

    def __init__(self, repository: Repository, capture: pytest.CaptureFixture[str]) -> None:
        self.repository = repository
        self.root = repository.root
        self.double = repository.add("double", number=1)
        self.row_sum = repository.add("row_sum", number=2)
        self.row_max = repository.add("row_max", track="2_second", number=1)
        self.capture = capture

    def run(self, *arguments: str, code: int = 0) -> str:
        """The stdout of a command that exits with `code`, or its stderr if misused."""
        assert main(arguments) == code
        captured = self.capture.readouterr()
        return captured.err if code == 2 else captured.out

    def edit_key(self, kata: Kata, old: str, new: str) -> None:
        text = kata.key_path.read_text()
        assert text.count(old) == 1
        kata.key_path.write_text(text.replace(old, new))


class Clone:
    """The shop's repository, kept by git on the branch main, and with passes in its ledger."""

    def __init__(self, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shop, self.root, self._monkeypatch = shop, shop.root, monkeypatch
        (self.root / ".gitattributes").write_text((ROOT / ".gitattributes").read_text())
        self.on("2026-11-16")
        Git(self.root)("init", "-q", "-b", "main")
        self.git = git_in(self.root)
        self.git("add", ".")
        self.git("commit", "-q", "-m", "As shipped")

    def on(self, day: str) -> None:
        """Set the day of the following commits."""
        for who in ("AUTHOR", "COMMITTER"):
            self._monkeypatch.setenv(f"GIT_{who}_DATE", f"{day}T12:00:00+00:00")

    def passed(self, kata: Kata, body: str = "", day: str = "2026-11-18", stars: int = 3) -> Pass:
        """Solve the kata with this region body, and record its pass in the ledger."""
        self.shop.repository.solve(kata, body or Repository.BODY)
        blob = blob_id(kata.path.read_bytes())
        one = Pass(kata.id, blob, stars, datetime.date.fromisoformat(day), (("jax", "0.10.2"),))
        append_passes(self.root, [one])
        return one

    def subjects(self) -> list[str]:
        """The first lines of all commits' messages, the newest first."""
        return self.git("log", "--format=%s").splitlines()

    def status(self) -> list[str]:
        return self.git("status", "--porcelain").splitlines()

    def changed(self, commit: str = "HEAD") -> list[str]:
        """The paths that a commit touches."""
        return self.git("show", "--format=", "--name-only", commit).splitlines()
