# PYTHON_ARGCOMPLETE_OK
"""The `kata` command: a parser for the commands in `grader.commands`.

Only the module of the command that was typed is imported. A shell that completes a command line
runs this, too: see `complete`.
"""

from __future__ import annotations

import argparse
import importlib
import keyword
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from grader.tools.nearest import did_you_mean

COMMANDS = {
    "list": "show all katas, or those that match",
    "next": "show the first kata that is not solved",
    "hint": "give a hint; each time you ask, it says more",
    "show": "show the solution of a kata, after asking you",
    "after": "say what a solved kata leads on to, and how your solution compares",
    "reset": "put back the stub of a kata; what you wrote is saved first",
    "restore": "list your saved attempts, or bring one back",
    "progress": "show what is solved, without running anything",
    "commit": "make one git commit for each solved kata",
    "cost": "predict the time of a launch on a TPU, and say what to try",
    "trace": "write the predicted timeline of a launch, for Perfetto",
    "watch": "grade a kata whenever you save it",
    "view": "draw a launch step by step, in your browser",
    "update": "get new and changed katas from upstream; your code stays",
    "tasks": "write the katas as tasks for models, as JSONL",
    "grade": "judge many submissions, from JSONL to JSONL",
    "class": "for teachers: report what a class has solved, and where it is stuck",
    "baseline": "write samples whose verdicts are known, or compare results with them",
    "sync": "for authors: generate the katas from the solutions",
    "new": "for authors: write the three files of a new kata",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 not done, 2 misused, 130 interrupted."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    from grader.tools.files import exit_code

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
        from grader.tools.versions import versions

        print(", ".join(f"{name} {of or 'not installed'}" for name, of in versions().items()))
        return 0
    if more and not (hasattr(options, "sizes") and all("=" in word for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # argparse takes no positionals after options that come between
        options.sizes += more
    from rich.console import Console

    from grader.exercise.repository import find_root
    from grader.tools.versions import untested_jax

    if untested := untested_jax():
        print(f"kata: {untested}", file=sys.stderr)
    root = find_root(Path.cwd())
    module = options.module if options.command else command("overview")
    return module.run(options, root, Console(highlight=False))


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
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in words:
            module = command(name)
            module.arguments(sub)
            sub.set_defaults(module=module)
    return parser


def mistyped(words: Sequence[str]) -> str:
    """What to say of a first word that is no command; "" where it is one, or is not there."""
    first = next((word for word in words if not word.startswith("-")), "")
    if not first or first in COMMANDS:
        return ""
    return f"no command {first!r}; {did_you_mean(first, COMMANDS) or 'kata --help lists them all'}"


def command(name: str) -> ModuleType:
    """The module of one command."""
    module = f"{name}_" if keyword.iskeyword(name) else name
    return importlib.import_module(f"grader.commands.{module}")


if __name__ == "__main__":
    sys.exit(main())
