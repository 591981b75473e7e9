"""Files for others: JSON, JUnit properties, Markdown, a badge.

Grades for machines: the file of --kata-json.
The schema is documented in CONTRIBUTING.md. A change that a reader could trip over raises VERSION.

Grades for machines: the properties of JUnit XML's test cases.
They are documented in CONTRIBUTING.md.

A picture of what is solved, for a README: a badge, and a row of cells for each track.
The same progress gives the same bytes. The viewer's own settings choose light or dark.

The map as GitHub's Markdown, for a job's summary: the file of --kata-summary.
"""

from __future__ import annotations

import html
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from grader.record.status import FileState, KataStatus
from grader.report.maps import sign_of, standing, without_stars
from grader.report.standings import (
    SessionStandings,
    Standing,
    TrackStandings,
    unasked,
)
from grader.verdict import (
    MAX_STARS,
    Conditions,
    Finding,
    Grade,
    State,
)
from pallascope.tools import codec
from pallascope.tools.files import in_words
from pallascope.tools.versions import versions

VERSION = 3


def document(grades: Sequence[Grade], conditions: Conditions) -> dict[str, Any]:
    """The whole file as builtins. Grades stand in the order of kata and case."""
    ordered = sorted(grades, key=lambda grade: (grade.kata, grade.case))
    return {
        "schema": VERSION,
        "seed": conditions.seed,
        "backend": conditions.device.backend,
        "mode": conditions.device.mode.value,
        "chips": list(conditions.chips),
        "gpu": conditions.gpu,
        "isolation": conditions.isolation,
        "versions": versions(),
        "grades": codec.to_builtins(ordered),
    }


def write_json(file: Path, grades: Sequence[Grade], conditions: Conditions) -> None:
    """Write the document; makes its folder where there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(document(grades, conditions), indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def properties(grade: Grade) -> list[tuple[str, str]]:
    """One grade as JUnit XML properties of its test case."""
    pairs = [
        ("kata", grade.kata),
        ("kata_state", grade.state.value),
        ("kata_stars", str(grade.stars)),
        ("kata_case", grade.drawn),
    ]
    if grade.finding:
        pairs.append(("kata_check", grade.finding.check.value))
        pairs.append(("kata_reason", grade.finding.phrase))
    return pairs


OURS = "<!-- Drawn by kata progress"  # how a picture of ours begins
WIDTH = 480
_EDGE, _LABEL, _CELL, _GAP = 16, 148, 16, 3
_TOP, _ROW = 60, 26  # where the first track starts, and how high each is
_FEET = 34

#: Class -> the property that is coloured, light, dark. Stars differ in lightness, not in hue alone.
_COLOURS = {
    "page": ("fill", "#ffffff", "#0d1117"),
    "ink": ("fill", "#1f2328", "#e6edf3"),
    "soft": ("fill", "#57606a", "#9aa4af"),
    "name": ("fill", "#57606a", "#30363d"),
    "count": ("fill", "#1a7f37", "#1f7a35"),
    "on": ("fill", "#ffffff", "#ffffff"),
    "none": ("fill", "#e4e8ec", "#262c36"),
    "stars1": ("fill", "#d2f0d6", "#143d21"),
    "stars2": ("fill", "#86d694", "#1f7a35"),
    "stars3": ("fill", "#1a7f37", "#56d364"),
    "changed": ("stroke", "#bf8700", "#d29922"),
}
_STYLE = """\
text { font: 13px system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.bold { font-weight: 600; }
.small { font-size: 11px; }
.changed { stroke-width: 2; stroke-dasharray: 3 2; }"""


class NotOurs(ValueError):
    """There is such a file already, and `kata progress --svg` did not write it."""


def write_badge(file: Path, statuses: Sequence[KataStatus]) -> None:
    """Draw into a file. Raises NotOurs rather than replace anything but such a picture; OSError."""
    if file.exists() and OURS.encode() not in file.read_bytes()[:1000]:
        raise NotOurs(f"{file} exists, and kata progress did not draw it: give another name")
    file.write_text(badge(statuses), encoding="utf-8")


def badge(statuses: Sequence[KataStatus]) -> str:
    """The SVG, sizes in its own 480-wide view box."""
    tracks = [
        (name, list(members))
        for name, members in itertools.groupby(statuses, key=lambda status: status.kata.track)
    ]
    height = _TOP + _ROW * len(tracks) + _FEET
    solved, stars = sum(map(_is_solved, statuses)), sum(status.stars for status in statuses)
    title = (
        f"{solved} of {len(statuses)} katas solved, {stars} of {MAX_STARS * len(statuses)} stars"
    )
    counts = (f"{name}: {sum(map(_is_solved, of))} of {len(of)} solved" for name, of in tracks)
    return "\n".join(
        [
            f"{OURS}, which replaces it each time. -->",
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-labelledby="title desc">',
            f'<title id="title">{title}</title>',
            f'<desc id="desc">{"; ".join(counts)}</desc>',
            f"<style>\n{_STYLE}\n{_colours(1)}",
            f"@media (prefers-color-scheme: dark) {{\n{_colours(2)}\n}}\n</style>",
            f'<rect width="{WIDTH}" height="{height}" rx="8" class="page"/>',
            *_badge(f"{solved} of {len(statuses)} solved", f"{stars} ★"),
            *itertools.chain.from_iterable(
                _track(name, of, _TOP + _ROW * row) for row, (name, of) in enumerate(tracks)
            ),
            *_legend(height - 14),
            "</svg>\n",
        ]
    )


def _is_solved(status: KataStatus) -> bool:
    return status.file_state is FileState.SOLVED


def _colours(mode: int) -> str:
    return "\n".join(f".{name} {{ {of[0]}: {of[mode]}; }}" for name, of in _COLOURS.items())


def _text(x: float, y: float, words: str, look: str, at: str = "start") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{at}" class="{look}">{escape(words)}</text>'


def _box(x: float, y: float, w: float, h: float, look: str, tip: str = "") -> str:
    inside = f"<title>{escape(tip)}</title>" if tip else ""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="3" class="{look}">'
        f"{inside}</rect>"
    )


def _badge(*counts: str) -> Iterator[str]:
    """A name and its counts, side by side. Widths leave room for any system's letters."""
    x = _EDGE
    for words, look in (("Pallas Katas", "name"), *((count, "count") for count in counts)):
        width = 8 * len(words) + 16
        yield _box(x, 16, width, 26, look)
        yield _text(x + width / 2, 33.5, words, "on bold", "middle")
        x += width + 2


def _track(name: str, members: Sequence[KataStatus], y: float) -> Iterator[str]:
    yield _text(_EDGE, y + 13, name, "ink")
    pitch = min(_CELL + _GAP, (WIDTH - _EDGE - _LABEL - _EDGE) / len(members))
    for place, status in enumerate(members):
        tip = f"{status.kata.number} {status.kata.name}: {_tip(status)}"
        yield _box(_EDGE + _LABEL + pitch * place, y, pitch - _GAP, _CELL, _look(status), tip)


def _tip(status: KataStatus) -> str:
    return f"{'★' * status.stars}, {standing(status)}" if _is_solved(status) else standing(status)


def _look(status: KataStatus) -> str:
    if _is_solved(status):
        return f"stars{status.stars}"
    return "none changed" if status.file_state is FileState.CHANGED else "none"


def _legend(y: float) -> Iterator[str]:
    x = _EDGE + _LABEL
    for look, words in (
        ("none", "to do"),
        ("none changed", "changed since"),
        ("stars2", "★★"),
        ("stars3", "★★★"),
    ):
        yield _box(x, y - 9, 10, 10, look)
        yield _text(x + 15, y, words, "soft small")
        x += 30 + 7 * len(words)


LONGEST = 6000  # characters of one finding; GitHub shows no summary of more than 1 MiB

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+!|~$@:<>&-])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def append_summary(
    file: Path,
    standings: SessionStandings,
    grades: Iterable[Grade],
    seed: int,
    environ: Mapping[str, str],
) -> str:
    """Add the map to a file. Returns why that failed, in one line; "" where it did not."""
    text = summary(standings, grades, seed, files_at(environ))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as end:
            end.write(text)
    except OSError as error:
        return f"katas: no summary was written: {in_words(error)}"
    return ""


def files_at(environ: Mapping[str, str]) -> str:
    """The address below which GitHub shows this commit's files; "" outside of its workflows."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (environ.get(name, "") for name in names)
    return f"{server}/{repository}/blob/{commit}" if server and repository and commit else ""


def summary(
    standings: SessionStandings, grades: Iterable[Grade], seed: int, address: str = ""
) -> str:
    """The total, a table for each track, and every failed kata's finding, folded up.

    Names link to the files below `address`, if there is one. `seed` is the session's.
    """
    findings = {(g.kata, g.case): g.finding for g in grades if g.finding}
    failed = [each for each in standings.all if each.state is State.FAILED]
    parts = [_total(standings, seed)]
    parts += [_table(track, address) for track in standings.tracks]
    for each in failed:
        if finding := findings.get((each.kata.id, each.case)):
            parts.append(_details(each, finding, seed))
    if following := standings.next:
        verb = "Fix" if following.state is State.FAILED else "Next"
        command = f"`pytest -k {following.kata.name}`"
        parts.append(f"{verb}: {_link(following, address)}, {command}")
    return "\n" + "\n\n".join(parts) + "\n"


def _total(standings: SessionStandings, seed: int) -> str:
    every = standings.all
    if not every:
        return "## Katas\n\nNone was graded."
    counts = {state: sum(s.state is state for s in every) for state in State}
    stars = sum(each.stars for each in every)
    lines = [
        f"## Katas: {sum(s.solved for s in every)} of {len(every)} solved",
        "",
        f"{stars} of {MAX_STARS * len(every)} stars; {counts[State.FAILED]} failed, "
        f"{counts[State.TODO]} todo. Hidden cases drawn with `--kata-seed {seed}`.",
    ]
    for reason, of in unasked(standings).items():
        told = f"{reason.check.title} ({escaped(reason.why)})"
        lines += ["", f"Not judged: {told}. No star from there on."]
        if not_solved := without_stars(of):
            lines += ["", f"{escaped(not_solved.capitalize())}."]
    for note in (note for each in every for note in each.notes):
        lines += ["", f"Note: {escaped(note)}"]
    return "\n".join(lines)


def _table(track: TrackStandings, address: str) -> str:
    rest = f", {track.not_run} not run" if track.not_run else ""
    return "\n".join(
        [
            f"### {escaped(track.name)}: {track.solved} of {len(track.standings)} solved{rest}",
            "",
            "| | kata | stars | why not more |",
            "|---|---|---|---|",
            *(_row(standing, address) for standing in track.standings),
        ]
    )


def _row(standing: Standing, address: str) -> str:
    stars = "★" * standing.stars + "☆" * (MAX_STARS - standing.stars)
    sign, _ = sign_of(standing)
    cells = (sign, _link(standing, address), stars, escaped(standing.phrase))
    return f"| {' | '.join(cells)} |"


def _link(standing: Standing, address: str) -> str:
    name = f"{standing.kata.number} {escaped(standing.kata.name)}"
    file, line = standing.kata.where()
    return f"[{name}]({address}/{file}#L{line})" if address else name


def _details(standing: Standing, finding: Finding, seed: int) -> str:
    """A finding as the learner reads it, in a block that backticks in the finding do not end."""
    message = finding.message
    if not message.startswith(finding.phrase):
        message = f"{finding.phrase}\n{message}"
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}\n… {len(message) - LONGEST} more characters"
    message += f"\n\npytest -k {standing.kata.name} --kata-seed {seed}"
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", message)), default=0))
    title = html.escape(f"{standing.kata.name}: {finding.check.title}: {finding.phrase}")
    return "\n".join(
        [
            f"<details><summary>✘ {_line(title)}</summary>",
            "",
            f"{fence}text",
            _CONTROLS.sub("�", message.replace("\r\n", "\n")),
            fence,
            "",
            "</details>",
        ]
    )


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one line, also in a cell of a table."""
    return _PUNCTUATION.sub(r"\\\1", _line(text))


def _line(text: str) -> str:
    return _CONTROLS.sub("�", " ".join(text.split()))
