"""Fixtures: the repository's own katas, a grader, and small repositories to break."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader.grading import studies
from grader.grading.grader import Grader
from grader.sandbox import devices
from grader.sandbox.asking import Asking
from grader.sandbox.bench import Bench
from grader.sandbox.environment import environment
from grader.sandbox.trusted import Trusted
from tests.support.repositories import ROOT, Clone, Repository, Shop

CPU = devices.choose("strict", devices.Hardware(tpu=False, gpu=False))
# With libtpu installed, jax would load it in search of a TPU, and without the compiler's flags. And
# what tests run in their own process is compiled as quickly as what workers run.
for variable, value in environment(CPU, {}).items():
    os.environ.setdefault(variable, value)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        default="1",
        help="draw the hidden cases of every solution with each of these (default: %(default)s)",
    )


@pytest.fixture(scope="session")
def bench() -> Iterator[Bench]:
    """Where jax is imported once, in strict mode, for the tests of one process."""
    bench = Bench(CPU)
    yield bench
    bench.close()


@pytest.fixture(scope="session")
def asking(bench: Bench) -> Asking:
    """Who asks the bench, and keeps what the solutions' side answered."""
    return Asking(bench, trusted=Trusted(bench, kept=20))


@pytest.fixture(scope="session")
def grader(asking: Asking) -> Grader:
    """A grader in strict mode, shared by the tests of one process."""
    return Grader(asking)


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """An empty repository; add katas to it."""
    return Repository(tmp_path)


@pytest.fixture
def shop(
    repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Shop:
    monkeypatch.chdir(repository.root)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    return Shop(repository, capsys)


@pytest.fixture
def settled_git(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Git as if freshly installed, with an author: no setting of this machine counts."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    settings = {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(tmp_path.parent),
    }
    who = {f"GIT_{who}_{what}": "a@b.c" for who in ("AUTHOR", "COMMITTER") for what in _ABOUT}
    for name, value in {**settings, **who}.items():
        monkeypatch.setenv(name, value)


_ABOUT = ("NAME", "EMAIL")


@pytest.fixture
def clone(shop: Shop, settled_git: None, monkeypatch: pytest.MonkeyPatch) -> Clone:
    return Clone(shop, monkeypatch)


@pytest.fixture
def shared(shop: Shop, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop, its commands at a bench that others have sat at."""

    @contextlib.contextmanager
    def studio(chip: str) -> Iterator[Asking]:
        yield Asking(bench, (chip,))

    monkeypatch.setattr(studies, "studio", studio)
    return shop


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Our own tests start whole pytest processes: on a busy machine those take their time.

    And tests of one exercise follow each other: what was compiled for one serves the next.
    """
    for item in items:
        if ROOT / "tests" in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
    items.sort(key=_exercise)


def _exercise(item: pytest.Item) -> str:
    spec = getattr(item, "callspec", None)
    return spec.params["exercise"].id if spec and "exercise" in spec.params else ""
