"""The `kata` command: a parser for the commands in `grader.commands`.

Only the module of the command that was typed is imported.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

COMMANDS = {
    "list": "all katas, or those that match",
    "next": "the first kata that is not solved",
    "hint": "one hint, and one level more each time it is asked",
    "show": "the solution of a kata, after asking",
    "reset": "put stubs back; what you wrote is saved first",
    "restore": "list the saved attempts, or bring one back",
    "progress": "what is solved, without running anything",
    "commit": "one commit for each solved kata, with its line of the ledger",
    "cost": "what a launch takes on a TPU, beside par, and what to try",
    "trace": "the predicted timeline of a launch, for Perfetto",
    "watch": "grade a kata whenever it is saved",
    "view": "a picture of a launch, step by step, for a browser",
    "update": "new and changed katas from upstream; yours stay yours",
    "sync": "for authors: generate the katas from the solutions",
    "new": "for authors: the three files of a new kata",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 not done, 2 misused, 130 interrupted."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    parser = parser_for(words)
    options, more = parser.parse_known_args(words)
    if more and not (hasattr(options, "sizes") and all("=" in word for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # argparse takes no positionals after options that come between
        options.sizes += more
    from rich.console import Console

    from grader.exercise.repository import find_root

    try:
        root = find_root(Path.cwd())
        return options.module.run(options, root, Console(highlight=False))
    except (OSError, ValueError) as error:
        print(f"kata: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def parser_for(words: Sequence[str]) -> argparse.ArgumentParser:
    """A parser that knows every command by name, and those among `words` with their arguments."""
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Find your way through the katas. Grade them with: pytest -k NAME",
        epilog="NAME matches like pytest's -k: matmul, basics, 'basics and 10', tiled_matmul.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        sub = commands.add_parser(name, help=text, description=f"{text[0].upper()}{text[1:]}.")
        if name in words:
            module = command(name)
            module.arguments(sub)
            sub.set_defaults(module=module)
    return parser


def command(name: str) -> ModuleType:
    """The module of one command."""
    return importlib.import_module(f"grader.commands.{name}")


if __name__ == "__main__":
    sys.exit(main())
