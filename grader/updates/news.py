"""What an update brought, read from git alone: the files of before may be gone by now."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, kata_at
from grader.tools.git import Git

PROJECT = "pyproject.toml"


@dataclass(frozen=True, slots=True)
class News:
    """Katas in the order of their places; `others` are all other files that changed, as paths."""

    commits: int
    tracks: dict[str, int]  # new ones, with how many katas
    new: tuple[Kata, ...]  # in tracks that were there
    changed: tuple[Kata, ...]  # their file, solution or key
    removed: tuple[Kata, ...]
    others: tuple[str, ...]
    reinstall: bool  # what the package asks for is not what was installed


def news(git: Git, old: str, new: str, theirs: str) -> News:
    """What differs between HEAD before (`old`) and after (`new`) commits of `theirs` came in."""
    fields = git.paths("diff", "--name-status", "-z", "--no-renames", old, new)
    letters = dict(zip(fields[1::2], fields[::2], strict=True))
    by_kata: dict[Kata, str] = {}
    for path, letter in letters.items():
        if kata := kata_of(git.folder, path):
            of_learner = path.startswith(f"{KATAS}/")
            by_kata[kata] = letter if of_learner else by_kata.get(kata, "M")
    had = {
        path.split("/")[1]
        for path in git.paths("ls-tree", "-r", "-z", "--name-only", old, KATAS + "/")
        if path.count("/") == 2
    }
    added = _those(by_kata, "A")
    return News(
        commits=int(git("rev-list", "--count", theirs, f"^{old}")),
        tracks=dict(Counter(kata.track for kata in added if kata.track not in had)),
        new=tuple(kata for kata in added if kata.track in had),
        changed=_those(by_kata, "M"),
        removed=_those(by_kata, "D"),
        others=tuple(path for path in letters if not kata_of(git.folder, path)),
        reinstall=_asks_for(git, old) != _asks_for(git, new),
    )


def kata_of(root: Path, path: str) -> Kata | None:
    """The kata of which `path`, relative to the root, is the file, the solution or the key."""
    at = Path(path)
    if at.parts[0] == SOLUTIONS:
        at = Path(KATAS, *at.parts[1:]).with_suffix(".py")
    return kata_at(root, root / at)


def holding_work(git: Git, base: str, old: str, dirty: Collection[str]) -> frozenset[str]:
    """The ids of the katas that the learner has changed since `base`, committed or not."""
    paths = git.paths("diff", "--name-only", "-z", "--no-renames", base, old, "--", KATAS)
    found = (kata_at(git.folder, git.folder / path) for path in (*paths, *dirty))
    return frozenset(kata.id for kata in found if kata)


def _those(by_kata: dict[Kata, str], letter: str) -> tuple[Kata, ...]:
    return in_order(kata for kata, found in by_kata.items() if found == letter)


def in_order(katas: Iterable[Kata]) -> tuple[Kata, ...]:
    """By the number of the track, then of the kata."""
    return tuple(sorted(katas, key=lambda k: (int(k.track.split("_")[0]), int(k.number), k.id)))


def _asks_for(git: Git, commit: str) -> object:
    """What decides about an installation; the text itself where it is no TOML."""
    data = git.content(f"{commit}:{PROJECT}") or b""
    try:
        project = tomllib.loads(data.decode()).get("project", {})
    except ValueError:
        return data
    names = ("requires-python", "dependencies", "optional-dependencies", "scripts", "entry-points")
    return [project.get(name) for name in names]
