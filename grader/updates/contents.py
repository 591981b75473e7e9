"""Three-way merges of one file's content: katas along their fences, others as git merges them."""

from __future__ import annotations

import enum
import tempfile
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import kata_at
from grader.record.ledger import LEDGER
from grader.tools.git import Git, GitError
from grader.updates import region_merge

SIDES = ("yours", "before", "upstream")


class Kind(enum.Enum):
    """How a file is merged."""

    KATA = "along the solution regions"
    LEDGER = "every line of both"
    OTHER = "line by line"


@dataclass(frozen=True, slots=True)
class Content:
    """A merged file, and how many conflicts stand in it."""

    data: bytes
    conflicts: int


def kind(path: str) -> Kind:
    """How the file at `path`, relative to the repository's root, is merged."""
    if path == LEDGER:
        return Kind.LEDGER
    return Kind.KATA if kata_at(Path(), Path(path)) else Kind.OTHER


def merge(git: Git, path: str, base: bytes, ours: bytes, theirs: bytes) -> Content:
    """Merge what two sides have made of `base`. Line ends stay what they are in `ours`.

    Raises GitError where git cannot merge the contents at all, as with a picture.
    """
    windows = b"\r\n" in ours and ours.count(b"\n") == ours.count(b"\r\n")
    base_text, our_text, their_text = (_text(side) for side in (base, ours, theirs))

    def three_way(base: str, ours: str, theirs: str) -> region_merge.Merged:
        return _merge_file(git, base, ours, theirs)

    match kind(path):
        case Kind.KATA:
            merged = region_merge.merge(base_text, our_text, their_text, three_way)
        case Kind.LEDGER:
            merged = _merge_file(git, base_text, our_text, their_text, "--union")
        case Kind.OTHER:
            merged = three_way(base_text, our_text, their_text)
    text = merged.text.replace("\n", "\r\n") if windows else merged.text
    return Content(text.encode("utf-8", "surrogateescape"), merged.conflicts)


def _text(data: bytes) -> str:
    """A file as text, whatever its encoding; line ends that are all Windows' become git's."""
    text = data.decode("utf-8", "surrogateescape")
    return text.replace("\r\n", "\n") if text.count("\n") == text.count("\r\n") else text


def _merge_file(git: Git, base: str, ours: str, theirs: str, *how: str) -> region_merge.Merged:
    with tempfile.TemporaryDirectory(prefix="kata-update-") as folder:
        files = [Path(folder, name) for name in SIDES]
        for file, text in zip(files, (ours, base, theirs), strict=True):
            file.write_bytes(text.encode("utf-8", "surrogateescape"))
        labels = [word for side in SIDES for word in ("-L", side)]
        ran = git.raw("merge-file", "-p", *how, *labels, *map(str, files))
    if not 0 <= ran.returncode < 128:
        raise GitError(f"git merge-file: {ran.stderr.decode('utf-8', 'replace').strip()}")
    return region_merge.Merged(ran.stdout.decode("utf-8", "surrogateescape"), ran.returncode)
