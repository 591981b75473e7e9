"""Commands that write the files of katas.

`kata init` writes a course without a clone, `kata update` gets new and changed katas. For authors,
`kata new` writes a new kata's files, `kata sync` the stubs and tables.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from rich.console import Console

from grader.commands.arguments import complete_names, set_completer
from grader.exercise import readmes, repository
from grader.exercise.catalog import (
    COURSE,
    SOLUTIONS,
    CourseSettings,
    Kata,
    has_solutions,
    in_order,
    is_course,
    katas,
)
from grader.exercise.key_tables import KataKind
from grader.exercise.readmes import TemplateLeftovers, path_to, template_leftovers
from grader.exercise.repository import RepositoryError, SyncOutcome
from grader.tools.git import Git, git_in
from grader.updates import repository_merge, upstream
from grader.updates.repository_merge import Conflict, Merge
from grader.updates.upstream import (
    ADD_UPSTREAM,
    ORIGIN,
    CannotUpdate,
    UpdateSummary,
    Upstream,
    changed_by_learner,
    summarize_update,
)
from pallascope.tools.versions import reinstall_hint

Say = Callable[[str], None]

UPGRADE = "pip install -U pallas-katas"
MAX_SHOWN = 12  # lines of a conflict, and names of files


def init_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", metavar="FOLDER", help='a new folder, or "." for this one')
    ways = parser.add_mutually_exclusive_group()
    only = ways.add_argument(
        "--only",
        metavar="NAME,…",
        help="only these tracks and katas, matched like pytest -k: 1_basics,softmax",
    )
    path = ways.add_argument(
        "--path", metavar="NAME", help="only the katas on the shortest path to this one"
    )
    parser.add_argument(
        "--without-solutions",
        action="store_true",
        help="for a class: kata show doesn't show solutions, though they stay installed",
    )
    for action in (only, path):
        set_completer(action, complete_names)


def run_init(options: argparse.Namespace, root: Path, console: Console) -> int:
    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if not has_solutions(COURSE):
        raise RepositoryError("no katas came with this package: pip install pallas-katas")
    folder = Path(os.path.normpath(root / options.folder))
    chosen = _chosen(options)
    only = repository.shortened(chosen) if options.only or options.path else None
    folder.mkdir(parents=True, exist_ok=True)
    choice = CourseSettings(only, not options.without_solutions)
    written = upstream.begin(folder, choice)
    say(f"{_count(len(chosen), 'kata')} in {options.folder}")
    if written.kept:
        say(f"kept as they were: {', '.join(written.kept)}")
    if ".gitignore" in written.kept:
        say(f"add a line {repository.STATE}/ to .gitignore: the folder of kata's own notes")
    if written.trouble:
        say(f"not committed, so kata commit and kata update won't work: {written.trouble}")
    say("Next:")
    if folder != root:
        say(f"  cd {options.folder}")
    say(f"  write the missing code of katas/{chosen[0].id}.py")
    say(f"  pytest -k {chosen[0].name}")
    return 0


def _chosen(options: argparse.Namespace) -> tuple[Kata, ...]:
    """The katas that the options select. Raises RepositoryError for a name that matches none."""
    if options.path:
        return path_to(repository.single_kata(COURSE, options.path), katas(COURSE, SOLUTIONS))
    names = [name.strip() for name in (options.only or "").split(",") if name.strip()]
    if options.only is not None and not names:
        raise RepositoryError("--only needs the names of tracks or katas: --only 1_basics,softmax")
    found = {kata for name in names or [""] for kata in repository.matching(COURSE, name)}
    return in_order(found)


def update_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from",
        dest="source",
        metavar="REMOTE_OR_URL",
        help="where to update from (default: the remote upstream if there is one, else origin)",
    )
    parser.add_argument("--branch", metavar="NAME", help="its branch (default: its default branch)")
    parser.add_argument(
        "--abort", action="store_true", help="undo an update that ended in conflicts"
    )


def run_update(options: argparse.Namespace, root: Path, console: Console) -> int:
    def say(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    if options.abort:
        return _abort(git_in(root), say)
    git = upstream.require_ready(root)
    if not is_course(root):
        remote = upstream.choose_remote(git, options.source)
        if console.is_terminal:  # it may take a while, and git may ask for a password
            say(f"fetching from {_public(remote)}")
        fetched = upstream.fetch(git, remote, options.branch)
    elif options.source or options.branch:
        raise CannotUpdate(f"these katas come from the installed package: {UPGRADE}, kata update")
    else:
        fetched = upstream.installed(git)
    base = upstream.merge_base(git, fetched)
    if base == fetched.commit:
        say(f"nothing new in {fetched}")
        if fetched.is_installed:
            say(f"If there is a newer version: {UPGRADE}; then kata update")
        if fetched.remote == ORIGIN:
            say(f"If that is your own fork: {ADD_UPSTREAM}; then kata update")
        return 0
    head = git("rev-parse", "HEAD").strip()
    message = f"{repository_merge.MESSAGE}{fetched.branch} of {_public(fetched.remote)}"
    target, merge = fetched.commit, Merge()
    if base != head:
        with repository_merge.temporary_worktree(git) as tree:
            merge = repository_merge.merge_upstream(tree, fetched.commit, base, message)
            target = "" if merge.conflicts else repository_merge.commit_merge(tree)
    if merge.conflicts:
        repository_merge.require_mergeable(git, base, fetched.commit)
        with repository_merge.signals_ignored():
            merge = repository_merge.merge_upstream(git, fetched.commit, base, message)
        _print_conflicts(root, fetched, merge, say)
        return 1
    pending = repository_merge.plan_pending(git, target)
    summary = summarize_update(git, head, target, fetched.commit)
    # From here on the grader's files may differ from the running code, so import nothing.
    edited = changed_by_learner(git, base, head, [change.path for change in pending])
    repository_merge.move_head(git, target, pending)
    _print_summary(fetched, summary, merge, edited, say)
    return 0


def _abort(git: Git, say: Say) -> int:
    repository_merge.abort_merge(git)
    say(f"back at {git('log', '-1', '--format=%h %s').strip()}: the update is undone")
    return 0


def _public(remote: str) -> str:
    """A remote's name or URL without a password."""
    return re.sub(r"(?<=//)[^/@]*@", "", remote)


def _print_summary(
    fetched: Upstream, summary: UpdateSummary, merge: Merge, edited: frozenset[str], say: Say
) -> None:
    say(f"updated from {_public(str(fetched))}: {_count(summary.commits, 'commit')}")
    tracks = [f"{name} ({_count(count, 'kata')})" for name, count in summary.tracks.items()]
    _line("new tracks", tracks, say)
    _line("new katas", [kata.id for kata in summary.new], say)
    _line("changed", _names(summary.changed), say)
    _line("removed", _names(summary.removed), say)
    _line("other files", list(summary.others), say)
    for kata in merge.kept_katas:
        consequence = (
            "yours is kept. Its solution is gone, so it can't be graded: move it out of katas/"
            if fetched.is_installed
            else "yours is kept, with its solution"
        )
        say(f"{kata}: upstream removed it; {consequence}")
    for kata in merge.deleted_katas:
        say(f"{kata}: upstream changed it; you deleted it, so it stays deleted. kata reset adds it")
    if to_grade := [kata for kata in summary.changed if kata.id in edited]:
        say(f"your code in them is unchanged. Grade it again: {_grade_command(to_grade)}")
    if summary.reinstall and not fetched.is_installed:
        say(f"the package's dependencies have changed: {reinstall_hint()}")


def _names(katas: tuple[Kata, ...]) -> list[str]:
    return [kata.name for kata in katas]


def _grade_command(katas: list[Kata]) -> str:
    names = " or ".join(kata.name for kata in katas)
    return f'pytest -k "{names}"' if len(katas) > 1 else f"pytest -k {names}"


def _line(title: str, names: list[str], say: Say) -> None:
    if names:
        more = f" and {len(names) - MAX_SHOWN} more" if len(names) > MAX_SHOWN else ""
        say(f"  {title:<11}  {', '.join(names[:MAX_SHOWN])}{more}")


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print_conflicts(root: Path, found: Upstream, merge: Merge, say: Say) -> None:
    say(f"{_public(str(found))} and you changed the same lines: the update is not finished")
    for conflict in merge.conflicts:
        say("")
        _print_conflict(root, conflict, say)
    files = " ".join(conflict.path for conflict in merge.conflicts)
    say("")
    say("Open them, keep the right parts of both sides, delete the lines of <<<<<<<, ======= and")
    say(f">>>>>>>, then:  git add {files} && git commit --no-edit")
    say("Or undo the update:  kata update --abort   (git merge --abort does the same)")


def _print_conflict(root: Path, conflict: Conflict, say: Say) -> None:
    if not conflict.lines:
        say(f"{conflict.path}: {conflict.description}")
        return
    text = (root / conflict.path).read_text(encoding="utf-8", errors="replace").split("\n")
    for number in conflict.lines:
        say(f"{conflict.path}:{number}: {conflict.description}")
        length = next((n for n, x in enumerate(text[number - 1 :], 1) if x[:7] == ">>>>>>>"), 1)
        for line in text[number - 1 :][: min(length, MAX_SHOWN)]:
            say(f"  {line}")
        if length > MAX_SHOWN:
            say(f"  … {length - MAX_SHOWN} more lines")


# ---- for authors ----


def sync_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; exit with 1 if a generated file is out of date",
    )


def run_sync(options: argparse.Namespace, root: Path, console: Console) -> int:
    repository.require_own_solutions(root)
    results = repository.sync(root, options.check)
    for result in results:
        if result.outcome is not SyncOutcome.SAME:
            file = result.kata.path.relative_to(root).as_posix()
            console.print(f"{file}: {result.outcome.value}")
    tables = readmes.sync(root, options.check)
    for file in tables:
        outcome = "its table or count differs from the keys" if options.check else "written"
        console.print(f"{file.relative_to(root).as_posix()}: {outcome}")
    print_leftovers(template_leftovers(root), root, console)
    outcomes = [result.outcome for result in results]
    bad, held = outcomes.count(SyncOutcome.DIFFERS), outcomes.count(SyncOutcome.HELD)
    attempts = f"; {held} not compared: an attempt" if held else ""
    console.print(f"{len(results)} katas, {bad} not in step with their solutions{attempts}")
    return 1 if bad or (options.check and tables) else 0


def print_leftovers(files: Iterable[TemplateLeftovers], root: Path, console: Console) -> None:
    """Print a line for each file with parts that are still the template's text."""
    for file in files:
        name, parts = file.file.relative_to(root).as_posix(), ", ".join(file.parts)
        console.print(f"{name}: still the template's: {parts}", markup=False, soft_wrap=True)


def new_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("place", metavar="TRACK/NAME", help="such as 2_fusion/row_softmax")
    parser.add_argument(
        "--kind",
        choices=[kind.value for kind in KataKind],
        default=KataKind.KERNEL.value,
        help="what the learner writes (default: %(default)s)",
    )


def run_new(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.new_kata(root, options.place, KataKind(options.kind))
    readmes.create_track_readme(root, kata.track)
    tables = readmes.sync(root, check=False)
    for file in (kata.solution, kata.key_path, kata.path, *tables):
        console.print(file.relative_to(root).as_posix())
    own = (kata.solution, kata.key_path, readmes.readme_of(root, kata.track))
    print_leftovers([each for each in template_leftovers(root) if each.file in own], root, console)
    console.print(f"Edit these files, then: kata sync && pytest tests -k {kata.name}")
    return 0
