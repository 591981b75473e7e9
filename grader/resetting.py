"""The commands `kata reset` and `kata restore`: stubs put back, and attempts brought back."""

from __future__ import annotations

import argparse
import datetime
import itertools
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader import attempts, repository
from grader.attempts import Attempt
from grader.catalog import SOLUTIONS, Kata, katas, named
from grader.repository import RepositoryError

Command = Callable[[argparse.Namespace, Path, Console], int]
Add = Callable[[str, Command, str], argparse.ArgumentParser]


def add_commands(add: Add) -> None:
    """Add both commands by `add`, which takes a name, what it runs, and what it does in a line."""
    reset = add("reset", _reset, "put stubs back; what you wrote is saved first")
    reset.add_argument("name", nargs="?", help="a kata, or several, such as a track")
    reset.add_argument("--all", action="store_true", help="every kata")
    reset.add_argument("-y", "--yes", action="store_true", help="several: do not ask")
    restore = add("restore", _restore, "list the saved attempts, or bring one back")
    restore.add_argument("name", nargs="?", help="one kata; without it all attempts are listed")
    restore.add_argument("number", nargs="?", type=int, help="of the list (default: the newest)")
    restore.add_argument(
        "--whole",
        action="store_true",
        help="the file as it was saved, also where the kata has changed since",
    )


def _reset(options: argparse.Namespace, root: Path, console: Console) -> int:
    if bool(options.name) == options.all:
        raise RepositoryError("reset takes a name or --all: kata reset constant_add")
    every = katas(root, SOLUTIONS)
    found = every if options.all else named(every, options.name)
    if not found:
        raise RepositoryError(f"no kata matches {options.name!r}; kata list shows them all")
    differing = [kata for kata in found if not _as_shipped(kata)]
    if not differing:
        whose = f"{found[0].name} is" if len(found) == 1 else f"all {len(found)} katas are"
        console.print(f"{whose} as shipped: nothing to reset")
        return 0
    if len(found) > 1 and not options.yes and not _confirmed(differing, console):
        return 1
    for kata in differing:
        if saved := repository.reset(kata, datetime.datetime.now()):
            _say(console, f"saved  {_relative(saved, root)}")
        _say(console, f"reset  {':'.join(map(str, kata.where()))}")
    names = differing[0].name if len(differing) == 1 else "NAME"
    console.print(Text(f"to have it back: kata restore {names}", "dim"))
    return 0


def _as_shipped(kata: Kata) -> bool:
    """Whether the file is the stub. Raises keys.KeyProblem or RegionError for a broken kata."""
    return kata.path.exists() and kata.path.read_bytes() == kata.shipped().encode()


def _confirmed(differing: Sequence[Kata], console: Console) -> bool:
    for kata in differing:
        _say(console, f"  {kata.id}")
    what = "this stub" if len(differing) == 1 else f"these {len(differing)} stubs"
    if not sys.stdin.isatty():
        raise RepositoryError(f"reset asks before it puts {what} back; without a terminal, --yes")
    try:
        answer = console.input(f"Put {what} back? What you wrote is saved first. \\[y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def _restore(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.name is None:
        return _list(attempts.all_attempts(root), console)
    kata = repository.one(root, options.name)
    attempt = attempts.chosen(kata, options.number)
    data, as_saved = attempts.restored(attempt, options.whole)
    which = f"attempt {attempt.number} of {len(attempts.attempts(kata))}, {attempt.when}"
    if kata.path.exists() and kata.path.read_bytes() == data:
        _say(console, f"{kata.name} holds {which}: nothing to restore")
        return 0
    if saved := repository.keep(kata, datetime.datetime.now()):
        _say(console, f"saved     {_relative(saved, root)}")
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(data)
    _say(console, f"restored  {':'.join(map(str, kata.where()))}   {which}")
    if not as_saved:
        _say(
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


def _relative(file: Path, root: Path) -> str:
    return file.relative_to(root).as_posix()


def _say(console: Console, text: str) -> None:
    console.print(text, markup=False, soft_wrap=True)
