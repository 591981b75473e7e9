"""What the commands that judge many submissions share: how to judge, and a bar while they do."""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from grader.api.examiner import LIMIT
from grader.batch.batch import Batch
from grader.batch.crew import Hopeless
from grader.batch.orders import Outcome
from grader.sandbox.isolation import Isolation, NotIsolated, demanded
from grader.tools.rendering import say
from grader.tools.shortening import printable
from grader.tpu.chips import CHIPS, DEFAULT


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--seed", type=int, help="draw the hidden cases with it (default: the store's own)"
    )
    parser.add_argument(
        "--chip",
        choices=CHIPS,
        default=DEFAULT,
        help="the TPU to compile for and to predict on (default: %(default)s)",
    )
    parser.add_argument(
        "--isolation",
        choices=[isolation.value for isolation in Isolation],
        default=Isolation.REQUIRE.value,
        help="keep submissions from files, network and processes: or grade nothing (require, the "
        "default), as far as the kernel can (auto), not at all (off)",
    )
    parser.add_argument(
        "--limit",
        type=_seconds,
        default=LIMIT,
        metavar="SECONDS",
        help="how long all hidden cases of one submission may take together (default: %(default)g)",
    )


def _seconds(text: str) -> float:
    seconds = float(text)
    if not (math.isfinite(seconds) and seconds > 0):
        raise argparse.ArgumentTypeError("has to be above 0")
    return seconds


def demand_isolation(options: argparse.Namespace) -> None:
    """Raises ValueError where what is asked for can't be had. Nodes of a cluster decide alone."""
    if options.ray is not None:
        return
    try:
        demanded(Isolation(options.isolation))
    except NotIsolated as error:
        raise ValueError(f"{error}; --isolation auto grades all the same") from None


def judge(batch: Batch, console: Console) -> None:
    """Judge what the store has no verdict on. Raises ValueError where nothing can be graded."""
    jobs, known = batch.waiting(), batch.known
    say(console, f"seed {batch.seed}: {len(jobs)} submissions to judge, {known} in the store")
    with Progress(console=console, disable=not console.is_terminal) as progress:
        bar = progress.add_task("grading", total=len(jobs))
        try:
            with contextlib.closing(batch.judge(jobs)) as judged:
                told = {""}
                for outcome in judged:
                    if (warning := _not_isolated(outcome)) not in told:
                        say(console, warning)
                    told |= {warning}
                    progress.advance(bar)
        except Hopeless as error:
            raise ValueError(f"kernels cannot be graded here: {error}") from None


def _not_isolated(outcome: Outcome) -> str:
    """Why a submission was graded without isolation; "" where it was isolated, or not graded."""
    level = json.loads(outcome.verdict).get("isolation", "") if outcome.verdict else ""
    return level if level.startswith("not isolated") else ""


def tell(source: Path, text: str) -> None:
    """Say what is wrong with a line, or with a file, beside the results."""
    print(printable(f"{source}: {text}"), file=sys.stderr)


@contextlib.contextmanager
def terminated_as_interrupted() -> Iterator[None]:
    """SIGTERM ends as Ctrl-C does: what is judged is written, and no process stays."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
