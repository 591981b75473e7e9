"""Merges a file of three versions, katas region by region.

A three-way merge of a kata's texts along its solution regions.
What stands outside of the regions is merged as git would merge it. A region belongs to whoever
changed it, and to the learner where both did: upstream may reword a stub's message, change the
lines right above a region, or add another region, without a word about the learner's lines.

Three-way merges of one file's content: katas along their fences, others as git merges them.
"""

from __future__ import annotations

import enum
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import kata_at
from grader.exercise.regions import (
    BEGIN,
    Region,
    RegionError,
    fill,
    regions,
    written,
)
from grader.record.ledger import LEDGER
from grader.tools.git import Git, GitError


@dataclass(frozen=True, slots=True)
class Merged:
    """A merged text; its conflicts stand in it, between the markers that git writes."""

    text: str
    conflicts: int


#: Merges (base, ours, theirs) line by line.
ThreeWay = Callable[[str, str, str], Merged]
Body = tuple[str, ...]
Inside = tuple[Body, str]

_OWNER = re.compile(r"(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")


def merge_regions(base: str, ours: str, theirs: str, three_way: ThreeWay) -> Merged:
    """Merge what `ours`, the learner's, and `theirs`, upstream's, have made of `base`.

    Where the regions of the three cannot be told apart (a marker is broken, the learner made
    another region, upstream took away one that is written in), the texts are merged as any others.
    """
    try:
        sides = [_side(text) for text in (base, ours, theirs)]
    except RegionError:
        return three_way(base, ours, theirs)
    before, mine, new = sides
    if len(before.bodies) != len(mine.bodies):
        return three_way(base, ours, theirs)
    places = _matched(before, new)
    names = _names(len(before.bodies) + len(new.bodies), base + ours + theirs)
    kept, fresh = names[: len(before.bodies)], names[len(before.bodies) :]
    their_names = [fresh[i] if at is None else kept[at] for i, at in enumerate(places)]
    around = _outside(before.filled(kept), mine.filled(kept), new.filled(their_names), three_way)
    if around is None:
        return three_way(base, ours, theirs)
    chosen = dict(zip(their_names, new.insides, strict=True))
    for index, name in enumerate(kept):
        if mine.bodies[index] == before.bodies[index]:
            chosen.setdefault(name, before.insides[index])
        elif _has_place(around, name):
            chosen[name] = mine.insides[index]
        else:
            return three_way(base, ours, theirs)
    return Merged(_filled(around.text, chosen), around.conflicts)


def same_outside(one: str, other: str) -> bool:
    """Whether two texts differ in nothing but what stands in their regions."""
    try:
        first, second = _side(one), _side(other)
    except RegionError:
        return False
    names = _names(len(first.bodies), one + other)
    alike = len(first.bodies) == len(second.bodies)
    return alike and first.filled(names) == second.filled(names)


@dataclass(frozen=True, slots=True)
class _Side:
    text: str
    regions: tuple[Region, ...]
    bodies: tuple[Body, ...]

    @property
    def insides(self) -> list[Inside]:
        """Each region's lines, with the indentation of its markers."""
        return [(body, r.indent) for body, r in zip(self.bodies, self.regions, strict=True)]

    def filled(self, names: Sequence[str]) -> str:
        """The text with one line in each region: its name."""
        return fill(self.text, [(name,) for name in names])

    def owners(self) -> list[str]:
        """The function that each region stands in; "" for none."""
        lines = self.text.split("\n")
        return [_owner(lines[: region.begin - 1], region.indent) for region in self.regions]


def _side(text: str) -> _Side:
    return _Side(text, regions(text), written(text))


def _owner(above: Sequence[str], indent: str) -> str:
    for line in reversed(above):
        found = _OWNER.match(line)
        if found and len(found[1]) < len(indent):
            return found[2]
    return ""


def _names(count: int, texts: str) -> list[str]:
    """Lines that stand in none of the texts."""
    sign = "@"
    while sign in texts:
        sign += "@"
    return [f"{sign}{number}" for number in range(count)]


def _matched(before: _Side, new: _Side) -> list[int | None]:
    """For each of upstream's regions, which it was in the base; None for a new one.

    The same function and the same body first; then the same function, then the same body, for what
    was reworded, renamed or moved; then a single region is the same whatever became of it. Where
    that leaves a choice nothing is matched, so that no body ever lands in another's place.
    """
    found: list[int | None] = [None] * len(new.bodies)
    old_keys = list(zip(before.owners(), before.bodies, strict=True))
    new_keys = list(zip(new.owners(), new.bodies, strict=True))
    single = len(old_keys) == len(new_keys) == 1
    passes: list[Callable[[tuple[str, Body]], object]] = [
        lambda key: key,
        lambda key: key[0],
        lambda key: key[1],
    ]
    for part in [*passes, lambda _: None] if single else passes:
        taken = set(found)
        old = _grouped({i: part(k) for i, k in enumerate(old_keys) if i not in taken})
        fresh = _grouped({i: part(k) for i, k in enumerate(new_keys) if found[i] is None})
        for key, group in fresh.items():
            if len(group) == len(old.get(key, ())):
                for index, at in zip(group, old[key], strict=True):
                    found[index] = at
    return found


def _grouped(keys: dict[int, object]) -> dict[object, list[int]]:
    groups: dict[object, list[int]] = {}
    for index, key in keys.items():
        groups.setdefault(key, []).append(index)
    return groups


def _outside(base: str, ours: str, theirs: str, three_way: ThreeWay) -> Merged | None:
    """The merged text around the regions; None where a region's markers would not outlive it."""
    if ours in (base, theirs):
        return Merged(theirs, 0)
    if theirs == base:
        return Merged(ours, 0)
    merged = three_way(base, ours, theirs)
    if not merged.conflicts:
        try:
            regions(merged.text)
        except RegionError:
            return None
    return merged


def _has_place(around: Merged, name: str) -> bool:
    """Whether a region stands in the merged text once, or on both sides of a conflict."""
    count = around.text.split("\n").count(name)
    return count == 1 or (count > 1 and around.conflicts > 0)


def _filled(text: str, chosen: dict[str, Inside]) -> str:
    """The text with each name replaced by its lines, indented like the marker above them."""
    lines: list[str] = []
    indent = ""
    for line in text.split("\n"):
        if line.strip() == BEGIN:
            indent = line[: len(line) - len(line.lstrip())]
        lines += _moved(chosen[line], indent) if line in chosen else [line]
    return "\n".join(lines)


def _moved(inside: Inside, indent: str) -> Body:
    """A body at another indentation; as it is where that is its own, or it keeps to none."""
    body, own = inside
    if indent == own or not all(line.startswith(own) for line in body if line.strip()):
        return body
    return tuple(indent + line[len(own) :] if line.strip() else line for line in body)


SIDES = ("yours", "before", "upstream")


class MergeKind(enum.Enum):
    """How a file is merged."""

    KATA = "along the solution regions"
    LEDGER = "every line of both"
    OTHER = "line by line"


@dataclass(frozen=True, slots=True)
class Content:
    """A merged file, and how many conflicts stand in it."""

    data: bytes
    conflicts: int


def kind(path: str) -> MergeKind:
    """How the file at `path`, relative to the repository's root, is merged."""
    if path == LEDGER:
        return MergeKind.LEDGER
    return MergeKind.KATA if kata_at(Path(), Path(path)) else MergeKind.OTHER


def merge(git: Git, path: str, base: bytes, ours: bytes, theirs: bytes) -> Content:
    """Merge what two sides have made of `base`. Line ends stay what they are in `ours`.

    Raises GitError where git cannot merge the contents at all, as with a picture.
    """
    windows = b"\r\n" in ours and ours.count(b"\n") == ours.count(b"\r\n")
    base_text, our_text, their_text = (_text(side) for side in (base, ours, theirs))

    def three_way(base: str, ours: str, theirs: str) -> Merged:
        return _merge_file(git, base, ours, theirs)

    match kind(path):
        case MergeKind.KATA:
            merged = merge_regions(base_text, our_text, their_text, three_way)
        case MergeKind.LEDGER:
            merged = _merge_file(git, base_text, our_text, their_text, "--union")
        case MergeKind.OTHER:
            merged = three_way(base_text, our_text, their_text)
    text = merged.text.replace("\n", "\r\n") if windows else merged.text
    return Content(text.encode("utf-8", "surrogateescape"), merged.conflicts)


def _text(data: bytes) -> str:
    """A file as text, whatever its encoding; line ends that are all Windows' become git's."""
    text = data.decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n") if text.count("\n") == text.count("\r\n") else text


def _merge_file(git: Git, base: str, ours: str, theirs: str, *how: str) -> Merged:
    with tempfile.TemporaryDirectory(prefix="kata-update-") as folder:
        files = [Path(folder, name) for name in SIDES]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for side in SIDES for word in ("-L", side)]
        ran = git.run_bytes("merge-file", "-p", *how, *labels, *map(str, files))
    if not 0 <= ran.returncode < 128:
        raise GitError(f"git merge-file: {ran.stderr.decode('utf-8', 'replace').strip()}")
    return Merged(ran.stdout.decode("utf-8", "surrogateescape"), ran.returncode)
