"""The fixture `pallas`: tests of Pallas TPU kernels without a TPU, and snapshots of their cost.

It imports neither jax nor pallascope before a test asks for the fixture.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pallascope import LaunchCost, Pallas

INTERPRETERS = ("strict", "plain", "compiled", "auto")
#: The numbers of a cost that a snapshot keeps, and their units in messages.
UNITS = {"seconds": "s", "bytes": "bytes", "vmem": "bytes of VMEM"}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("pallas", "tests of Pallas kernels")
    group.addoption(
        "--pallas-update", action="store_true", help="write the snapshots of costs again"
    )
    group.addoption(
        "--pallas-interpreter",
        choices=INTERPRETERS,
        help="the default of `pallas.check` (auto: strict, and on a TPU compiled, too)",
    )
    parser.addini("pallas_chip", "the TPU for which kernels are traced (v5e)", default="v5e")
    parser.addini(
        "pallas_within", "the fraction by which a cost may exceed its snapshot", default="0.05"
    )
    parser.addini("pallas_timeout", "the seconds that one run of a kernel may take", default="60")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """A test that can't be judged here is skipped, with the reason."""
    try:
        return (yield)
    except Exception as error:
        testing = sys.modules.get("pallascope.testing.kernel_tests")
        if testing is None or not isinstance(error, testing.KernelNotJudged):
            raise
        pytest.skip(f"not judged: {error}")


@pytest.fixture
def pallas(request: pytest.FixtureRequest) -> Any:
    """Checks Pallas kernels without a TPU: .check, .grad_check, .deterministic, .accepted, .cost,
    .snapshot. Random arrays depend on the test's name alone."""
    from pallascope import Pallas

    config = request.config
    pallas = Pallas(
        config.rootpath,
        config.getini("pallas_chip"),
        zlib.crc32(request.node.nodeid.encode()),
        _number(config, "pallas_timeout"),
        config.getoption("pallas_interpreter") or "auto",
    )
    return PallasFixture(pallas, Snapshots.of(request))


def _number(config: pytest.Config, name: str) -> float:
    text = config.getini(name)
    try:
        return float(text)
    except ValueError:
        raise pytest.UsageError(f"{name} = {text!r} in the ini-file: needs a number") from None


class PallasFixture:
    """`pallascope.testing.Pallas`, and `snapshot`."""

    def __init__(self, pallas: Pallas, snapshots: Snapshots) -> None:
        self._pallas, self._snapshots = pallas, snapshots

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pallas, name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(type(self)), *dir(self._pallas)})

    def snapshot(self, cost: LaunchCost, name: str = "") -> None:
        """Compare a cost with the committed one. AssertionError if a number has grown too much.

        `name` replaces the test's name, and the number of its snapshot, as the key. The file is
        `__snapshots__/TEST_FILE.pallas.json`, which `pytest --pallas-update` writes.
        """
        __tracebackhide__ = True
        self._snapshots.compare(cost, name)


class SnapshotChanged(UserWarning):
    """A cost is much lower than its snapshot, which should be written again."""


class Snapshots:
    """The snapshots of one test, in the file of its module."""

    def __init__(self, file: Path, shown: str, test: str, within: float, update: bool) -> None:
        self._file, self._shown, self._test = file, shown, test
        self._within, self._update = within, update
        self._counts = Counter[str]()  # of snapshots, by chip

    @classmethod
    def of(cls, request: pytest.FixtureRequest) -> Snapshots:
        config, here = request.config, Path(request.path)
        file = here.parent / "__snapshots__" / f"{here.stem}.pallas.json"
        shown = os.path.relpath(file, config.rootpath)
        test = request.node.nodeid.partition("::")[2] or request.node.name
        within = _number(config, "pallas_within")
        return cls(file, shown, test, within, bool(config.getoption("pallas_update")))

    def compare(self, cost: LaunchCost, name: str) -> None:
        """See `PallasFixture.snapshot`."""
        __tracebackhide__ = True
        self._counts[cost.chip] += 1
        count = self._counts[cost.chip]
        number = f" {count}" if count > 1 else ""
        key = f"{name or self._test + number} on {cost.chip}"
        now = {unit: _rounded(getattr(cost, unit)) for unit in UNITS}
        before = self._stored().get(key)
        if self._update or before is None:
            if not self._update and os.environ.get("CI", "").lower() not in ("", "0", "false"):
                raise AssertionError(
                    f"no snapshot of {key!r} in {self._shown}\n"
                    "  try    pytest --pallas-update, and commit the file"
                )
            self._store(key, {**now, "kernel": cost.fingerprint, **_versions()})
            return
        self._demand_no_more(key, before, now, cost)

    def _demand_no_more(
        self, key: str, before: Mapping[str, Any], now: Mapping[str, Any], cost: LaunchCost
    ) -> None:
        __tracebackhide__ = True
        lost = [unit for unit in UNITS if before.get(unit) is not None and now[unit] is None]
        pairs = [
            (unit, before[unit], now[unit])
            for unit in UNITS
            if before.get(unit) is not None and now[unit] is not None
        ]
        grown = [each for each in pairs if each[2] > each[1] * (1 + self._within)]
        update = f"  update pytest --pallas-update (writes {self._shown})"
        if grown or lost:
            rows = [
                f"  {unit:<8} {old:,.6g} → {new:,.6g} {UNITS[unit]}{_percent(old, new)}"
                for unit, old, new in grown
            ]
            rows += [f"  {unit:<8} not known any more: {cost.unknown}" for unit in lost]
            raise AssertionError(
                "\n".join(
                    [
                        f"cost: {key} has grown by more than {self._within:.0%}",
                        *rows,
                        *_blame(before, cost),
                        update,
                    ]
                )
            )
        if less := [each for each in pairs if each[2] < each[1] * (1 - self._within)]:
            told = ", ".join(f"{unit}{_percent(old, new)}" for unit, old, new in less)
            warnings.warn(SnapshotChanged(f"{key} costs less: {told}\n{update}"), stacklevel=4)

    def _stored(self) -> dict[str, Any]:
        if not self._file.exists():
            return {}
        try:
            stored = json.loads(self._file.read_text(encoding="utf-8"))
        except ValueError as error:
            raise AssertionError(f"{self._shown} is broken: {error}") from None
        return stored if isinstance(stored, dict) else {}

    def _store(self, key: str, entry: Mapping[str, Any]) -> None:
        """Write one entry; other processes of pytest-xdist may write the same file."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with _locked(self._file.with_suffix(".lock")):
            stored = {**self._stored(), key: entry}
            part = self._file.with_suffix(".part")
            part.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
            os.replace(part, self._file)


@contextlib.contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Only one process at a time is in this context, where the system has such locks."""
    try:
        import fcntl
    except ImportError:  # on Windows
        yield
        return
    with open(file, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    with contextlib.suppress(OSError):
        file.unlink()


def _rounded(number: float | None) -> float | None:
    """A float with four digits; bytes stay as they are."""
    return float(f"{number:.4g}") if isinstance(number, float) else number


def _versions() -> dict[str, str]:
    found = {}
    for name in ("jax", "libtpu"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _percent(old: float, new: float) -> str:
    return f" ({new / old - 1:+.1%})" if old else ""


def _blame(before: Mapping[str, Any], cost: LaunchCost) -> list[str]:
    """Whether other versions, and not the kernel, may have changed the numbers."""
    changed = [
        f"{name} {before.get(name, '?')} → {now}"
        for name, now in _versions().items()
        if before.get(name) != now
    ]
    same = before.get("kernel") == cost.fingerprint
    if changed and same:
        return [f"  cause  the kernel is the same, but versions differ: {', '.join(changed)}"]
    if changed:
        return [f"  note   versions differ, too: {', '.join(changed)}"]
    return ["  note   the kernel is the same, and so are the versions"] if same else []
