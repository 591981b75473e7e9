"""`--known-results FILE` leaves out tests that are known to pass, and adds those that pass to FILE.

A test is known if it has passed before with the same id, options, versions, and the same content of
every file of the repository on which its result can depend. CI uses this; `.ci/full` runs
everything. There are four kinds of tests:

- A test marked `verdict` depends on `VERDICT_FILES`, on the table of explanations, on its kata's
  solution, key and variant, and on its own module.
- A test in tests/pallascope depends on `VERDICT_FILES`, tests/pallascope and pyproject.toml.
- Other tests depend on `CODE`.
- A test whose module, or a helper that it imports, mentions ROOT may read any file of the
  repository, and depends on all of them; but on pages and pictures only if they mention some.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import json
import os
import platform
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pallascope.tools.versions import versions
from tests.support.repositories import ROOT

#: The files that a verdict can import. `tests/test_architecture.py` compares them with the layers.
VERDICT_FILES = (
    *("pallascope", "grader/verdict.py", "grader/tools", "grader/exercise", "grader/checks"),
    *("grader/sandbox", "grader/record", "grader/grading"),
    *("tests/conftest.py", "tests/support"),
)
#: Where a verdict is explained: each known mistake leads to an entry of docs/errors.md.
EXPLANATIONS = ("grader/report/failures.py",)
PALLASCOPE_FILES = (*VERDICT_FILES, "tests/pallascope", "pyproject.toml")
CODE = ("pallascope", "grader", "tests", "integrations", "tools", "conftest.py", "pyproject.toml")
#: The endings of pages, pictures and the notebook.
PAGES = (".md", ".svg", ".ipynb")
_MENTIONS_PAGES = re.compile(r"\.md\b|\bdocs\b|README|CHANGELOG|svg|ipynb|ls-files")
NO_PAGES = "no pages"
EVERYTHING = (".",)
EVERYTHING_BUT_PAGES = (".", NO_PAGES)
#: Its ROOT is where temporary katas link to, and the place of the tests.
HARMLESS = ("tests.support.repositories", "tests.support.known_results")
#: A result is kept for this many sessions in which it does not occur.
MAX_AGE = 10
#: Folders with a dot belong to the repository only if they are these.
_WITH_DOT = (".ci", ".devcontainer", ".github", ".vscode")


def digest(*contents: bytes) -> str:
    """A digest of several contents, which depends on their boundaries."""
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in contents)).hexdigest()


def _is_ignored(folder: str) -> bool:
    """Whether a folder holds caches, environments or built files."""
    built = folder in ("__pycache__", "node_modules", "build", "dist") or folder.endswith(
        ".egg-info"
    )
    return built or (folder.startswith(".") and folder not in _WITH_DOT)


def _files(root: Path, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        place = root / name
        if not place.is_dir():
            yield place
            continue
        for folder, folders, files in os.walk(place):
            folders[:] = sorted(folder for folder in folders if not _is_ignored(folder))
            yield from (Path(folder, file) for file in sorted(files))


@functools.cache
def state(names: tuple[str, ...], root: Path = ROOT) -> str:
    """A digest of all files below these places, and of the versions of what they import."""
    system = (platform.python_version(), platform.system(), platform.machine())
    contents = [json.dumps([versions(), system], sort_keys=True).encode()]
    left_out = PAGES if NO_PAGES in names else ()
    for file in _files(root, names):
        if file.is_file() and file.suffix not in left_out:
            contents += [file.relative_to(root).as_posix().encode(), file.read_bytes()]
    return digest(*contents)


@functools.cache
def reads_the_repository(file: Path) -> bool:
    """Whether a test module, or a helper in tests/ that it imports, mentions ROOT."""
    text = file.read_text(encoding="utf-8")
    if re.search(r"\bROOT\b", text):
        return True
    return any(map(reads_the_repository, _helpers(ast.parse(text))))


@functools.cache
def mentions_pages(file: Path) -> bool:
    """Whether a test module, or a helper in tests/ that it imports, mentions pages or pictures."""
    text = file.read_text(encoding="utf-8")
    return bool(_MENTIONS_PAGES.search(text)) or any(map(mentions_pages, _helpers(ast.parse(text))))


def _helpers(tree: ast.Module) -> Iterator[Path]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{each.name}" for each in node.names)]
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        for name in names:
            file = ROOT.joinpath(*name.split(".")).with_suffix(".py")
            if name.startswith("tests.") and name not in HARMLESS and file.is_file():
                yield file


def dependencies(file: Path) -> tuple[str, ...]:
    """The places on which a test depends that is in this module and is not marked `verdict`."""
    if reads_the_repository(file):
        return EVERYTHING if mentions_pages(file) else EVERYTHING_BUT_PAGES
    if (ROOT / "tests" / "pallascope") in file.parents:
        return PALLASCOPE_FILES
    return CODE


def result_digest(item: pytest.Item, options: str) -> str:
    """A digest of everything that the test's result depends on. `options` are the session's."""
    if not item.get_closest_marker("verdict"):
        return digest(
            item.nodeid.encode(), options.encode(), state(dependencies(item.path)).encode()
        )
    values: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    variant = values.get("variant")
    kata = variant.kata if variant else values["exercise"]
    files = (item.path, kata.solution, kata.key_path)
    code = state(VERDICT_FILES), state(EXPLANATIONS)
    texts = (item.nodeid, options, variant.source if variant else "", *code)
    return digest(*(text.encode() for text in texts), *(file.read_bytes() for file in files))


def read(file: Path) -> dict[str, int]:
    """The known results with their ages in sessions; none if the file is missing or broken."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        known = json.loads(file.read_text(encoding="utf-8"))
        return {str(result): int(age) for result, age in known.items()}
    return {}


def write(file: Path, known: dict[str, int], current: Iterable[str]) -> None:
    """Write the `current` results of this session, and the known ones that are not too old."""
    older = {result: age + 1 for result, age in known.items() if age < MAX_AGE}
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(json.dumps({**older, **dict.fromkeys(current, 0)}), encoding="utf-8")
    new.replace(file)


class KnownResults:
    """The plugin of one session, registered where `--known-results` is given."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config, self._file = config, file
        self._known = read(file)
        self._left_out: list[str] = []
        self._new: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        names = ("--share", "--every-case", "--seeds")
        options = repr([self._config.getoption(name) for name in names])
        kept, left_out = [], []
        for item in items:
            if item.get_closest_marker("skip"):  # what pytest makes of a list without values
                kept.append(item)
                continue
            result = result_digest(item, options)
            item.user_properties.append(("result", result))
            if result in self._known:
                left_out.append(item)
                self._left_out.append(result)
            else:
                kept.append(item)
        if left_out:
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = kept

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._new += [str(key) for name, key in report.user_properties if name == "result"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the list of one of xdist's workers, which all collect the same."""
        self._left_out = getattr(node, "workeroutput", {}).get("known_results", self._left_out)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["known_results"] = self._left_out  # type: ignore[attr-defined]
            return
        write(self._file, self._known, [*self._left_out, *self._new])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"{len(self._left_out)} results known from {self._file}, {len(self._new)} new"
        )
