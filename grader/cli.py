"""The `kata` command: find, hint, show, what other modules add; and for authors, sync and new."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.syntax import Syntax
from rich.text import Text

from grader import costs, progress, repository, resetting, updating, view
from grader.catalog import SOLUTIONS, Kata, katas, named
from grader.record.ledger import read
from grader.record.present import Known, Present, present, presents, upcoming
from grader.regions import regions
from grader.rendering import show
from grader.report import marks
from grader.report.progress import SIGNS, standing
from grader.repository import STATE, RepositoryError, Synced
from grader.watching import command as watching

Command = Callable[[argparse.Namespace, Path, Console], int]

HINTS = "hints.json"
LEVELS = ("a nudge", "the pattern", "nearly all of it")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns the exit code: 0 done, 1 not done, 2 misused, 130 interrupted."""
    parser = _parser()
    options, more = parser.parse_known_args(arguments)
    if more and not (hasattr(options, "sizes") and all("=" in word for word in more)):
        parser.error(f"unrecognized arguments: {' '.join(more)}")
    if more:  # argparse takes no positionals after options that come between
        options.sizes += more
    console = Console(highlight=False)
    try:
        root = repository.find_root(Path.cwd())
        return options.command(options, root, console)
    except (OSError, ValueError) as error:
        print(f"kata: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="kata",
        description="Find your way through the katas. Grade them with: pytest -k NAME",
        epilog="NAME matches like pytest's -k: matmul, basics, 'basics and 10', tiled_matmul.",
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def add(name: str, command: Command, text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        sub.set_defaults(command=command)
        return sub

    add("list", _list, "all katas, or those that match").add_argument("name", nargs="?", default="")
    add("next", _next, "the first kata that is not solved")
    hint = add("hint", _hint, "one hint, and one level more each time it is asked")
    hint.add_argument("name")
    hint.add_argument("level", nargs="?", type=int, choices=(1, 2, 3), help="this level instead")
    show = add("show", _show, "the solution of a kata, after asking")
    show.add_argument("name")
    show.add_argument("-y", "--yes", action="store_true", help="do not ask")
    resetting.add_commands(add)
    progress.add_commands(add)
    costs.add_commands(add)
    watching.add_commands(add)
    view.add_commands(add)
    updating.add_commands(add)
    sync = add("sync", _sync, "for authors: generate the katas from the solutions")
    sync.add_argument("--check", action="store_true", help="only compare; exit 1 if they differ")
    new = add("new", _new, "for authors: the three files of a new kata")
    new.add_argument("place", metavar="TRACK/NAME", help="such as 2_fusion/row_softmax")
    return parser


def _where(kata: Kata) -> str:
    file, line = kata.where()
    return f"{file}:{line}"


def _list(options: argparse.Namespace, root: Path, console: Console) -> int:
    every = katas(root, SOLUTIONS)
    found = named(every, options.name) if options.name else every
    if not found:
        raise RepositoryError(f"no kata matches {options.name!r}")
    ledger = read(root)
    lines = [(kata, *_state(present(kata, ledger))) for kata in found]
    wide = max(len(kata.name) for kata in found)
    told = max(len(Known.EDITED.value), *(len(words) for _, words, _ in lines))
    parts: list[Text] = []
    for track in dict.fromkeys(kata.track for kata in found):
        parts.append(Text(track, "bold"))
        for kata, words, colour in (line for line in lines if line[0].track == track):
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(f"  {kata.number} ", "dim").append(f" {kata.name:<{wide}}  ")
            parts.append(line.append(f"{words:<{told}}  ", colour).append(kata.key.concept))
    parts.append(Text("edited, changed: right or wrong, pytest -k kata tells", "dim"))
    show(Group(*parts), console)
    return 0


def _state(found: Present) -> tuple[str, str]:
    """What ledger and files tell, and its colour."""
    words = found.known.value
    if found.known is Known.SOLVED:
        words = f"{words} {marks.stars(found.stars).plain}"
    return words, SIGNS[found.known][1]


def _next(options: argparse.Namespace, root: Path, console: Console) -> int:
    found = presents(root, read(root))
    one = upcoming(found)
    if one is None:
        console.print(
            "Every kata is solved."
            if all(one.known is Known.SOLVED for one in found)
            else "Every kata has been edited. pytest -k kata tells which are solved."
        )
        return 0
    console.print(Text(_where(one.kata), "cyan"))
    console.print(f"  {one.kata.key.title}: {one.kata.key.concept}", markup=False)
    if one.known is not Known.TODO:
        show(Text(f"  {standing(one)}"), console)
    console.print(f"  pytest -k {one.kata.name}      stuck?  kata hint {one.kata.name}")
    return 0


def _hint(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    file = root / STATE / HINTS
    asked = _asked(file)
    level = options.level or min(asked.get(kata.id, 0) + 1, len(LEVELS))
    asked[kata.id] = max(level, asked.get(kata.id, 0))
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(asked, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    title = (f"{kata.name}, hint {level} of {len(LEVELS)}", "bold")
    console.print(Text.assemble(title, (f" ({LEVELS[level - 1]})", "dim")))
    console.print(f"  {kata.key.hints[level - 1]}", markup=False)
    if level < len(LEVELS):
        console.print(Text(f"  more: kata hint {kata.name}", "dim"))
    return 0


def _asked(file: Path) -> dict[str, int]:
    """How many hints were given, by kata; a damaged file counts as none."""
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    levels = data.items() if isinstance(data, dict) else ()
    return {kata: level for kata, level in levels if type(level) is int and 0 < level < 4}


def _show(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.one(root, options.name)
    if not options.yes:
        if not sys.stdin.isatty():
            raise RepositoryError("show asks before it spoils; without a terminal, say --yes")
        try:
            answer = console.input(f"Show the solution of {kata.name}? \\[y/N] ")
        except EOFError:
            return 1
        if answer.strip().lower() not in ("y", "yes"):
            return 1
    text = kata.solution.read_text(encoding="utf-8")
    for region in regions(text):
        console.print(Text(f"{kata.solution.relative_to(root).as_posix()}:{region.first}", "cyan"))
        console.print(Syntax(region.body, "python", background_color="default"))
    return 0


def _sync(options: argparse.Namespace, root: Path, console: Console) -> int:
    results = repository.sync(root, options.check)
    for result in results:
        if result.outcome is not Synced.SAME:
            file = result.kata.path.relative_to(root).as_posix()
            console.print(f"{file}: {result.outcome.value}")
    bad = [r for r in results if r.outcome in (Synced.DIFFERS, Synced.REFUSED)]
    console.print(f"{len(results)} katas, {len(bad)} not in step with their solutions")
    return 1 if bad else 0


def _new(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.new(root, options.place)
    for file in (kata.solution, kata.key_path, kata.path):
        console.print(file.relative_to(root).as_posix())
    console.print(f"Write over them, then: kata sync && pytest tests -k {kata.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
