"""The map as GitHub's Markdown, for a job's summary: the file of --kata-summary."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader.model import MOST_STARS, Finding, Grade, State
from grader.report.session_map import sign_of, without_stars
from grader.report.standings import SessionStandings, Standing, TrackStandings, unasked
from grader.tools.files import in_words

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
    failed = [standing for standing in standings.all if standing.state is State.FAILED]
    parts = [_total(standings, seed)]
    parts += [_table(track, address) for track in standings.tracks]
    for standing in failed:
        if finding := findings.get((standing.kata.id, standing.case)):
            parts.append(_details(standing, finding, seed))
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
    stars = sum(standing.stars for standing in every)
    lines = [
        f"## Katas: {sum(s.solved for s in every)} of {len(every)} solved",
        "",
        f"{stars} of {MOST_STARS * len(every)} stars; {counts[State.FAILED]} failed, "
        f"{counts[State.TODO]} todo. Hidden cases drawn with `--kata-seed {seed}`.",
    ]
    for reason, of in unasked(standings).items():
        told = f"{reason.check.title} ({escaped(reason.why)})"
        lines += ["", f"Not judged: {told}. No star from there on."]
        if not_solved := without_stars(of):
            lines += ["", f"{escaped(not_solved.capitalize())}."]
    for note in (note for standing in every for note in standing.notes):
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
    stars = "★" * standing.stars + "☆" * (MOST_STARS - standing.stars)
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
