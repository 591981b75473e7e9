"""`kata cost`: what a launch takes on a TPU, or on a GPU, beside par, and what to try."""

from __future__ import annotations

import argparse
from collections.abc import Collection
from pathlib import Path

from rich.console import Console, Group
from rich.progress import track
from rich.text import Text

from grader.commands.arguments import completed
from grader.commands.launches import launch_arguments, named_launch, size_names
from grader.exercise import repository
from grader.exercise.catalog import Kata
from grader.exercise.keys import GPUS
from grader.grading import studies
from grader.model import Case
from grader.tools.rendering import show
from grader.tpu.arguments import assignments, choices, combinations
from grader.tpu.screen import baselines, screen, table


def arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    parser.add_argument(
        "--gpu",
        choices=GPUS,
        default=GPUS[0],
        help="which GPU, of a launch for those (default: %(default)s)",
    )
    sweep = parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="predict all combinations of these sizes, such as bm=128,256,512 bn=128,256",
    )
    completed(sweep, size_names)


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    if kata.key.predictions:
        return _baselines(options, kata, console)
    if kata.key.gpu:
        from grader.commands import gpu_cost  # what is for GPUs is imported for these alone

        return gpu_cost.run(options, kata, console)
    if options.sweep:
        return _sweep(options, kata, console)
    with named_launch(options, kata) as (asking, case):
        launch = studies.study(asking, kata, case)
    show(screen(launch), console)
    return 0 if studies.faultless(launch) else 1


def _baselines(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """What a learner's numbers are compared with, as XLA makes it: not the numbers themselves."""
    if options.sweep:
        raise studies.NoStudy(f"{kata.name} has no kernel with sizes to choose: leave --sweep out")
    case = studies.any_case_of(kata, options.case, options.seed, assignments(options.sizes))
    with studies.studio(options.chip) as asking:
        measured, chip = studies.baselines(asking, kata, case), asking.chip(kata)
    show(baselines(measured, kata.name, str(case), chip), console)
    return 0


def _sweep(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    listed, given = choices(options.sweep), assignments(options.sizes)
    if both := sorted(set(listed) & set(given)):
        raise studies.NoStudy(f"{both[0]} is given a value, and swept")
    # A size with one value is none to sweep over: sizes may well stand after --sweep.
    swept = {name: sizes for name, sizes in listed.items() if len(sizes) > 1} or listed
    standing = {name: str(studies.common(sizes)) for name, sizes in listed.items()}
    case = studies.case_of(kata, options.case, options.seed, {**standing, **given})
    tries = combinations(swept)
    with studies.studio(options.chip) as asking:
        found = studies.sweep(asking, kata, case, tries)
        err, chip = Console(stderr=True), asking.chip(kata)
        progress = track(found, "predicting", len(tries), console=err, transient=True)
        results = list(progress if err.is_terminal else found)
    tried = [one for one, _ in results]
    show(Group(_heading(kata, case, chip, swept, results[0][1]), table(tried)), console)
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
