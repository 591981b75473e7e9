"""Arguments of several commands, and their completion."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from rich.console import Console

from grader.exercise.catalog import SOLUTIONS, Kata, katas
from grader.exercise.repository import RepositoryError, find_root
from grader.tools import editor

#: A completer of argcomplete: (prefix, **keywords) -> completions with descriptions.
Completer = Callable[..., Mapping[str, str]]


def one_kata(
    parser: argparse.ArgumentParser, nargs: str | None = None, extra_help: str = ""
) -> None:
    """NAME, which must match a single kata. `extra_help` is added to its help."""
    text = f"one kata, matched like pytest -k{extra_help}"
    set_completer(parser.add_argument("name", nargs=nargs, help=text), complete_names)


def some_katas(
    parser: argparse.ArgumentParser, nargs: str = "?", which: str = "only these katas"
) -> None:
    """[NAME], which may match several katas; "" or [] by default."""
    default = "" if nargs == "?" else []
    text = f"{which}, matched like pytest -k"
    set_completer(
        parser.add_argument("name", nargs=nargs, default=default, help=text), complete_names
    )


def open_option(parser: argparse.ArgumentParser) -> None:
    """--open, for `open_if_asked`."""
    named = ", else ".join(editor.VARIABLES)
    parser.add_argument(
        "--open", action="store_true", help=f"open the kata in your editor ({named})"
    )


def open_if_asked(options: argparse.Namespace, kata: Kata) -> None:
    """With --open, open the kata at its first solution region. Raises NoEditor."""
    if options.open:
        file, line = kata.location()
        editor.open_at(kata.root / file, line, terminal=sys.stdin.isatty() and sys.stdout.isatty())


def confirm(question: str, console: Console, reason: str = "") -> bool:
    """Whether the learner says yes. Raises RepositoryError without a terminal.

    The error begins with `reason`, the reason for asking.
    """
    if not sys.stdin.isatty():
        prefix = f"{reason}; " if reason else ""
        raise RepositoryError(f"{prefix}no terminal to ask for confirmation: pass --yes")
    try:
        answer = console.input(f"{question} \\[y/N] ")
    except EOFError:
        return False
    return answer.strip().lower() in ("y", "yes")


def set_completer(action: argparse.Action, completer: Completer) -> None:
    """Set the completer of an argument, for argcomplete."""
    action.completer = completer  # type: ignore[attr-defined]


def complete_names(prefix: str, **_: object) -> dict[str, str]:
    """Completions: every kata's name and every track's name."""
    try:
        all_katas = katas(find_root(Path.cwd()), SOLUTIONS)
    except ValueError:  # no katas here, or malformed settings
        return {}
    tracks: dict[str, int] = {}
    for kata in all_katas:
        tracks[kata.track] = tracks.get(kata.track, 0) + 1
    return {kata.name: kata.id for kata in all_katas} | {
        track: f"{count} katas" for track, count in tracks.items()
    }
