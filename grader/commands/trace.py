"""`kata trace`: the predicted timeline of a launch, for Perfetto."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from grader.commands.launches import launch_arguments, named_launch, output_option, written
from grader.exercise import repository
from grader.grading import studies
from grader.tools.rendering import say, show
from grader.tpu.chips import named
from grader.tpu.perfetto import MOST_EVENTS, shown_until, trace
from grader.tpu.screen import Launch, Side, screen
from grader.tpu.units import time_of

ENDING = ".trace.json"
WHERE = "https://ui.perfetto.dev (Open trace file), or chrome://tracing"


def arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    output_option(parser, ENDING)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    with named_launch(options, kata) as (asking, case):
        launch = studies.study(asking, kata, case, MOST_EVENTS)
    if not studies.faultless(launch):
        show(screen(launch), console)
        return 1
    sides = [side for side in (launch.own, launch.par) if side and side.seconds is not None]
    if not sides or (sides[0] is not launch.own and not launch.own.todo):
        raise studies.NoStudy(f"no timeline: {_unknown(launch)}")
    text = trace((side.title, side.kernels) for side in sides)
    file = written(options, f"{kata.name}{ENDING}", text)
    titles = " and ".join(side.title for side in sides)
    still = ", since it is still to do" if launch.own.todo else ""
    say(console, f"wrote {file}: the timeline of {titles}{still}")
    for side in sides:
        if cut := _cut(side):
            say(console, f"{side.title}: {cut}")
    say(console, f"open it at {WHERE}")
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
