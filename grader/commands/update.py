"""`kata update`: new and changed katas from upstream."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from grader.exercise.catalog import Kata
from grader.tools.git import Git, git_in
from grader.updates import repository_merge, upstream
from grader.updates.repository_merge import Conflict, Merge
from grader.updates.upstream import (
    ADD_UPSTREAM,
    ORIGIN,
    UpdateSummary,
    Upstream,
    changed_by_learner,
    summarize_update,
)
from pallascope.tools.versions import reinstall

Say = Callable[[str], None]

SHOWN = 12  # lines of a conflict, and names of files


def update_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        metavar="REMOTE_OR_URL",
        help="where to update from (default: the remote upstream if there is one, else origin)",
    )
    parser.add_argument("--branch", metavar="NAME", help="its branch (default: its default one)")
    parser.add_argument(
        "--abort", action="store_true", help="undo an update that ended in conflicts"
    )


def run_update(options: argparse.Namespace, root: Path, console: Console) -> int:
    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if options.abort:
        return _abort(git_in(root), say)
    git = upstream.require_ready(root)
    remote = upstream.choose_remote(git, options.source)
    if console.is_terminal:  # it may take a while, and git may ask for a password
        say(f"fetching from {_public(remote)}")
    found = upstream.fetch(git, remote, options.branch)
    base = upstream.merge_base(git, found)
    if base == found.commit:
        say(f"nothing new in {found}")
        if found.remote == ORIGIN:
            say(f"If that is a fork of your own: {ADD_UPSTREAM}; then kata update")
        return 0
    head = git("rev-parse", "HEAD").strip()
    message = f"{repository_merge.MESSAGE}{found.branch} of {_public(found.remote)}"
    target, merge = found.commit, Merge()
    if base != head:
        with repository_merge.temporary_worktree(git) as tree:
            merge = repository_merge.merge_upstream(tree, found.commit, base, message)
            target = "" if merge.conflicts else repository_merge.commit_merge(tree)
    if merge.conflicts:
        repository_merge.require_mergeable(git, base, found.commit)
        with repository_merge.signals_ignored():
            merge = repository_merge.merge_upstream(git, found.commit, base, message)
        _tell_conflicts(root, found, merge, say)
        return 1
    carried = repository_merge.plan_pending(git, target)
    brought = summarize_update(git, head, target, found.commit)
    # From here on the grader's own files may be others than those that run: nothing is imported.
    yours = changed_by_learner(git, base, head, [one.path for one in carried])
    repository_merge.move_head(git, target, carried)
    _tell(found, brought, merge, yours, say)
    return 0


def _abort(git: Git, say: Say) -> int:
    repository_merge.abort_merge(git)
    say(f"back at {git('log', '-1', '--format=%h %s').strip()}: nothing of the update is left")
    return 0


def _public(remote: str) -> str:
    """A remote for a commit's message: without the password that a URL may hold."""
    return re.sub(r"(?<=//)[^/@]*@", "", remote)


def _tell(
    found: Upstream, brought: UpdateSummary, merge: Merge, yours: frozenset[str], say: Say
) -> None:
    say(f"updated from {_public(str(found))}: {_count(brought.commits, 'commit')}")
    tracks = [f"{name} ({_count(count, 'kata')})" for name, count in brought.tracks.items()]
    _line("new tracks", tracks, say)
    _line("new katas", [kata.id for kata in brought.new], say)
    _line("changed", _names(brought.changed), say)
    _line("removed", _names(brought.removed), say)
    _line("other files", list(brought.others), say)
    for kata in merge.kept_katas:
        say(f"{kata}: upstream removed it; yours is kept, with its solution")
    for kata in merge.deleted_katas:
        say(f"{kata}: upstream changed it; you deleted it, so it stays away. kata reset brings it")
    if again := [kata for kata in brought.changed if kata.id in yours]:
        say(f"what you wrote is in them as it was. Grade again: {_grading(again)}")
    if brought.reinstall:
        say(f"the package asks for other packages than before: {reinstall()}")


def _names(katas: tuple[Kata, ...]) -> list[str]:
    return [kata.name for kata in katas]


def _grading(katas: list[Kata]) -> str:
    names = " or ".join(kata.name for kata in katas)
    return f'pytest -k "{names}"' if len(katas) > 1 else f"pytest -k {names}"


def _line(title: str, names: list[str], say: Say) -> None:
    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        say(f"  {title:<11}  {', '.join(names[:SHOWN])}{more}")


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _tell_conflicts(root: Path, found: Upstream, merge: Merge, say: Say) -> None:
    say(f"{_public(str(found))} and you changed the same lines: the update is not finished")
    for conflict in merge.conflicts:
        say("")
        _tell_conflict(root, conflict, say)
    files = " ".join(conflict.path for conflict in merge.conflicts)
    say("")
    say("Open them, keep what is right of the two sides, delete the lines of <<<<<<<, ======= and")
    say(f">>>>>>>, then:  git add {files} && git commit --no-edit")
    say("Or go back to before the update:  kata update --abort   (git merge --abort does the same)")


def _tell_conflict(root: Path, conflict: Conflict, say: Say) -> None:
    if not conflict.lines:
        say(f"{conflict.path}: {conflict.description}")
        return
    text = (root / conflict.path).read_text(encoding="utf-8", errors="replace").split("\n")
    for number in conflict.lines:
        say(f"{conflict.path}:{number}: {conflict.description}")
        length = next((n for n, x in enumerate(text[number - 1 :], 1) if x[:7] == ">>>>>>>"), 1)
        for line in text[number - 1 :][: min(length, SHOWN)]:
            say(f"  {line}")
        if length > SHOWN:
            say(f"  … {length - SHOWN} lines more")
