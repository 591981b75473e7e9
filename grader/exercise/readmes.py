"""Reads prerequisites of katas, writes tables in the READMEs, finds leftovers of templates.

A kata's docstring ends with two lines. `Needs` names katas that come earlier on the map, or
"nothing":

    Needs     tiled_matmul, row_sum
    Read on   Grids and BlockSpecs, https://docs.jax.dev/en/latest/pallas/grid_blockspec.html

`kata sync` writes the tables from the answer keys, and leaves all other lines of a README alone:

    <!-- BEGIN KATAS: written by kata sync -->
    | | kata | you write | new idea |
    …
    <!-- END KATAS -->
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
#: A label at the start of a line, and its text with continuation lines.
_LABEL = r"^{label} +(?P<text>\S.*(?:\n {{10}}\S.*)*)$"


def prerequisites(kata: Kata) -> tuple[str, ...]:
    """The names of the katas that this one builds on, from its solution's docstring.

    Empty for "nothing", or without such a line. Raises OSError.
    """
    names = (name.strip() for name in prerequisites_line(kata).split(","))
    return tuple(name for name in names if name and name != NOTHING)


def prerequisites_line(kata: Kata) -> str:
    """The text of `Needs` in the docstring, as one line; "" if there is none."""
    return labelled_text(_docstring(kata), "Needs").replace("\n", " ")


def labelled_text(docstring: str, label: str) -> str:
    """The text after a label such as "Needs", line by line; "" if there is none."""
    match = re.search(_LABEL.format(label=re.escape(label)), docstring, re.MULTILINE)
    return "\n".join(line.strip() for line in match["text"].splitlines()) if match else ""


def path_to(kata: Kata, all_katas: Iterable[Kata]) -> tuple[Kata, ...]:
    """A kata with its direct and indirect prerequisites, in order. Unknown names are skipped."""
    by_name = {current.name: current for current in all_katas}
    on_path: dict[str, Kata] = {}
    to_visit = [kata]
    while to_visit:
        current = to_visit.pop()
        if current.name not in on_path:
            on_path[current.name] = current
            to_visit += [by_name[name] for name in prerequisites(current) if name in by_name]
    return in_order(on_path.values())


def _docstring(kata: Kata) -> str:
    match = _DOCSTRING.match(kata.solution.read_text(encoding="utf-8"))
    return match["text"] if match else ""


README = "README.md"
_TABLE = re.compile(
    r"(?P<begin><!-- BEGIN (?P<name>KATAS|TRACKS)\b.*-->\n)"
    r"(?P<rows>[\s\S]*?)(?P<end><!-- END (?P=name) -->)"
)
_COUNT = re.compile(r"\bThis track has \S+ katas?\b")
_TITLE = re.compile(r"# \w+: (.+)")
#: The row of a track without katas, which its author writes.
_FUTURE_TRACK = re.compile(r"^\| (?P<track>\d+_\w+) \| (?P<leads_to>.*?) \|.*$", re.MULTILINE)
#: Text that is set as code: names with a dot or an underscore, CamelCase, and [...].
_CODE = re.compile(r"\w+(?:[._]\w+)+|(?:[A-Z][a-z]+){2,}|\bNone\b|\[\.\.\.\](?: =)?")
_NUMBER_WORDS = (
    *("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen"),
    *("nineteen", "twenty"),
)


def sync(root: Path, check: bool) -> tuple[Path, ...]:
    """Write the tables and counts of every README; with `check`, only compare.

    Returns the READMEs that differed. A README without markers is left alone. Raises KeyProblem.
    """
    tracks = _tracks(root)
    files = {readme_of(root, track): track for track in tracks}
    changed = []
    for file in (root / README, root / KATAS / README, *files):
        if not file.exists():
            continue
        present = file.read_text(encoding="utf-8")
        expected = _with_count(
            _with_tables(file, present, root, tracks), tracks.get(files.get(file, ""), [])
        )
        if expected != present:
            changed.append(file)
            if not check:
                file.write_text(expected, encoding="utf-8", newline="\n")
    return tuple(changed)


def create_track_readme(root: Path, track: str) -> None:
    """Write the README of a track that has none: a heading, and an empty table for `sync`.

    The heading is taken from the track's row in katas/README.md.
    """
    file, overview = readme_of(root, track), root / KATAS / README
    if file.exists():
        return
    text = overview.read_text(encoding="utf-8") if overview.exists() else ""
    titles = {row["track"]: row["leads_to"] for row in _FUTURE_TRACK.finditer(text)}
    file.write_text(templates.track(track, titles.get(track)), encoding="utf-8", newline="\n")


def _tracks(root: Path) -> dict[str, list[Kata]]:
    tracks: dict[str, list[Kata]] = {}
    for kata in katas(root, SOLUTIONS):
        tracks.setdefault(kata.track, []).append(kata)
    return tracks


def readme_of(root: Path, track: str) -> Path:
    """The README of a track, which may not exist."""
    return root / KATAS / track / README


def _with_tables(file: Path, text: str, root: Path, tracks: dict[str, list[Kata]]) -> str:
    """The text of a README with tables from the keys."""

    def table(found: re.Match[str]) -> str:
        if found["name"] == "KATAS":
            rows = _kata_rows(tracks.get(file.parent.name, []))
        else:
            rows = _track_rows(file, found["rows"], root, tracks)
        return "\n".join((found["begin"], *rows, "", found["end"]))

    return _TABLE.sub(table, text)


def _with_count(text: str, track: list[Kata]) -> str:
    """The text of a track's README with the right number of katas, in words."""
    number = len(track)
    word = _NUMBER_WORDS[number] if number < len(_NUMBER_WORDS) else str(number)
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
    file: Path, current_rows: str, root: Path, tracks: dict[str, list[Kata]]
) -> Sequence[str]:
    """One row for each track, and those of `current_rows` that name a track without katas."""
    rows = {track: _track_row(file, root, track, tracks[track]) for track in tracks}
    for future in _FUTURE_TRACK.finditer(current_rows):
        rows.setdefault(future["track"], future[0])
    in_order = sorted(rows, key=lambda track: int(track.split("_")[0]))
    return "| track | what you write | |", "|---|---|---|", *(rows[track] for track in in_order)


def _track_row(file: Path, root: Path, track: str, members: list[Kata]) -> str:
    link = readme_of(root, track).relative_to(file.parent).as_posix()
    number = len(members)
    return f"| [{track}]({link}) | {title_of(root, track)} | {number} {_katas(number)} |"


def title_of(root: Path, track: str) -> str:
    """The title of a track, from its README's heading; "" if there is none."""
    readme = readme_of(root, track)
    title = _TITLE.match(readme.read_text(encoding="utf-8")) if readme.exists() else None
    return title[1] if title else ""


def _katas(number: int) -> str:
    return "kata" if number == 1 else "katas"


def _markdown(text: str) -> str:
    return _CODE.sub(lambda code: f"`{code[0]}`", text.replace("|", r"\|"))


@dataclass(frozen=True, slots=True)
class TemplateLeftovers:
    """A file, and its parts that are still the template's text, such as "Concept"."""

    file: Path
    parts: tuple[str, ...]


def template_leftovers(root: Path) -> tuple[TemplateLeftovers, ...]:
    """Every file with text of a template, in the order of the katas."""
    all_katas = katas(root, SOLUTIONS)
    tracks = dict.fromkeys(kata.track for kata in all_katas)
    files = [
        *(file for kata in all_katas for file in _files(kata)),
        *(_readme(readme_of(root, track)) for track in tracks),
    ]
    return tuple(file for file in files if file.parts)


def _files(kata: Kata) -> Iterable[TemplateLeftovers]:
    solution, key = (file.read_text(encoding="utf-8") for file in (kata.solution, kata.key_path))
    yield TemplateLeftovers(kata.solution, templates.left_of_solution(kata.name, solution))
    yield TemplateLeftovers(kata.key_path, templates.left_of_key(kata.name, key))


def _readme(file: Path) -> TemplateLeftovers:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return TemplateLeftovers(file, templates.left_of_track(text))
