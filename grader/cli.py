# PYTHON_ARGCOMPLETE_OK
"""The `kata` command: a parser for the commands in `grader.commands`.

Only the module of the typed command is imported. Shell completion runs this module, too
(`complete`).
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
#: For each command the module of `grader.commands` with its two functions, NAME_arguments(parser)
#: and run_NAME(options, root, console), and its help text.
COMMANDS = {
    "init": ("kata_files", "write the katas into a folder of yours, without a clone"),
    "start": ("progress", "answer three questions, and get a path through the katas"),
    "list": ("progress", "show all katas, or those that match"),
    "next": ("progress", "show the first kata that isn't solved"),
    "hint": ("hints", "give a hint; each time you ask, it says more"),
    "show": ("hints", "show the solution of a kata, after asking you"),
    "after": ("hints", "show where a solved kata leads, and how your solution compares"),
    "reset": ("attempts", "restore the stub of a kata; your code is saved first"),
    "restore": ("attempts", "list your saved attempts, or restore one"),
    "review": ("attempts", "write a kata again that you solved a while ago"),
    "progress": ("progress", "show your progress, without running anything"),
    "commit": ("attempts", "make one git commit for each solved kata"),
    "cost": ("launches", "predict the time of a launch on a TPU, and suggest changes"),
    "measure": ("launches", "measure the time of a launch on this machine's TPU"),
    "check": ("launches", "check the kernels of any function: races, values, the compiler"),
    "trace": ("launches", "write the predicted timeline of a launch, for Perfetto"),
    "watch": ("watch", "grade a kata whenever you save it"),
    "view": ("launches", "draw a launch step by step, in your browser"),
    "update": ("kata_files", "get new and changed katas from upstream; your code stays"),
    "tasks": ("grade", "write the katas as tasks for models, as JSONL"),
    "grade": ("grade", "judge many submissions, from JSONL to JSONL"),
    "class": ("grade", "for teachers: report the progress of a class, and where it is stuck"),
    "baseline": ("grade", "write samples with known verdicts, or compare results with them"),
    "sync": ("kata_files", "for authors: generate the katas from the solutions"),
    "new": ("kata_files", "for authors: write the three files of a new kata"),
}


#: The commands that also work outside of a folder with katas.
ANYWHERE = ("check", "init")
#: The commands that, outside of a folder with katas, use those that came with the package.
WITH_COURSE = ("tasks", "grade", "baseline")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 not done, 2 misused, 130 interrupted."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    from pallascope.tools.files import exit_code

    argv = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return exit_code(lambda: _run(argv), "kata")
    except KeyboardInterrupt:
        return 130


def _run(argv: Sequence[str]) -> int:
    parser = parser_for(argv)
    if error := unknown_command_message(argv):
        parser.error(error)
    options, extra = parser.parse_known_args(argv)
    if options.version:
        from pallascope.tools.versions import versions

        print(
            ", ".join(
                f"{name} {version or 'not installed'}" for name, version in versions().items()
            )
        )
        return 0
    if extra and not (hasattr(options, "sizes") and all("=" in word for word in extra)):
        parser.error(f"unrecognized arguments: {' '.join(extra)}")
    if extra:  # argparse doesn't accept more positionals after an option
        options.sizes += extra
    from rich.console import Console

    from grader.exercise.repository import find_root, root_or_course
    from pallascope.tools.versions import untested_jax

    if untested := untested_jax():
        print(f"kata: {untested}", file=sys.stderr)
    find = root_or_course if options.command in WITH_COURSE else find_root
    root = Path.cwd() if options.command in ANYWHERE else find(Path.cwd())
    run = options.run if options.command else importlib.import_module(OVERVIEW).run_overview
    return run(options, root, Console(highlight=False))


def complete() -> None:
    """Print the shell's completions, and exit. argcomplete does both."""
    import argcomplete

    argcomplete.autocomplete(parser_for(os.environ["COMP_LINE"].split()), False)


def parser_for(argv: Sequence[str]) -> argparse.ArgumentParser:
    """A parser of all commands. Only commands in `argv` get their arguments."""
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Find your way through the katas; without a COMMAND: your progress and the "
        "next step. Grade katas with pytest -k NAME.",
        epilog="NAME matches like pytest -k: tiled_matmul, matmul, basics, 'basics and 10'.",
    )
    parser.add_argument(
        "--version", action="store_true", help="show the versions of the grader, jax and libtpu"
    )
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    for name, (_, text) in COMMANDS.items():
        subparser = commands.add_parser(
            name, help=text, description=f"{text[0].upper()}{text[1:]}."
        )
        if name in argv:
            arguments, run = command_functions(name)
            arguments(subparser)
            subparser.set_defaults(run=run)
    return parser


def unknown_command_message(argv: Sequence[str]) -> str:
    """The error message if the first word is not a command, else ""."""
    first = next((word for word in argv if not word.startswith("-")), "")
    if not first or first in COMMANDS:
        return ""
    return f"no command {first!r}; {did_you_mean(first, COMMANDS) or 'kata --help lists them all'}"


def command_functions(name: str) -> tuple[Callable[..., None], Callable[..., int]]:
    """A command's two functions: one adds its arguments to a parser, the other runs it."""
    module = importlib.import_module(f"grader.commands.{COMMANDS[name][0]}")
    return getattr(module, f"{name}_arguments"), getattr(module, f"run_{name}")


if __name__ == "__main__":
    sys.exit(main())
