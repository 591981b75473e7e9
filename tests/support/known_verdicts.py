"""`--known-verdicts FILE`: leaves out verdicts that are known, and adds to FILE those that are new.

A test marked `verdict` is known if it has passed before with the same solution, key, variant, seed,
versions, and files of ours that a verdict can import. CI uses this; `.ci/full` grades everything.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import json
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pallascope.tools.versions import versions
from tests.support.repositories import ROOT

#: What a verdict can import. `tests/test_architecture.py` compares it with the layers.
FILES = (
    *("pallascope", "grader/verdict.py", "grader/tools", "grader/exercise", "grader/checks"),
    *("grader/sandbox", "grader/record", "grader/grading"),
    *("tests/conftest.py", "tests/support"),
)
#: Verdicts of so many states of these files are kept.
MAX_STATES = 10


def digest(*contents: bytes) -> str:
    """A digest of several contents, which also tells where each ends."""
    return hashlib.sha256(b"".join(hashlib.sha256(each).digest() for each in contents)).hexdigest()


def _files(root: Path) -> Iterator[Path]:
    for name in FILES:
        place = root / name
        yield from sorted(place.rglob("*")) if place.is_dir() else [place]


@functools.cache
def state(root: Path = ROOT) -> str:
    """A digest of all files that a verdict can import, and of the versions of what they import."""
    system = (platform.python_version(), platform.system(), platform.machine())
    contents = [json.dumps([versions(), system], sort_keys=True).encode()]
    for file in _files(root):
        if file.is_file() and "__pycache__" not in file.parts:
            contents += [file.relative_to(root).as_posix().encode(), file.read_bytes()]
    return digest(*contents)


def verdict_digest(item: pytest.Item, every_case: bool) -> str:
    """A digest of what a test's verdict depends on besides the `state`."""
    values: dict[str, Any] = item.callspec.params  # type: ignore[attr-defined]
    variant = values.get("variant")
    kata = variant.kata if variant else values["exercise"]
    files = (item.path, kata.solution, kata.key_path)
    texts = (item.nodeid, str(every_case), variant.source if variant else "")
    return digest(*(text.encode() for text in texts), *(file.read_bytes() for file in files))


def read(file: Path) -> dict[str, list[str]]:
    """The known verdicts by state; none where the file is missing or broken."""
    with contextlib.suppress(OSError, ValueError, AttributeError, TypeError):
        known = json.loads(file.read_text(encoding="utf-8"))
        return {str(one): [str(each) for each in verdicts] for one, verdicts in known.items()}
    return {}


def write(file: Path, known: dict[str, list[str]]) -> None:
    """Write the latest states, which stand last."""
    latest = dict(list(known.items())[-MAX_STATES:])
    file.parent.mkdir(parents=True, exist_ok=True)
    new = file.with_name(f"{file.name}.{os.getpid()}")
    new.write_text(json.dumps(latest), encoding="utf-8")
    new.replace(file)


class KnownVerdicts:
    """The plugin of one session, registered where `--known-verdicts` is given."""

    def __init__(self, config: pytest.Config, file: Path) -> None:
        self._config, self._file = config, file
        self._known = set(read(file).get(state(), ()))
        self._left_out = 0
        self._new: list[str] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        every_case = bool(self._config.getoption("--every-case"))
        known: list[pytest.Item] = []
        for item in items:
            empty = item.get_closest_marker("skip")  # what pytest makes of a list without values
            if item.get_closest_marker("verdict") and not empty:
                key = verdict_digest(item, every_case)
                item.user_properties.append(("verdict", key))
                if key in self._known:
                    known.append(item)
        self._left_out = len(known)
        if known:
            self._config.hook.pytest_deselected(items=known)
            left_out = set(known)
            items[:] = [item for item in items if item not in left_out]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call" and report.passed:
            self._new += [str(key) for name, key in report.user_properties if name == "verdict"]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Of one of xdist's workers, which all collect the same."""
        self._left_out = getattr(node, "workeroutput", {}).get("known_verdicts", self._left_out)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput["known_verdicts"] = self._left_out  # type: ignore[attr-defined]
            return
        known = read(self._file)
        ours = [*known.pop(state(), ()), *self._new]
        write(self._file, {**known, state(): list(dict.fromkeys(ours))})

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.write_line(
            f"{self._left_out} verdicts known from {self._file}, {len(self._new)} new"
        )
