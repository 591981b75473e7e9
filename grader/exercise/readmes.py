"""The tables in the READMEs: the katas of a track, and the tracks, each with its number of katas.

The answer keys say what stands in them. Between a table's markers only `kata sync` writes; all
other lines of a README are its author's.

    <!-- BEGIN KATAS: written by kata sync -->
    | | kata | you write | new idea |
    …
    <!-- END KATAS -->
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from grader.exercise import template
from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, katas

README = "README.md"
_TABLE = re.compile(
    r"(?P<begin><!-- BEGIN (?P<name>KATAS|TRACKS)\b.*-->\n)"
    r"(?P<rows>[\s\S]*?)(?P<end><!-- END (?P=name) -->)"
)
_COUNT = re.compile(r"\bThis track has \S+ katas?\b")
_TITLE = re.compile(r"# \w+: (.+)")
#: A track that a table names and that has no katas yet: its row is its author's.
_COMING = re.compile(r"^\| (?P<track>\d+_\w+) \| (?P<leads_to>.*?) \|.*$", re.MULTILINE)
#: What is set as code: names with a dot or an underscore, two words in one, and [...].
_CODE = re.compile(r"\w+(?:[._]\w+)+|(?:[A-Z][a-z]+){2,}|\bNone\b|\[\.\.\.\](?: =)?")
_WORDS = (
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)


def sync(root: Path, check: bool) -> tuple[Path, ...]:
    """Write the tables and counts of every README anew; with `check`, only compare.

    Returns the READMEs that were not as they should be. A README without markers is left alone.
    Raises keys.KeyProblem.
    """
    tracks = _tracks(root)
    files = {readme_of(root, track): track for track in tracks}
    changed = []
    for file in (root / README, root / KATAS / README, *files):
        if not file.exists():
            continue
        present = file.read_text(encoding="utf-8")
        wanted = _counted(_filled(file, present, root, tracks), tracks.get(files.get(file, ""), []))
        if wanted != present:
            changed.append(file)
            if not check:
                file.write_text(wanted, encoding="utf-8", newline="\n")
    return tuple(changed)


def begin(root: Path, track: str) -> None:
    """Write the README of a track that has none: a heading, and an empty table for `sync`.

    The heading is what katas/README.md already says of the track.
    """
    file, overview = readme_of(root, track), root / KATAS / README
    if file.exists():
        return
    text = overview.read_text(encoding="utf-8") if overview.exists() else ""
    said = {row["track"]: row["leads_to"] for row in _COMING.finditer(text)}
    file.write_text(template.track(track, said.get(track)), encoding="utf-8", newline="\n")


def _tracks(root: Path) -> dict[str, list[Kata]]:
    tracks: dict[str, list[Kata]] = {}
    for kata in katas(root, SOLUTIONS):
        tracks.setdefault(kata.track, []).append(kata)
    return tracks


def readme_of(root: Path, track: str) -> Path:
    """The README of a track, there or not."""
    return root / KATAS / track / README


def _filled(file: Path, text: str, root: Path, tracks: dict[str, list[Kata]]) -> str:
    """The text of a README, its tables as the keys have them."""

    def table(found: re.Match[str]) -> str:
        if found["name"] == "KATAS":
            rows = _kata_rows(tracks.get(file.parent.name, []))
        else:
            rows = _track_rows(file, found["rows"], root, tracks)
        return "\n".join((found["begin"], *rows, "", found["end"]))

    return _TABLE.sub(table, text)


def _counted(text: str, track: list[Kata]) -> str:
    """The text of a track's README with the right number of katas, in words."""
    number = len(track)
    word = _WORDS[number] if number < len(_WORDS) else str(number)
    return _COUNT.sub(f"This track has {word} {_katas(number)}", text) if track else text


def _kata_rows(track: list[Kata]) -> Sequence[str]:
    return (
        "| | kata | you write | new idea |",
        "|---|---|---|---|",
        *(
            f"| {kata.number} | [{kata.name}]({kata.path.name}) | {kata.key.write} "
            f"| {_markdown(kata.key.concept)} |"
            for kata in track
        ),
    )


def _track_rows(
    file: Path, present: str, root: Path, tracks: dict[str, list[Kata]]
) -> Sequence[str]:
    """One row for each track, and those of `present` that name a track without katas."""
    rows = {track: _track_row(file, root, track, tracks[track]) for track in tracks}
    for coming in _COMING.finditer(present):
        rows.setdefault(coming["track"], coming[0])
    in_order = sorted(rows, key=lambda track: int(track.split("_")[0]))
    return "| track | what you write | |", "|---|---|---|", *(rows[track] for track in in_order)


def _track_row(file: Path, root: Path, track: str, members: list[Kata]) -> str:
    readme = readme_of(root, track)
    title = _TITLE.match(readme.read_text(encoding="utf-8")) if readme.exists() else None
    link = readme.relative_to(file.parent).as_posix()
    number = len(members)
    return f"| [{track}]({link}) | {title[1] if title else ''} | {number} {_katas(number)} |"


def _katas(number: int) -> str:
    return "kata" if number == 1 else "katas"


def _markdown(text: str) -> str:
    return _CODE.sub(lambda code: f"`{code[0]}`", text.replace("|", r"\|"))
