"""Write the tables of docs/other-kernels.md: predicted times of TPU kernels by others.

    python tools/shipped_kernels.py            predicts and writes all rows, in about three minutes
    python tools/shipped_kernels.py WORD …     prints the rows that have a WORD; writes nothing
    python tools/shipped_kernels.py --foreign FOLDER [WORD …]
                                               the same for kernels in the repositories of others,
                                               of which FOLDER has checkouts; takes an hour
    python tools/shipped_kernels.py --check    predicts the calls in CHECKED for one chip, compares
                                               their times with those of the page, and looks for
                                               calls that are new; exits with 1 if anything differs

With another jax than that in docs/roofline.json, --check compares nothing. Nothing is run: libtpu
compiles each kernel, and its schedule is simulated. The calls are in `shipped_calls`, and those of
others' kernels in `foreign_calls`.
"""

from __future__ import annotations

import argparse
import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from cost_of_operations import shown, written

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import foreign_calls  # noqa: E402
import roofline_data  # noqa: E402
from shipped_calls import SHIPPED, Call, calls, calls_for_two_cores  # noqa: E402

from pallascope import KernelFault, Pallas  # noqa: E402
from pallascope.tools.text import format_time  # noqa: E402
from pallascope.tools.versions import versions  # noqa: E402
from pallascope.tpu import Prediction, predictions  # noqa: E402

PAGE = ROOT / "docs/other-kernels.md"
SCRIPT = "shipped_kernels"
#: Each table of the page: its calls, and its chips.
TABLES = {"KERNELS": (calls, ("v5e", "v6e")), "TWO CORES": (calls_for_two_cores, ("v5e", "v5p"))}
FOREIGN = "FOREIGN"
#: Calls that --check predicts.
CHECKED = ("matmul.matmul", "megablox.gmm.tgmm", "random.threefry.plthreefry_random_bits")
TOLERANCE = 0.1  # of a time: libtpu's versions differ, and the page's times are rounded
LIMIT = 240  # seconds for each foreign call and chip; libtpu takes minutes for some
_TIME = re.compile(r"([\d,.]+) (ns|µs|ms)$")
_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3}


def cells(call: Call, chip: str) -> dict[str, str]:
    """The name of each kernel that a call launches -> its time, or the reason if it has none."""
    if call.mesh:
        return _on_a_mesh(call, chip)
    try:
        found = predictions(call.function, *call.args, chip=chip)
    except Exception as error:
        return {"": f"refused by jax: {_first_line(error) or type(error).__name__}"}
    names = [f"`{kernel.call.name}`{_runs(kernel)}" for kernel in found]
    numbered = (
        f"{name} {names[: at + 1].count(name)}" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    )
    return dict(zip(numbered, map(cell, found), strict=True))


def cell(kernel: Prediction) -> str:
    """A time, libtpu's reason for a refusal, or the reason why an accepted kernel has no time."""
    if kernel.failure:
        return f"refused: {_refusal(kernel)}"
    if kernel.seconds is None:
        return f"accepted, no time: {kernel.unknown}"
    return rounded(kernel.seconds)


def rounded(seconds: float) -> str:
    """A time with two digits."""
    return format_time(float(f"{seconds:.2g}"))


def _refusal(kernel: Prediction) -> str:
    assert kernel.failure
    wanted, limit = kernel.failure.wanted, kernel.failure.limit
    sizes = f" ({wanted / 2**20:.1f} of {limit / 2**20:.0f} MiB)" if wanted and limit else ""
    return f"{kernel.failure.message.partition(chr(10))[0]}{sizes}"


def _runs(kernel: Prediction) -> str:
    return f", {kernel.runs.times} runs" if kernel.runs.times > 1 else ""


def _on_a_mesh(call: Call, chip: str) -> dict[str, str]:
    pallas = Pallas()
    try:
        pallas.accepted(call.function, *call.args, chips=(chip,), mesh=call.mesh)
    except KernelFault as error:
        return {"": f"refused: {_first_line(error)}"}
    cost = pallas.cost(call.function, *call.args, chip=chip, mesh=call.mesh)
    times = ((name, numbers["seconds"]) for name, numbers in cost.kernels.items())
    without = f"accepted, no time: {cost.unknown}"
    return {f"`{name}`": without if time is None else rounded(time) for name, time in times}


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


def rows(
    call: Call, chips: Sequence[str], predict: Callable[[Call, str], dict[str, str]] = cells
) -> Iterator[str]:
    """The rows of a call, one for each of its kernels."""
    found = [predict(call, chip) for chip in chips]
    for number, name in enumerate(dict.fromkeys(name for each in found for name in each)):
        first = (f"`{call.path}`", call.told()) if not number else ("", "")
        times = (each.get(name, each.get("", "–")) for each in found)
        yield f"| {' | '.join([*first, name, *times])} |"


def table(name: str) -> str:
    """One table of the page, with its head."""
    listed, chips = TABLES[name]
    head = f"| function | arguments | kernel | {' | '.join(chips)} |"
    lines = [head, f"|---|---|---|{'---:|' * len(chips)}"]
    for call in listed():
        for row in rows(call, chips):
            print(row, file=sys.stderr, flush=True)
            lines.append(row)
    return "\n".join(lines)


def differs(text: str) -> str:
    """The first difference between the page and jax, this script, or its predictions; else ""."""
    if modules := without_a_row():
        return f"jax launches kernels in {', '.join(modules)}, and no row calls them"
    times: dict[tuple[str, str], str] = {}
    for name, (listed, _) in TABLES.items():
        lines = [line[2:-2].split(" | ") for line in shown(text, name, SCRIPT).splitlines()[2:]]
        there = {(cut[0], cut[1]): cut[3] for cut in lines if cut[0]}
        if list(there) != [(f"`{call.path}`", call.told()) for call in listed()]:
            return f"the calls of the table {name} are not those of this script"
        times |= there
    for call in calls():
        if call.path in CHECKED:
            (now,) = cells(call, "v5e").values()
            said = times[f"`{call.path}`", call.told()]
            if not close(said, now):
                return f"{call.path} of {call.told()}: {now}, and the page says {said}"
    return ""


def close(said: str, now: str) -> bool:
    """Whether two cells have nearly the same time, or the same text without a time."""
    times = [_seconds(each) for each in (said, now)]
    if None in times:
        return said == now
    one, two = (time or 0.0 for time in times)
    return abs(one - two) <= TOLERANCE * max(one, two)


def _seconds(shown_time: str) -> float | None:
    found = _TIME.fullmatch(shown_time)
    return float(found[1].replace(",", "")) * _UNITS[found[2]] if found else None


def without_a_row() -> tuple[str, ...]:
    """Modules of jax's package that launch kernels, but no call is of a function there."""
    launching = re.compile(r"\b(pallas_call|pl\.kernel|core_map)\(")
    modules = {
        file.relative_to(SHIPPED).with_suffix("").as_posix().replace("/", ".")
        for file in SHIPPED.rglob("*.py")
        if launching.search(file.read_text(encoding="utf-8"))
    }
    homes = {call.home for call in calls()}
    return tuple(sorted(m for m in modules if not homes & {m, m.rpartition(".")[0]}))


class OutOfTime(BaseException):
    """A call takes too long. No Exception, so that nothing takes it for an error of the call."""


@contextlib.contextmanager
def limited(seconds: int) -> Iterator[None]:
    """Raise OutOfTime in the block after this time."""

    def stop(*_: object) -> None:
        raise OutOfTime

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def foreign_cells(call: Call, chip: str) -> dict[str, str]:
    """The same as `cells`, within LIMIT."""
    try:
        with limited(LIMIT):
            return cells(call, chip)
    except OutOfTime:
        return {"": f"no result in {LIMIT} s"}


def foreign_lines(folder: Path, words: Sequence[str] = ()) -> Iterator[str]:
    """A table for each repository, of all rows or only those that have a word."""
    foreign_calls.prepare(folder)
    chips = ("v5e", "v6e")
    for repository in foreign_calls.REPOSITORIES:
        yield f"### {repository.git}, commit {commit(folder / repository.folder)[:10]}\n"
        yield f"| function | arguments | kernel | {' | '.join(chips)} |"
        yield f"|---|---|---|{'---:|' * len(chips)}"
        for kind in repository.kinds:
            try:
                found = kind()
            except Exception as error:
                yield f"| {kind.__name__} |  |  | not imported: {_first_line(error)} | – |"
                continue
            for call in found:
                if not words or any(word in f"{call.path} {call.told()}" for word in words):
                    yield from rows(call, chips, foreign_cells)
        yield ""


def commit(checkout: Path) -> str:
    """The commit of a checkout, from its .git or, for an exported tree, from the file COMMIT."""
    if (file := checkout / "COMMIT").exists():
        return file.read_text(encoding="utf-8").strip()
    asked = ["git", "-C", str(checkout), "rev-parse", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("words", nargs="*", metavar="WORD", help="print only rows that have it")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if any differs")
    parser.add_argument("--foreign", type=Path, metavar="FOLDER", help="others' repositories")
    options = parser.parse_args()
    if options.foreign:
        lines = []
        for line in foreign_lines(options.foreign.resolve(), options.words):
            print(line, flush=True)
            lines.append(line)
        if not options.words:
            _write({FOREIGN: "\n".join(lines).strip()})
        return 0
    if options.words:
        for listed, chips in TABLES.values():
            for call in listed():
                if any(word in f"{call.path} {call.told()}" for word in options.words):
                    print(*rows(call, chips), sep="\n", flush=True)
        return 0
    if options.check:
        pinned, here = roofline_data.data()["jax"], versions()["jax"]
        if here != pinned:
            print(f"jax {here}: the page is for jax {pinned}, so nothing is compared")
            return 0
        said = differs(PAGE.read_text(encoding="utf-8"))
        print(said or "as predicted")
        return 1 if said else 0
    _write({name: table(name) for name in TABLES})
    return 0


def _write(tables: dict[str, str]) -> None:
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), tables, SCRIPT), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
