"""Fixtures: the repository's own katas, a grader, and small repositories to break."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grader.grading import cost_studies
from grader.grading.grader import Grader
from grader.sandbox import devices
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import WorkerQueues
from grader.sandbox.worker_environment import environment
from grader.sandbox.worker_pool import WorkerPool
from pallascope.tpu.chips import DEFAULT
from tests.support.contract import OwnPar, Share
from tests.support.distribution import Distribution, in_order
from tests.support.known_results import KnownResults
from tests.support.repositories import ROOT, Clone, Repository, Shop
from tests.support.sessions import LentPool

CPU = devices.choose("strict", devices.Hardware(tpu=False, gpu=False))
# With libtpu installed, jax would load it in search of a TPU, and without the compiler's flags. And
# what tests run in their own process is compiled as quickly as what workers run.
for variable, value in environment(CPU, {}).items():
    os.environ.setdefault(variable, value)


BROWSERS = ("chromium", "chromium-browser", "google-chrome")
#: The browser itself asks for nothing: a page's requests are the only ones.
QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--seeds",
        default="1",
        help="draw the hidden cases of every exercise with each of these (default: %(default)s)",
    )
    parser.addoption(
        "--share",
        choices=[share.value for share in Share],
        default=Share.WHOLE.value,
        help="grade only what CI grades of the contract on the newest jax (default: %(default)s)",
    )
    parser.addoption(
        "--known-results",
        type=Path,
        metavar="FILE",
        help="leave out the tests that FILE knows to pass, and add those that pass to it",
    )
    parser.addoption(
        "--every-case",
        action="store_true",
        help="grade every known mistake on all hidden cases, also after one has shown it",
    )


@pytest.fixture(scope="session")
def pool() -> Iterator[WorkerPool]:
    """A pool in strict mode, shared by the tests of one process, which imports jax once."""
    pool = WorkerPool(CPU)
    yield pool
    pool.close()


@pytest.fixture(scope="session")
def lines(pool: WorkerPool) -> WorkerQueues:
    """The queues of the pool's workers, which cache answers about solutions."""
    return WorkerQueues(pool, kept=20)


@pytest.fixture(scope="session")
def asking(lines: WorkerQueues) -> WorkerClient:
    """A client of the pool."""
    return WorkerClient(lines)


@pytest.fixture(scope="session")
def grader(asking: WorkerClient) -> Grader:
    """A grader in strict mode, shared by the tests of one process."""
    return Grader(asking)


@pytest.fixture(scope="session")
def own_par(lines: WorkerQueues) -> Grader:
    """A grader of solutions that uses each solution as its own par."""
    return Grader(OwnPar(lines))


@pytest.fixture(scope="session")
def lent() -> Iterator[LentPool]:
    """The pool of pytest sessions that run in this process."""
    pool = LentPool(CPU)
    yield pool
    pool.give_back()


@pytest.fixture
def repository(tmp_path: Path, request: pytest.FixtureRequest) -> Repository:
    """An empty repository; add katas to it."""
    return Repository(tmp_path, lambda device: request.getfixturevalue("lent").opened(device))


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
    """Git as if freshly installed, with an author, independent of this machine's settings."""
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
def shared(shop: Shop, lines: WorkerQueues, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The shop, whose commands use a pool that other tests have used."""

    @contextlib.contextmanager
    def study_client(chip: str | None, gpu: str = "h100") -> Iterator[WorkerClient]:
        yield WorkerClient(lines, (chip or DEFAULT,), literally=chip is not None, gpu=gpu)

    monkeypatch.setattr(cost_studies, "study_client", study_client)
    return shop


def pytest_configure(config: pytest.Config) -> None:
    """Hide PYTEST_ADDOPTS from sessions that tests start.

    A controller keeps the variable, because its workers read it.
    """
    if not config.getoption("numprocesses", None):
        os.environ.pop("PYTEST_ADDOPTS", None)
    config.addinivalue_line(
        "markers",
        "verdict: depends on the files that a verdict can import, and on its kata",
    )
    if file := config.getoption("--known-results"):
        config.pluginmanager.register(KnownResults(config, file))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Distribution | None:
    if config.getoption("dist") != "load":  # asked for by name
        return None
    config.option.loadscopereorder = False  # by the number of tests; the order says more
    return Distribution(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Set a longer time limit: tests start whole pytest processes, which are slow on a busy
    machine."""
    for item in items:
        if ROOT / "tests" in item.path.parents and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))
    items[:] = in_order(items, ROOT)


def pytest_make_parametrize_id(val: object) -> str | None:
    """Replace "kata" in ids, because pytest -k kata selects exercises."""
    return val.replace("kata", "exercise") if isinstance(val, str) and "kata" in val else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With --durations: the seconds by file."""
    if not terminalreporter.config.getoption("durations"):
        return
    seconds: dict[str, float] = defaultdict(float)
    for report in itertools.chain(*terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.partition("::")[0]] += report.duration
    terminalreporter.section("seconds by file")
    for file, taken in sorted(seconds.items(), key=lambda pair: -pair[1])[:15]:
        terminalreporter.write_line(f"{taken:7.1f}  {file}")
    terminalreporter.write_line(f"{sum(seconds.values()):7.1f}  all {len(seconds)} files")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a window. Without one the tests are skipped, unless they are required."""
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        missing = f"none of {', '.join(BROWSERS)} is installed"
        if os.environ.get("KATA_BROWSER") == "required":
            pytest.fail(missing)
        pytest.skip(missing)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=found, args=list(QUIET))
        yield opened
        opened.close()
