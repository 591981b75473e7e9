"""Merges three versions of one file: katas region by region, other files like git.

Outside of its solution regions, a kata is merged like any other file. A region is taken from the
side that changed it, and from the learner if both did. So upstream may reword a stub's message,
change the lines above a region, or add a region, without a conflict with the learner's lines.
"""

from __future__ import annotations

import enum
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import kata_at
from grader.record.ledger import LEDGER
from grader.tools.git import Git, GitError
from pallascope.tools.regions import BEGIN, Region, RegionError, fill_regions, region_lines, regions


@dataclass(frozen=True, slots=True)
class MergedText:
    """A merged text, with git's conflict markers in it, and the number of conflicts."""

    text: str
    conflicts: int


#: Merges (base, ours, theirs) line by line.
ThreeWay = Callable[[str, str, str], MergedText]
Body = tuple[str, ...]
IndentedBody = tuple[Body, str]

_DEFINITION = re.compile(r"(\s*)(?:async\s+)?(?:def|class)\s+(\w+)")


def merge_regions(base: str, ours: str, theirs: str, three_way: ThreeWay) -> MergedText:
    """Merge `ours` (the learner's text) and `theirs` (upstream's), two versions of `base`.

    If the regions can't be matched (a marker is broken, the learner added a region, upstream
    removed one that the learner changed), the texts are merged line by line.
    """
    try:
        sides = [_side(text) for text in (base, ours, theirs)]
    except RegionError:
        return three_way(base, ours, theirs)
    base_side, ours_side, theirs_side = sides
    if len(base_side.bodies) != len(ours_side.bodies):
        return three_way(base, ours, theirs)
    matches = _match_regions(base_side, theirs_side)
    names = _placeholders(len(base_side.bodies) + len(theirs_side.bodies), base + ours + theirs)
    base_names, new_names = names[: len(base_side.bodies)], names[len(base_side.bodies) :]
    their_names = [
        new_names[i] if match is None else base_names[match] for i, match in enumerate(matches)
    ]
    around = _outside(
        base_side.filled(base_names),
        ours_side.filled(base_names),
        theirs_side.filled(their_names),
        three_way,
    )
    if around is None:
        return three_way(base, ours, theirs)
    bodies = dict(zip(their_names, theirs_side.indented_bodies, strict=True))
    for index, name in enumerate(base_names):
        if ours_side.bodies[index] == base_side.bodies[index]:
            bodies.setdefault(name, base_side.indented_bodies[index])
        elif _is_unambiguous(around, name):
            bodies[name] = ours_side.indented_bodies[index]
        else:
            return three_way(base, ours, theirs)
    return MergedText(_replace_placeholders(around.text, bodies), around.conflicts)


def same_outside(one: str, other: str) -> bool:
    """Whether two texts differ only inside their regions."""
    try:
        first, second = _side(one), _side(other)
    except RegionError:
        return False
    names = _placeholders(len(first.bodies), one + other)
    alike = len(first.bodies) == len(second.bodies)
    return alike and first.filled(names) == second.filled(names)


@dataclass(frozen=True, slots=True)
class _Side:
    text: str
    regions: tuple[Region, ...]
    bodies: tuple[Body, ...]

    @property
    def indented_bodies(self) -> list[IndentedBody]:
        """Each region's lines, with the indentation of its markers."""
        return [(body, r.indent) for body, r in zip(self.bodies, self.regions, strict=True)]

    def filled(self, names: Sequence[str]) -> str:
        """The text with each region replaced by one line, its name."""
        return fill_regions(self.text, [(name,) for name in names])

    def enclosing_functions(self) -> list[str]:
        """The function or class around each region; "" for none."""
        lines = self.text.split("\n")
        return [
            _enclosing_function(lines[: region.begin - 1], region.indent) for region in self.regions
        ]


def _side(text: str) -> _Side:
    return _Side(text, regions(text), region_lines(text))


def _enclosing_function(above: Sequence[str], indent: str) -> str:
    for line in reversed(above):
        match = _DEFINITION.match(line)
        if match and len(match[1]) < len(indent):
            return match[2]
    return ""


def _placeholders(count: int, texts: str) -> list[str]:
    """Lines that occur in none of the texts."""
    prefix = "@"
    while prefix in texts:
        prefix += "@"
    return [f"{prefix}{number}" for number in range(count)]


def _match_regions(before: _Side, new: _Side) -> list[int | None]:
    """For each of upstream's regions its index in the base; None for a new region.

    Regions match by function and body, then by function, then by body. A single region always
    matches. Ambiguous regions aren't matched, so that no body gets into another region.
    """
    matches: list[int | None] = [None] * len(new.bodies)
    old_keys = list(zip(before.enclosing_functions(), before.bodies, strict=True))
    new_keys = list(zip(new.enclosing_functions(), new.bodies, strict=True))
    single = len(old_keys) == len(new_keys) == 1
    criteria: list[Callable[[tuple[str, Body]], object]] = [
        lambda key: key,
        lambda key: key[0],
        lambda key: key[1],
    ]
    for part in [*criteria, lambda _: None] if single else criteria:
        matched = set(matches)
        old = _grouped({i: part(k) for i, k in enumerate(old_keys) if i not in matched})
        fresh = _grouped({i: part(k) for i, k in enumerate(new_keys) if matches[i] is None})
        for key, group in fresh.items():
            if len(group) == len(old.get(key, ())):
                for index, base_index in zip(group, old[key], strict=True):
                    matches[index] = base_index
    return matches


def _grouped(keys: dict[int, object]) -> dict[object, list[int]]:
    groups: dict[object, list[int]] = {}
    for index, key in keys.items():
        groups.setdefault(key, []).append(index)
    return groups


def _outside(base: str, ours: str, theirs: str, three_way: ThreeWay) -> MergedText | None:
    """The merged text around the regions; None if the merge would break a region's markers."""
    if ours in (base, theirs):
        return MergedText(theirs, 0)
    if theirs == base:
        return MergedText(ours, 0)
    merged = three_way(base, ours, theirs)
    if not merged.conflicts:
        try:
            regions(merged.text)
        except RegionError:
            return None
    return merged


def _is_unambiguous(around: MergedText, name: str) -> bool:
    """Whether a region occurs once in the merged text, or on both sides of a conflict."""
    count = around.text.split("\n").count(name)
    return count == 1 or (count > 1 and around.conflicts > 0)


def _replace_placeholders(text: str, bodies: dict[str, IndentedBody]) -> str:
    """The text with each name replaced by the region's lines, indented like their marker."""
    lines: list[str] = []
    indent = ""
    for line in text.split("\n"):
        if line.strip() == BEGIN:
            indent = line[: len(line) - len(line.lstrip())]
        lines += _reindented(bodies[line], indent) if line in bodies else [line]
    return "\n".join(lines)


def _reindented(indented_body: IndentedBody, indent: str) -> Body:
    """A body at another indentation; unchanged if its lines aren't indented alike."""
    body, old_indent = indented_body
    if indent == old_indent or not all(
        line.startswith(old_indent) for line in body if line.strip()
    ):
        return body
    return tuple(indent + line[len(old_indent) :] if line.strip() else line for line in body)


SIDES = ("yours", "before", "upstream")


class MergeKind(enum.Enum):
    """How a file is merged."""

    KATA = "along the solution regions"
    LEDGER = "every line of both"
    OTHER = "line by line"


@dataclass(frozen=True, slots=True)
class MergedFile:
    """A merged file, and the number of conflicts in it."""

    data: bytes
    conflicts: int


def merge_kind(path: str) -> MergeKind:
    """How to merge the file at `path`, relative to the repository's root."""
    if path == LEDGER:
        return MergeKind.LEDGER
    return MergeKind.KATA if kata_at(Path(), Path(path)) else MergeKind.OTHER


def merge_file(git: Git, path: str, base: bytes, ours: bytes, theirs: bytes) -> MergedFile:
    """Merge two versions of `base`. Line ends stay as in `ours`.

    Raises GitError if git can't merge the contents, such as pictures.
    """
    crlf = b"\r\n" in ours and ours.count(b"\n") == ours.count(b"\r\n")
    base_text, our_text, their_text = (_text(side) for side in (base, ours, theirs))

    def three_way(base: str, ours: str, theirs: str) -> MergedText:
        return _merge_file(git, base, ours, theirs)

    match merge_kind(path):
        case MergeKind.KATA:
            merged = merge_regions(base_text, our_text, their_text, three_way)
        case MergeKind.LEDGER:
            merged = _merge_file(git, base_text, our_text, their_text, "--union")
        case MergeKind.OTHER:
            merged = three_way(base_text, our_text, their_text)
    text = merged.text.replace("\n", "\r\n") if crlf else merged.text
    return MergedFile(text.encode("utf-8", "surrogateescape"), merged.conflicts)


def _text(data: bytes) -> str:
    """A file's bytes as text, in any encoding. If all line ends are CRLF, they become LF."""
    text = data.decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n") if text.count("\n") == text.count("\r\n") else text


def _merge_file(git: Git, base: str, ours: str, theirs: str, *options: str) -> MergedText:
    with tempfile.TemporaryDirectory(prefix="kata-update-") as folder:
        files = [Path(folder, name) for name in SIDES]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for side in SIDES for word in ("-L", side)]
        result = git.run_bytes("merge-file", "-p", *options, *labels, *map(str, files))
    if not 0 <= result.returncode < 128:
        raise GitError(f"git merge-file: {result.stderr.decode('utf-8', 'replace').strip()}")
    return MergedText(result.stdout.decode("utf-8", "surrogateescape"), result.returncode)
