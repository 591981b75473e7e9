"""`kata reset`, `kata restore`, `kata review`, `kata commit`: stubs, attempts, solved katas.

A review takes place in a copy of the stub in .kata/review, which is a separate course with its own
ledger. The learner's file is never changed. After a pass, a line of the ledger records the review.
"""

from __future__ import annotations

import argparse
import datetime
import itertools
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from grader.commands.arguments import (
    confirm,
    one_kata,
    open_if_asked,
    open_option,
    some_katas,
)
from grader.exercise import repository
from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, has_solutions, in_order, katas
from grader.exercise.repository import STATE, Attempt, RepositoryError, matching
from grader.record import commits
from grader.record.commits import last_commit, uncommitted
from grader.record.ledger import LEDGER, REVIEW, Ledger, append_passes, read_ledger
from grader.record.status import (
    SKIPPED,
    DueReview,
    FileState,
    KataStatus,
    all_statuses,
    reviews,
    skipped_reviews,
    status_of,
)
from grader.report.maps import star_signs, status_text
from grader.tools.git import GitError, NoGit, NoRepository, blob_id, git_in, require_writable
from pallascope.tools.text import print_line


def reset_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, which="the katas to reset")
    parser.add_argument("--all", action="store_true", help="every kata")
    parser.add_argument("-y", "--yes", action="store_true", help="do not ask first")


def run_reset(options: argparse.Namespace, root: Path, console: Console) -> int:
    if bool(options.name) == options.all:
        raise RepositoryError("reset takes a name or --all: kata reset constant_add")
    selected = repository.matching(root, "" if options.all else options.name)
    differing = [kata for kata in selected if not _is_stub(kata)]
    if not differing:
        subject = (
            f"{selected[0].name} is" if len(selected) == 1 else f"all {len(selected)} katas are"
        )
        console.print(f"{subject} as shipped: nothing to reset")
        return 0
    if len(selected) > 1 and not options.yes and not _confirm_reset(differing, console):
        return 1
    for kata in differing:
        if saved := repository.reset(kata, datetime.datetime.now()):
            print_line(console, f"saved  {saved.relative_to(root).as_posix()}")
        print_line(console, f"reset  {':'.join(map(str, kata.location()))}")
    names = differing[0].name if len(differing) == 1 else "NAME"
    console.print(Text(f"to get it back: kata restore {names}", "dim"))
    return 0


def _is_stub(kata: Kata) -> bool:
    """Whether the file is exactly the stub. Raises KeyProblem or RegionError for a broken kata."""
    return kata.path.exists() and kata.path.read_bytes() == kata.stub_text().encode()


def _confirm_reset(differing: Sequence[Kata], console: Console) -> bool:
    for kata in differing:
        print_line(console, f"  {kata.id}")
    stubs = "this stub" if len(differing) == 1 else f"these {len(differing)} stubs"
    return confirm(f"Restore {stubs}? Your code is saved first.", console)


def restore_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser, "?", "; without it, all attempts are listed")
    parser.add_argument(
        "number", nargs="?", type=int, help="number of the attempt (default: the newest)"
    )
    parser.add_argument(
        "--whole",
        action="store_true",
        help="restore the whole file as it was saved, even if the kata has changed since",
    )


def run_restore(options: argparse.Namespace, root: Path, console: Console) -> int:
    if options.name is None:
        return _list_attempts(repository.all_attempts(root), console)
    kata = repository.single_kata(root, options.name)
    attempt = repository.find_attempt(kata, options.number)
    data, as_saved = repository.restored_content(attempt, options.whole)
    which = f"attempt {attempt.number} of {len(repository.attempts(kata))}, {attempt.when}"
    if kata.path.exists() and kata.path.read_bytes() == data:
        print_line(console, f"{kata.name} holds {which}: nothing to restore")
        return 0
    if saved := repository.save_attempt(kata, datetime.datetime.now()):
        print_line(console, f"saved     {saved.relative_to(root).as_posix()}")
    kata.path.parent.mkdir(parents=True, exist_ok=True)
    kata.path.write_bytes(data)
    print_line(console, f"restored  {':'.join(map(str, kata.location()))}   {which}")
    if not as_saved:
        print_line(
            console,
            "The kata has changed since: your regions are restored, the rest is as shipped now. "
            f"For the file as it was: kata restore {kata.name} {attempt.number} --whole",
        )
    return 0


def _list_attempts(found: Sequence[Attempt], console: Console) -> int:
    if not found:
        console.print("no attempts are saved: kata reset saves the code that it replaces")
        return 0
    width = max(len(attempt.kata.name) for attempt in found)
    for track, members in itertools.groupby(found, key=lambda attempt: attempt.kata.track):
        console.print(Text(track, "bold"))
        for attempt in members:
            console.print(_line(attempt, width), no_wrap=True, overflow="ellipsis")
    console.print(Text("restore one: kata restore NAME [NUMBER]", "dim"))
    return 0


def _line(attempt: Attempt, width: int) -> Text:
    """One attempt: its time, its number of lines, and its first line."""
    body = attempt.body()
    lines = f"{len(body)} line{'' if len(body) == 1 else 's'}"
    line = Text.assemble(
        f"  {attempt.kata.name:<{width}}  {attempt.number}  ",
        (f"{attempt.when}  {lines:<8}  ", "dim"),
        body[0] if body else "",
    )
    line.rstrip()
    return line


REVIEWS = "review"
#: With a configuration file, pytest takes the folder of the copies for the root of a repository.
_PYTEST_INI = "[pytest]\ntimeout = 30\n"


def review_arguments(parser: argparse.ArgumentParser) -> None:
    one_kata(parser, "?", "; without it, the solved kata whose review is due first")
    parser.add_argument(
        "--skip", action="store_true", help="skip this review; the next one comes later"
    )
    open_option(parser)


def run_review(options: argparse.Namespace, root: Path, console: Console) -> int:
    today = datetime.date.today()
    ledger, skipped = read_ledger(root), skipped_reviews(root)
    coming = reviews(all_statuses(root, ledger), ledger, skipped)
    chosen = _review(options.name, root, coming, today)
    if chosen is None:
        later = f"; {coming[0].kata.name} is due on {coming[0].due}" if coming else ""
        print_line(console, f"no review is due{later}. kata review NAME reviews a kata now")
        return 0
    copy = _copy_of(chosen.kata)
    if not options.skip and not copy.path.exists() and _wants_to_skip(chosen, today, console):
        options.skip = True
    if options.skip:
        copy.path.unlink(missing_ok=True)
        skipped.setdefault(chosen.kata.id, []).append(today)
        _write_skipped(root, skipped)
        print_line(console, f"skipped  {chosen.kata.name}")
        return 0
    if not copy.path.exists():
        _write_copy(copy, has_solutions(root))
    elif copy.path.read_text(encoding="utf-8") != copy.stub_text():
        return _grade_review(chosen, copy, today, console)
    file, line = copy.location()
    place = f"{copy.root.relative_to(root).as_posix()}/{file}:{line}"
    print_line(console, f"{place}\n  write it again; then kata review grades it")
    open_if_asked(options, copy)
    return 0


def _review(
    name: str | None, root: Path, coming: Sequence[DueReview], today: datetime.date
) -> DueReview | None:
    """The review of the kata with this name; else one that has begun, or is due.

    Raises RepositoryError if the kata isn't solved.
    """
    if name is None:
        begun = {kata.id for kata in katas(root / STATE / REVIEWS)}
        candidates = [one for one in coming if one.kata.id in begun or one.due <= today]
        return min(candidates, key=lambda one: one.kata.id not in begun, default=None)
    kata = repository.single_kata(root, name)
    if found := next((one for one in coming if one.kata == kata), None):
        return found
    status = status_of(kata, read_ledger(root))
    if status.file_state is not FileState.SOLVED or not status.last_pass:
        raise RepositoryError(f"{kata.name} isn't solved: {status_text(status)}")
    return DueReview(kata, status.last_pass.date, today)


def _copy_of(kata: Kata) -> Kata:
    return Kata(kata.root / STATE / REVIEWS, kata.track, kata.stem)


def _wants_to_skip(review: DueReview, today: datetime.date, console: Console) -> bool:
    """Ask, if there is a terminal."""
    if not sys.stdin.isatty():
        return False
    days = (today - review.solved).days
    question = f"{review.kata.name}, solved {days} days ago. Enter: write it again, s: skip "
    return console.input(question, markup=False).strip().lower().startswith("s")


def _write_copy(copy: Kata, has_own_solutions: bool) -> None:
    copy.path.parent.mkdir(parents=True, exist_ok=True)
    link = copy.root / SOLUTIONS
    if has_own_solutions and not link.exists():
        link.symlink_to(Path("..", "..", SOLUTIONS), target_is_directory=True)
    (copy.root / "pytest.ini").write_text(_PYTEST_INI, encoding="utf-8")
    copy.path.write_text(copy.stub_text(), encoding="utf-8", newline="\n")


def _grade_review(review: DueReview, copy: Kata, today: datetime.date, console: Console) -> int:
    """Grade the copy like any kata; record a pass in the learner's ledger, and remove the copy."""
    print_line(console, f"in {STATE}/{REVIEWS}, to which paths are relative:")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "grader.plugin"]
    sys.stdout.flush()
    (copy.root / LEDGER).unlink(missing_ok=True)  # only this session's pass counts
    subprocess.run([*command, f"{KATAS}/{copy.id}.py"], cwd=copy.root, check=False)
    best = read_ledger(copy.root).best(copy.id, blob_id(copy.path.read_bytes()))
    if best is None:
        print_line(console, "your answer is unchanged. After a change: kata review")
        return 1
    days = str((today - review.solved).days)
    recorded = replace(best, date=today, versions=(*best.versions, (REVIEW, days)))
    append_passes(review.kata.root, [recorded])
    copy.path.unlink()
    stars = star_signs(best.stars).plain
    print_line(console, f"reviewed  {copy.name} {stars}; your answer is as it was")
    return 0


def _write_skipped(root: Path, skipped: Mapping[str, Sequence[datetime.date]]) -> None:
    file = root / STATE / SKIPPED
    days = {kata: [str(day) for day in days] for kata, days in skipped.items()}
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(days, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def commit_arguments(parser: argparse.ArgumentParser) -> None:
    some_katas(parser, "*")


def run_commit(options: argparse.Namespace, root: Path, console: Console) -> int:
    ledger = read_ledger(root)
    selected, unsolved = _selected_statuses(root, ledger, options.name)
    try:
        git = git_in(root)
    except NoGit as error:
        remedy = f". git init {root} makes one" if isinstance(error, NoRepository) else ""
        raise GitError(f"nothing to commit to: {error}{remedy}") from None
    require_writable(git)
    commits.require_ready_to_commit(git)
    commit_count = 0
    for status in uncommitted(git, selected, ledger, last_commit(git)):
        if commit := commits.commit_kata(git, status):
            commit_count += 1
            print_line(console, f"{commit.id}  {commit.subject}")
    for status in unsolved:
        print_line(console, f"{status.kata.name} isn't solved now: {status_text(status)}")
    if commit_count and not commits.current_branch(git):
        console.print("The commits are on no branch (detached HEAD): git switch -c NAME keeps them")
    if not commit_count and not unsolved:
        console.print(
            "Nothing to commit: the last commit has every solved kata"
            if any(status.file_state is FileState.SOLVED for status in selected)
            else "Nothing to commit: no kata is solved now; pytest -k NAME grades one"
        )
    return 1 if unsolved else 0


def _selected_statuses(
    root: Path, ledger: Ledger, names: Sequence[str]
) -> tuple[tuple[KataStatus, ...], tuple[KataStatus, ...]]:
    """The katas that `names` select, and the katas of names that match no solved kata."""
    if not names:
        return tuple(all_statuses(root, ledger)), ()
    selected: dict[str, KataStatus] = {}
    unsolved: dict[str, KataStatus] = {}
    for name in names:
        group = {kata.id: status_of(kata, ledger) for kata in matching(root, name)}
        selected |= group
        if not any(member.file_state is FileState.SOLVED for member in group.values()):
            unsolved |= group
    return _in_order(selected), _in_order(unsolved)


def _in_order(found: Mapping[str, KataStatus]) -> tuple[KataStatus, ...]:
    return tuple(found[kata.id] for kata in in_order(one.kata for one in found.values()))
