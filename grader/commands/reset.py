"""`kata reset`: stubs put back; what was written is saved first."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import confirmed, some_katas
from grader.exercise import repository
from grader.exercise.catalog import Kata
from grader.exercise.repository import RepositoryError
from grader.tools.rendering import say


def arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, which="the katas to reset")
    parser.add_argument("--all", action="store_true", help="every kata")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    if bool(options.name) == options.all:
        raise RepositoryError("reset takes a name or --all: kata reset constant_add")
    found = repository.matching(root, "" if options.all else options.name)
    differing = [kata for kata in found if not _as_shipped(kata)]
    if not differing:
        whose = f"{found[0].name} is" if len(found) == 1 else f"all {len(found)} katas are"
        console.print(f"{whose} as shipped: nothing to reset")
        return 0
    if len(found) > 1 and not options.yes and not _wanted(differing, console):
        return 1
    for kata in differing:
        if saved := repository.reset(kata, datetime.datetime.now()):
            say(console, f"saved  {saved.relative_to(root).as_posix()}")
        say(console, f"reset  {':'.join(map(str, kata.where()))}")
    names = differing[0].name if len(differing) == 1 else "NAME"
    console.print(Text(f"to have it back: kata restore {names}", "dim"))
    return 0


def _as_shipped(kata: Kata) -> bool:
    """Whether the file is the stub. Raises keys.KeyProblem or RegionError for a broken kata."""
    return kata.path.exists() and kata.path.read_bytes() == kata.shipped().encode()


def _wanted(differing: Sequence[Kata], console: Console) -> bool:
    for kata in differing:
        say(console, f"  {kata.id}")
    what = "this stub" if len(differing) == 1 else f"these {len(differing)} stubs"
    return confirmed(f"Put {what} back? What you wrote is saved first.", console)
