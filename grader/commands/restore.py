"""`kata restore`: lists the saved attempts, or brings one back."""

from __future__ import annotations

import argparse
import datetime
import itertools
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import one_kata
from grader.exercise import attempts, repository
from grader.exercise.attempts import Attempt
from grader.tools.rendering import say


def arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser, "?", "; without it, all attempts are listed")
    parser.add_argument(
        "number", nargs="?", type=int, help="which of its attempts (default: the newest)"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="bring the whole file back as it was saved, even if the kata has changed since",
    )


def run(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.name is None:
        return _list(attempts.all_attempts(root), console)
    kata = repository.one(root, options.name)
    attempt = attempts.chosen(kata, options.number)
    data, as_saved = attempts.restored(attempt, options.whole)
    which = f"attempt {attempt.number} of {len(attempts.attempts(kata))}, {attempt.when}"
    if kata.path.exists() and kata.path.read_bytes() == data:
        say(console, f"{kata.name} holds {which}: nothing to restore")
        return 0
    if saved := repository.keep(kata, datetime.datetime.now()):
        say(console, f"saved     {saved.relative_to(root).as_posix()}")
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(data)
    say(console, f"restored  {':'.join(map(str, kata.where()))}   {which}")
    if not as_saved:
        say(
            console,
            "The kata has changed since: your regions are back, what is around them is as shipped "
            f"now. The file as it was: kata restore {kata.name} {attempt.number} --whole",
        )
    return 0


def _list(found: Sequence[Attempt], console: Console) -> int:
    if not found:
        console.print("no attempts are saved: kata reset saves what it puts a stub over")
        return 0
    width = max(len(attempt.kata.name) for attempt in found)
    for track, members in itertools.groupby(found, key=lambda attempt: attempt.kata.track):
        console.print(Text(track, "bold"))
        for attempt in members:
            console.print(_line(attempt, width), no_wrap=True, overflow="ellipsis")
    console.print(Text("bring one back: kata restore NAME [NUMBER]", "dim"))
    return 0


def _line(attempt: Attempt, width: int) -> Text:
    """One attempt: when, how long, and its first line as a reminder."""
    body = attempt.body()
    lines = f"{len(body)} line{'' if len(body) == 1 else 's'}"
    line = Text.assemble(
        f"  {attempt.kata.name:<{width}}  {attempt.number}  ",
        (f"{attempt.when}  {lines:<8}  ", "dim"),
        body[0] if body else "",
    )
    line.rstrip()
    return line
