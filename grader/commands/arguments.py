"""Arguments that several commands take, and their completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.repository import RepositoryError, find_root
from grader.tools import editor

#: What a shell asks for: (prefix, **keywords) -> words that may stand there, each with a remark.
Completer = Callable[..., Mapping[str, str]]


def one_kata(parser: argparse.ArgumentParser, nargs: str | None = None, more: str = "") -> None:
    """NAME, which must match a single kata. `more` is added to its help."""
    text = f"one kata, matched like pytest -k{more}"
    completed(parser.add_argument("name", nargs=nargs, help=text), names)


def some_katas(
    parser: argparse.ArgumentParser, nargs: str = "?", which: str = "only these katas"
) -> None:
    """[NAME], which may match several katas: "" or [] where it is not given."""
    default = "" if nargs == "?" else []
    text = f"{which}, matched like pytest -k"
    completed(parser.add_argument("name", nargs=nargs, default=default, help=text), names)


def open_option(parser: argparse.ArgumentParser) -> None:
    """--open, which `open_if_asked` looks at."""
    named = ", else ".join(editor.VARIABLES)
    parser.add_argument(
        "--open", action="store_true", help=f"open the kata in your editor ({named})"
    )


def open_if_asked(options: argparse.Namespace, kata: Kata) -> None:
    """Open the kata at the line to start typing at. Raises editor.NoEditor."""
    if options.open:
        file, line = kata.location()
        editor.open_at(kata.root / file, line, terminal=sys.stdin.isatty() and sys.stdout.isatty())


def confirmed(question: str, console: Console, why: str = "") -> bool:
    """Whether the learner says yes. Raises RepositoryError where there is nobody to ask.

    `why` is the reason to ask, for that error.
    """
    if not sys.stdin.isatty():
        because = f"{why}; " if why else ""
        raise RepositoryError(f"{because}without a terminal there is nobody to ask: add --yes")
    try:
        answer = console.input(f"{question} \\[y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def completed(action: argparse.Action, completer: Completer) -> None:
    """Have a shell complete what `action` takes with `completer`, as argcomplete looks for it."""
    action.completer = completer  # type: ignore[attr-defined]


def names(prefix: str, **_: object) -> dict[str, str]:
    """Every kata's name with its track, and every track's name with the number of its katas."""
    try:
        every = katas(find_root(Path.cwd()), SOLUTIONS)
    except RepositoryError:
        return {}
    tracks: dict[str, int] = {}
    for kata in every:
        tracks[kata.track] = tracks.get(kata.track, 0) + 1
    return {kata.name: kata.id for kata in every} | {
        track: f"{count} katas" for track, count in tracks.items()
    }
