"""Tables in the READMEs, prerequisites, and leftovers of templates.

What a kata builds on, and where to read on: two lines at the end of its docstring.
Needs     tiled_matmul, row_sum
    Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html

`Needs` names katas in order of understanding, which all come earlier on the map, or says "nothing".

The tables in the READMEs: the katas of a track, and the tracks, each with its number of katas.
The answer keys say what stands in them. Between a table's markers only `kata sync` writes; all
other lines of a README are its author's.

    <!-- BEGIN KATAS: written by kata sync -->
    | | kata | you write | new idea |
    …
    <!-- END KATAS -->

What of the katas and tracks is still the template's text, for their author to write over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise import templates
from grader.exercise.catalog import KATAS, SOLUTIONS, Kata, in_order, katas

NOTHING = "nothing"
_DOCSTRING = re.compile(r'\A\s*r?"""(?P<text>.*?)"""', re.DOTALL)
#: A label at the beginning of a line, and all that goes on below its text.
_LABELLED = r"^{label} +(?P<text>\S.*(?:\n {{10}}\S.*)*)$"


def needs(kata: Kata) -> tuple[str, ...]:
    """The names of the katas that this one builds on, as its solution's docstring gives them.

    Empty where it says so, and where there is no such line. Raises OSError.
    """
    names = (name.strip() for name in needs_line(kata).split(","))
    return tuple(name for name in names if name and name != NOTHING)


def needs_line(kata: Kata) -> str:
    """What the docstring says that a kata needs, as one line; "" where it doesn't say."""
    return labelled(_docstring(kata), "Needs").replace("\n", " ")


def labelled(docstring: str, label: str) -> str:
    """What stands behind a label such as "Needs", line by line; "" where there is none."""
    found = re.search(_LABELLED.format(label=re.escape(label)), docstring, re.MULTILINE)
    return "\n".join(line.strip() for line in found["text"].splitlines()) if found else ""


def way_to(kata: Kata, every: Iterable[Kata]) -> tuple[Kata, ...]:
    """The fewest katas that lead to this one: what it needs, what those need, itself; in order.

    A name that no kata has is passed over.
    """
    by_name = {one.name: one for one in every}
    found: dict[str, Kata] = {}
    waiting = [kata]
    while waiting:
        one = waiting.pop()
        if one.name not in found:
            found[one.name] = one
            waiting += [by_name[name] for name in needs(one) if name in by_name]
    return in_order(found.values())


def _docstring(kata: Kata) -> str:
    found = _DOCSTRING.match(kata.solution.read_text(encoding="utf-8"))
    return found["text"] if found else ""


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
    file.write_text(templates.track(track, said.get(track)), encoding="utf-8", newline="\n")


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


@dataclass(frozen=True, slots=True)
class Unwritten:
    """A file, and its parts that are still the template's, such as "Concept"."""

    file: Path
    parts: tuple[str, ...]


def unwritten(root: Path) -> tuple[Unwritten, ...]:
    """Every file of an author's that is not finished, in the order of the katas."""
    every = katas(root, SOLUTIONS)
    tracks = dict.fromkeys(kata.track for kata in every)
    files = [
        *(file for kata in every for file in _files(kata)),
        *(_readme(readme_of(root, track)) for track in tracks),
    ]
    return tuple(file for file in files if file.parts)


def _files(kata: Kata) -> Iterable[Unwritten]:
    solution, key = (file.read_text(encoding="utf-8") for file in (kata.solution, kata.key_path))
    yield Unwritten(kata.solution, templates.left_of_solution(kata.name, solution))
    yield Unwritten(kata.key_path, templates.left_of_key(kata.name, key))


def _readme(file: Path) -> Unwritten:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return Unwritten(file, templates.left_of_track(text))
