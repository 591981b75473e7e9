"""`kata`, `kata start`, `kata progress`, `kata next`, `kata list`: progress and order of katas.

None of them runs a kata.
"""

from __future__ import annotations

import argparse
import datetime
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.text import Text

from grader.commands.arguments import (
    complete_names,
    open_if_asked,
    open_option,
    set_completer,
    some_katas,
)
from grader.exercise.catalog import Kata
from grader.exercise.readmes import path_to, title_of
from grader.exercise.repository import STATE, RepositoryError, matching, single_kata
from grader.record.history import history
from grader.record.ledger import Ledger, read_ledger
from grader.record.status import (
    FileState,
    KataStatus,
    all_statuses,
    next_kata,
    reviews,
    skipped_reviews,
    status_of,
)
from grader.report import maps
from grader.report.maps import (
    PROGRESS_SIGNS,
    no_next_kata_message,
    progress_map,
    progress_summary,
    record_notes,
    shorten,
    status_text,
)
from grader.report.progress_exports import history_text, write_badge
from grader.tools.git import GitError, git_in
from pallascope.tools.text import show


def progress_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    ways = parser.add_mutually_exclusive_group()
    ways.add_argument("--log", action="store_true", help="list when each kata was solved, from git")
    ways.add_argument(
        "--svg",
        type=Path,
        metavar="FILE",
        help="draw it for a README; FILE is replaced only if kata progress drew it",
    )


def run_progress(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    statuses = tuple(status_of(kata, ledger) for kata in matching(root, options.name))
    if options.svg:
        write_badge(options.svg, statuses)
        console.print(f"wrote {options.svg}", markup=False, soft_wrap=True)
        return 0
    if options.log:
        return _log(root, ledger, statuses if options.name else (), console)
    show(progress_map(statuses, record_notes(root, ledger, statuses)), console)
    return 0


def _log(root: Path, ledger: Ledger, found: Sequence[KataStatus], console: Console) -> int:
    """Show the history of these katas; if there are none, of all katas in the ledger."""
    ids = {one.kata.id for one in found}
    selected = Ledger(tuple(one for one in ledger.passes if not ids or one.kata in ids))
    notes = list(ledger.warnings)
    try:
        past = history(selected, git_in(root))
    except GitError as error:
        past = history(selected, None)
        notes.append(f"no git here ({error}): the dates are the ledger's")
    if past.shallow:
        notes.append(
            f"a shallow clone has no commits before {past.shallow}: katas solved in them have the "
            "ledger's dates; git fetch --unshallow gets them"
        )
    show(history_text(past, datetime.date.today(), tuple(notes)), console)
    return 0


MORE_COMMANDS = """
kata next --open   open it in your editor
kata watch         grade what you save, when you save it
kata --help        all commands"""


def run_overview(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    statuses = tuple(all_statuses(root, ledger))
    notes = [*record_notes(root, ledger, statuses), *_due_reviews(root, statuses, ledger)]
    following = next_kata(_on_the_way(root, statuses))
    show(Group(progress_summary(statuses, notes, following), Text(MORE_COMMANDS, "dim")), console)
    return 0


def _due_reviews(root: Path, statuses: Sequence[KataStatus], ledger: Ledger) -> Iterator[Text]:
    """A line with the katas whose review is due."""
    coming = reviews(statuses, ledger, skipped_reviews(root))
    if due := [review.kata.name for review in coming if review.due <= datetime.date.today()]:
        yield Text(f"to review  {shorten(due)}   kata review")


#: The file in .kata with the name of the kata that `kata start` has chosen as the goal.
GOAL = "goal.txt"
_NEW_TO_JAX = (
    "First read JAX's quickstart, https://docs.jax.dev/en/latest/notebooks/thinking_in_jax.html: "
    "kernels are written with jax.numpy, and traced like functions under jit."
)
_KNOWS_GPUS = (
    "Unlike on a GPU, you don't write for threads. A kernel computes on whole blocks. The steps of "
    "a grid run one after another on a core, and Pallas copies the blocks of the next step "
    "meanwhile."
)


def start_arguments(parser: argparse.ArgumentParser) -> None:
    pass


def run_start(options: argparse.Namespace, root: Path, console: Console) -> int:
    if not sys.stdin.isatty():
        raise RepositoryError(
            "kata start asks questions: run it in a terminal; or kata list --path NAME"
        )
    all_katas = matching(root, "")
    tracks = {kata.track.partition("_")[0]: kata.track for kata in all_katas}
    knows_jax = _answer("Do you know jax.numpy, jit and vmap? [Y/n] ", console) != "n"
    knows_gpus = _answer("Have you written kernels for GPUs? [y/N] ", console) == "y"
    console.print("What do you want to write?")
    for number, track in tracks.items():
        console.print(f"  {number:>2}  {title_of(root, track) or track}", markup=False)
    answer = _answer("A number, or Enter for everything: ", console)
    if answer and answer not in tracks:
        raise RepositoryError(f"{answer!r} is none of the numbers {', '.join(tracks)}")
    for text in (_NEW_TO_JAX if not knows_jax else "", _KNOWS_GPUS if knows_gpus else ""):
        if text:
            console.print(f"\n{text}", markup=False)
    goal_file = root / STATE / GOAL
    if not answer:
        goal_file.unlink(missing_ok=True)
        console.print(f"\n{len(all_katas)} katas, in the order of kata list. Begin: kata next")
        return 0
    goal = [kata for kata in all_katas if kata.track == tracks[answer]][-1]
    path = path_to(goal, all_katas)
    goal_file.parent.mkdir(exist_ok=True)
    goal_file.write_text(f"{goal.name}\n", encoding="utf-8")
    console.print(
        f"\n{len(path)} of {len(all_katas)} katas lead to {goal.name}: kata list --path. "
        "Begin: kata next",
        markup=False,
    )
    return 0


def _answer(question: str, console: Console) -> str:
    try:
        return console.input(question, markup=False).strip().lower()
    except EOFError:
        return ""


def _goal(root: Path) -> Kata | None:
    """The goal that `kata start` has written; None without one, or if there is no such kata."""
    try:
        return single_kata(root, (root / STATE / GOAL).read_text(encoding="utf-8").strip() or "-")
    except (OSError, ValueError):
        return None


def _on_the_way(root: Path, statuses: Sequence[KataStatus]) -> tuple[KataStatus, ...]:
    """The statuses of the katas on the path to the goal; all, without a goal or if it is solved."""
    goal = _goal(root)
    if goal is None:
        return tuple(statuses)
    path = path_to(goal, [status.kata for status in statuses])
    found = tuple(status for status in statuses if status.kata in path)
    return found if next_kata(found) else tuple(statuses)


def next_arguments(parser: argparse.ArgumentParser) -> None:
    open_option(parser)


def run_next(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    has_goal = _goal(root) is not None
    everything = all_statuses(root, ledger)
    status = next_kata(_on_the_way(root, tuple(everything)) if has_goal else everything)
    if status is None:
        console.print(no_next_kata_message(tuple(all_statuses(root, ledger))))
        return 0
    kata = status.kata
    console.print(Text(_location(kata), "cyan"))
    console.print(f"  {kata.key.title}: {kata.key.concept}", markup=False)
    if status.file_state is not FileState.TODO:
        show(Text(f"  {status_text(status)}"), console)
    console.print(f"  pytest -k {kata.name}      stuck?  kata hint {kata.name}")
    open_if_asked(options, kata)
    return 0


def _location(kata: Kata) -> str:
    file, line = kata.location()
    return f"{file}:{line}"


def list_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser)
    path = parser.add_argument(
        "--path",
        nargs="?",
        const="",
        metavar="NAME",
        help="only the katas on the shortest path to this one; without NAME, to kata start's goal",
    )
    set_completer(path, complete_names)


def run_list(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.path is not None and options.name:
        raise RepositoryError("give a NAME or --path NAME, not both")
    if options.path is not None:
        goal = single_kata(root, options.path) if options.path else _goal(root)
        if goal is None:
            raise RepositoryError("no goal is chosen: kata start, or kata list --path NAME")
        found = path_to(goal, matching(root, ""))
    else:
        found = matching(root, options.name)
    ledger = read_ledger(root)
    lines = [(kata, *_status_text(status_of(kata, ledger))) for kata in found]
    name_width = max(len(kata.name) for kata in found)
    status_width = max(len(FileState.EDITED.value), *(len(text) for _, text, _ in lines))
    parts: list[Text] = []
    for track in dict.fromkeys(kata.track for kata in found):
        parts.append(Text(track, "bold"))
        for kata, text, colour in (line for line in lines if line[0].track == track):
            line = Text(no_wrap=True, overflow="ellipsis")
            line.append(f"  {kata.number} ", "dim").append(f" {kata.name:<{name_width}}  ")
            parts.append(line.append(f"{text:<{status_width}}  ", colour).append(kata.key.concept))
    parts.append(Text("edited, changed: pytest -k kata shows whether it is right", "dim"))
    if options.path is not None:
        parts.append(_path_summary(found, ledger))
    show(Group(*parts), console)
    return 0


def _path_summary(found: Sequence[Kata], ledger: Ledger) -> Text:
    """The length of the path, and the next kata on it."""
    statuses = [status_of(kata, ledger) for kata in found]
    solved = sum(status.file_state is FileState.SOLVED for status in statuses)
    text = f"the shortest path to {found[-1].name}: {len(found)} katas, {solved} solved"
    following = next_kata(statuses)
    return Text(f"{text}; next: {following.kata.name}" if following else text, "bold")


def _status_text(status: KataStatus) -> tuple[str, str]:
    """A kata's file state with its stars, and its colour."""
    text = status.file_state.value
    if status.file_state is FileState.SOLVED:
        text = f"{text} {maps.star_signs(status.stars).plain}"
    return text, PROGRESS_SIGNS[status.file_state][1]
