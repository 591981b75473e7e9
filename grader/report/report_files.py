"""Writes a session's files: --kata-json, JUnit properties, --kata-summary (Markdown).

docs/json-schema.md documents the JSON and the properties. An incompatible change of the JSON raises
SCHEMA_VERSION.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from grader.report.maps import not_solved_message, sign_of
from grader.report.session_standings import (
    SessionStandings,
    Standing,
    TrackStandings,
    not_judged_reasons,
)
from grader.verdict import MAX_STARS, Conditions, Grade, State
from pallascope.model import Finding
from pallascope.tools import codec
from pallascope.tools.files import describe_os_error
from pallascope.tools.versions import versions

SCHEMA_VERSION = 3


def json_document(grades: Sequence[Grade], conditions: Conditions) -> dict[str, Any]:
    """The content of --kata-json as builtins. Grades are sorted by kata and case."""
    ordered = sorted(grades, key=lambda grade: (grade.kata, grade.case))
    return {
        "schema": SCHEMA_VERSION,
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
    """Write the document, and its folder if there is none."""
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(json_document(grades, conditions), indent=2, ensure_ascii=False)
    file.write_text(text + "\n", encoding="utf-8", errors="backslashreplace")


def properties(grade: Grade) -> list[tuple[str, str]]:
    """One grade as properties of its test case in JUnit XML."""
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


MAX_FINDING = 6000  # characters of one finding; GitHub shows no summary of more than 1 MiB

_PUNCTUATION = re.compile(r"([\\`*_{}\[\]()#+!|~$@:<>&-])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def append_summary(
    file: Path,
    standings: SessionStandings,
    grades: Iterable[Grade],
    seed: int,
    environ: Mapping[str, str],
) -> str:
    """Append the map to a file. Returns an error message of one line, or ""."""
    text = markdown_summary(standings, grades, seed, github_files_url(environ))
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as stream:
            stream.write(text)
    except OSError as error:
        return f"katas: no summary was written: {describe_os_error(error)}"
    return ""


def github_files_url(environ: Mapping[str, str]) -> str:
    """The URL of this commit's files on GitHub; "" outside of GitHub's workflows."""
    names = ("GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA")
    server, repository, commit = (environ.get(name, "") for name in names)
    return f"{server}/{repository}/blob/{commit}" if server and repository and commit else ""


def markdown_summary(
    session: SessionStandings, grades: Iterable[Grade], seed: int, address: str = ""
) -> str:
    """The total, a table for each track, and the finding of each failed kata, folded.

    If there is an `address`, names link to the files below it. `seed` is the session's seed.
    """
    findings = {(grade.kata, grade.case): grade.finding for grade in grades if grade.finding}
    failed = [standing for standing in session.all if standing.state is State.FAILED]
    parts = [_total(session, seed)]
    parts += [_table(track, address) for track in session.tracks]
    for standing in failed:
        if finding := findings.get((standing.kata.id, standing.case)):
            parts.append(_details(standing, finding, seed))
    if next_standing := session.next:
        verb = "Fix" if next_standing.state is State.FAILED else "Next"
        command = f"`pytest -k {next_standing.kata.name}`"
        parts.append(f"{verb}: {_link(next_standing, address)}, {command}")
    return "\n" + "\n\n".join(parts) + "\n"


def _total(standings: SessionStandings, seed: int) -> str:
    all_standings = standings.all
    if not all_standings:
        return "## Katas\n\nNone was graded."
    counts = {state: sum(s.state is state for s in all_standings) for state in State}
    stars = sum(standing.stars for standing in all_standings)
    lines = [
        f"## Katas: {sum(s.solved for s in all_standings)} of {len(all_standings)} solved",
        "",
        f"{stars} of {MAX_STARS * len(all_standings)} stars; {counts[State.FAILED]} failed, "
        f"{counts[State.TODO]} todo. Hidden cases drawn with `--kata-seed {seed}`.",
    ]
    for reason, affected in not_judged_reasons(standings).items():
        description = f"{reason.check.title} ({markdown_escaped(reason.why)})"
        lines += ["", f"Not judged: {description}. No star from there on."]
        if not_solved := not_solved_message(affected):
            lines += ["", f"{markdown_escaped(not_solved.capitalize())}."]
    for note in (note for standing in all_standings for note in standing.notes):
        lines += ["", f"Note: {markdown_escaped(note)}"]
    return "\n".join(lines)


def _table(track: TrackStandings, address: str) -> str:
    not_run = f", {track.not_run} not run" if track.not_run else ""
    return "\n".join(
        [
            f"### {markdown_escaped(track.name)}: {track.solved} of "
            f"{len(track.standings)} solved{not_run}",
            "",
            "| | kata | stars | why not more |",
            "|---|---|---|---|",
            *(_row(standing, address) for standing in track.standings),
        ]
    )


def _row(standing: Standing, address: str) -> str:
    stars = "★" * standing.stars + "☆" * (MAX_STARS - standing.stars)
    sign, _ = sign_of(standing)
    cells = (sign, _link(standing, address), stars, markdown_escaped(standing.phrase))
    return f"| {' | '.join(cells)} |"


def _link(standing: Standing, address: str) -> str:
    name = f"{standing.kata.number} {markdown_escaped(standing.kata.name)}"
    file, line = standing.kata.location()
    return f"[{name}]({address}/{file}#L{line})" if address else name


def _details(standing: Standing, finding: Finding, seed: int) -> str:
    """A finding in a fenced block with a longer fence than any backticks in the finding."""
    message = finding.message
    if not message.startswith(finding.phrase):
        message = f"{finding.phrase}\n{message}"
    if len(message) > MAX_FINDING:
        message = f"{message[:MAX_FINDING]}\n… {len(message) - MAX_FINDING} more characters"
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


def markdown_escaped(text: str) -> str:
    """One line that Markdown shows unchanged, also in a table's cell."""
    return _PUNCTUATION.sub(r"\\\1", _line(text))


def _line(text: str) -> str:
    return _CONTROLS.sub("�", " ".join(text.split()))
