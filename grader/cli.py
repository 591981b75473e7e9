# PYTHON_ARGCOMPLETE_OK
"""The `kata` command: a parser for the commands in `grader.commands`.

Only the module of the command that was typed is imported. A shell that completes a command line
runs this, too: see `complete`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from pallascope.tools.text import did_you_mean

#: The module of `kata` alone.
OVERVIEW = "grader.commands.progress"
#: What each command does, and the module of `grader.commands` that holds its two functions:
#: NAME_arguments(parser) and run_NAME(options, root, console).
COMMANDS = {
    "list": ("progress", "show all katas, or those that match"),
    "next": ("progress", "show the first kata that is not solved"),
    "hint": ("hints", "give a hint; each time you ask, it says more"),
    "show": ("hints", "show the solution of a kata, after asking you"),
    "after": ("hints", "say what a solved kata leads on to, and how your solution compares"),
    "reset": ("attempts", "put back the stub of a kata; what you wrote is saved first"),
    "restore": ("attempts", "list your saved attempts, or bring one back"),
    "progress": ("progress", "show what is solved, without running anything"),
    "commit": ("attempts", "make one git commit for each solved kata"),
    "cost": ("launches", "predict the time of a launch on a TPU, and say what to try"),
    "trace": ("launches", "write the predicted timeline of a launch, for Perfetto"),
    "watch": ("watch", "grade a kata whenever you save it"),
    "view": ("launches", "draw a launch step by step, in your browser"),
    "update": ("update", "get new and changed katas from upstream; your code stays"),
    "tasks": ("grade", "write the katas as tasks for models, as JSONL"),
    "grade": ("grade", "judge many submissions, from JSONL to JSONL"),
    "class": (
        "class_report_command",
        "for teachers: report what a class has solved, and where it is stuck",
    ),
    "baseline": ("grade", "write samples whose verdicts are known, or compare results with them"),
    "sync": ("authors", "for authors: generate the katas from the solutions"),
    "new": ("authors", "for authors: write the three files of a new kata"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 not done, 2 misused, 130 interrupted."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    from pallascope.tools.files import exit_code

    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return exit_code(lambda: _run(words), "kata")
    except KeyboardInterrupt:
        return 130


def _run(words: Sequence[str]) -> int:
    parser = parser_for(words)
    if mistake := mistyped(words):
        parser.error(mistake)
    options, more = parser.parse_known_args(words)
    if options.version:
        from pallascope.tools.versions import versions

        print(", ".join(f"{name} {of or 'not installed'}" for name, of in versions().items()))
        return 0
    if more and not (hasattr(options, "sizes") and all("=" in word for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # argparse takes no positionals after options that come between
        options.sizes += more
    from rich.console import Console

    from grader.exercise.repository import find_root
    from pallascope.tools.versions import untested_jax

    if untested := untested_jax():
        print(f"kata: {untested}", file=sys.stderr)
    root = find_root(Path.cwd())
    run = options.run if options.command else importlib.import_module(OVERVIEW).run_overview
    return run(options, root, Console(highlight=False))


def complete() -> None:
    """Tell a shell what may stand at its cursor, and exit: what argcomplete is there for."""
    import argcomplete

    argcomplete.autocomplete(parser_for(os.environ["COMP_LINE"].split()), False)


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows every command by name, and those among `words` with their arguments."""
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Find your way through the katas; without a COMMAND: where you are, and what "
        "to do next. Grade katas with pytest -k NAME.",
        epilog="NAME matches like pytest -k: tiled_matmul, matmul, basics, 'basics and 10'.",
    )
    parser.add_argument(
        "--version", action="store_true", help="show the versions of the grader, jax and libtpu"
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, (_, text) in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in words:
            arguments, run = command(name)
            arguments(sub)
            sub.set_defaults(run=run)
    return parser


def mistyped(words: Sequence[str]) -> str:
    """What to say of a first word that is no command; "" where it is one, or is not there."""
    first = next((word for word in words if not word.startswith("-")), "")
    if not first or first in COMMANDS:
        return ""
    return f"no command {first!r}; {did_you_mean(first, COMMANDS) or 'kata --help lists them all'}"


def command(name: str) -> tuple[Callable[..., None], Callable[..., int]]:
    """The two functions of a command: one adds its arguments to a parser, the other runs it."""
    module = importlib.import_module(f"grader.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_arguments"), getattr(module, f"run_{name}")


if __name__ == "__main__":
    sys.exit(main())
