"""The commands `kata cost` and `kata trace`: what a launch would take on a TPU, and when."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection
from pathlib import Path

from rich.console import Console, Group
from rich.progress import track
from rich.text import Text

from grader import repository, studies
from grader.catalog import Kata
from grader.model import Case
from grader.rendering import show
from grader.tpu.asking import assignments, choices, combinations
from grader.tpu.chips import CHIPS, DEFAULT, named
from grader.tpu.screen import Launch, Side, screen, table
from grader.tpu.trace import MOST_EVENTS, shown_until, trace
from grader.tpu.units import time_of

Command = Callable[[argparse.Namespace, Path, Console], int]
Add = Callable[[str, Command, str], argparse.ArgumentParser]

_SIZES = (
    "sizes and dtype in place of the drawn ones, such as M=2048 bm=512 dtype=bfloat16; sizes that "
    "the answer key computes from them follow"
)
WHERE = "https://ui.perfetto.dev (Open trace file), or chrome://tracing"


def add_commands(add: Add) -> None:
    """Add both commands by `add`, which takes a name, what it runs, and what it does in a line."""
    cost = add("cost", _cost, "what a launch takes on a TPU, beside par, and what to try")
    add_launch_options(cost)
    cost.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="predict every combination of these sizes, such as bm=128,256,512 bn=128,256",
    )
    timeline = add("trace", _trace, "the predicted timeline of a launch, for Perfetto")
    add_launch_options(timeline)
    timeline.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="where to write it; a file that is there is replaced (default: NAME.trace.json)",
    )


def add_launch_options(parser: argparse.ArgumentParser) -> None:
    """Add what names one launch: kata, sizes, case, seed and chip."""
    parser.add_argument("name", help="one kata, as for pytest -k")
    parser.add_argument("sizes", nargs="*", metavar="SIZE=VALUE", help=_SIZES)
    parser.add_argument(
        "--case", type=int, default=0, metavar="N", help="which hidden case (default: %(default)s)"
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="the session's seed that hidden cases are drawn with (default: %(default)s)",
    )
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="the TPU (default: %(default)s)"
    )


def _cost(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    if options.sweep:
        return _sweep(options, kata, console)
    case = studies.case_of(kata, options.case, options.seed, assignments(options.sizes))
    with studies.studio(options.chip) as grader:
        launch = studies.study(grader, kata, case, options.chip)
    show(screen(launch), console)
    return 0 if _told(launch) else 1


def _told(launch: Launch) -> bool:
    """Whether there is no fault in the learner's launch, as far as it could be looked at."""
    own = launch.own
    return own.todo or not (own.trouble or any(own.refusals))


def _sweep(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    listed, given = choices(options.sweep), assignments(options.sizes)
    if both := sorted(set(listed) & set(given)):
        raise studies.NoStudy(f"{both[0]} is given a value, and swept")
    # A size with one value is none to sweep over: sizes may well stand after --sweep.
    swept = {name: sizes for name, sizes in listed.items() if len(sizes) > 1} or listed
    standing = {name: str(studies.common(sizes)) for name, sizes in listed.items()}
    case = studies.case_of(kata, options.case, options.seed, {**standing, **given})
    tries = combinations(swept)
    with studies.studio(options.chip) as grader:
        found = studies.sweep(grader, kata, case, options.chip, tries)
        err = Console(stderr=True)
        progress = track(found, "predicting", len(tries), console=err, transient=True)
        results = list(progress if err.is_terminal else found)
    tried = [one for one, _ in results]
    show(Group(_heading(kata, case, options.chip, swept, results[0][1]), table(tried)), console)
    return 0 if any(one.seconds is not None or one.bytes for one in tried) else 1


def _heading(kata: Kata, case: Case, chip: str, swept: Collection[str], par: bool) -> Text:
    kept = [f"{name}={size}" for name, size in case.sizes.items() if name not in swept]
    return Text.assemble(
        (kata.name, "bold"),
        f" on a TPU {chip}, predicted: nothing was run\n",
        (", ".join([*kept, f"dtype={case.dtype}"]), "dim"),
        ("\nstill to do, so these are par's times" if par else "", "yellow"),
        "\n",
    )


def _trace(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    case = studies.case_of(kata, options.case, options.seed, assignments(options.sizes))
    with studies.studio(options.chip) as grader:
        launch = studies.study(grader, kata, case, options.chip, MOST_EVENTS)
    if not _told(launch):
        show(screen(launch), console)
        return 1
    sides = [side for side in (launch.own, launch.par) if side and side.seconds is not None]
    if not sides or (sides[0] is not launch.own and not launch.own.todo):
        raise studies.NoStudy(f"no timeline: {_unknown(launch)}")
    file = options.output or Path(f"{kata.name}.trace.json")
    text = trace((side.title, side.kernels) for side in sides)
    file.write_text(text, encoding="utf-8")
    titles = " and ".join(side.title for side in sides)
    still = ", since it is still to do" if launch.own.todo else ""
    console.print(f"wrote {file}: the timeline of {titles}{still}", markup=False, soft_wrap=True)
    for side in sides:
        if cut := _cut(side):
            console.print(f"{side.title}: {cut}", markup=False, soft_wrap=True)
    console.print(f"open it at {WHERE}", markup=False, soft_wrap=True)
    return 0


def _cut(side: Side) -> str:
    """How much of a long run a trace shows; nothing where it shows all."""
    for kernel in side.kernels:
        if kernel.schedule and (shown := shown_until(kernel.schedule)) < kernel.schedule.cycles:
            clock = named(kernel.chip).clock
            whole = time_of(kernel.schedule.cycles / clock)
            return f"only the first {time_of(shown / clock)} of {whole} in detail"
    return ""


def _unknown(launch: Launch) -> str:
    """Why a launch that the compiler may well take has no schedule."""
    sides = [side for side in (launch.own, launch.par) if side]
    reasons = (k.unknown for side in sides for k in side.kernels if k.unknown)
    return next(reasons, launch.par.trouble if launch.par else "no kernel")
