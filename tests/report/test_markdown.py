"""The map as Markdown, the option that writes it, and the workflow that shows it."""

from __future__ import annotations

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from grader.exercise.catalog import Kata
from grader.report import report_files
from grader.report.session_standings import SessionStandings, standings
from grader.verdict import Grade, State
from pallascope.model import Check, Finding, NotJudged
from tests.support.repositories import ROOT, Repository

ACTIONS = {
    "GITHUB_SERVER_URL": "https://example.org",
    "GITHUB_REPOSITORY": "me/katas",
    "GITHUB_SHA": "c0ffee",
}
SOLVED, WRONG, WAITING, LAST = (
    Kata(Path("/nowhere"), track, f"kata_{number:02}_{name}")
    for track, number, name in (
        ("1_first", 1, "double"),
        ("1_first", 2, "row_sum"),
        ("1_first", 3, "row_max"),
        ("2_second", 1, "softmax"),
    )
)
SLOW = Finding(Check.COST, "2.0× par's time", "It is slow.")


def grades(phrase: str = "off by one", message: str = "Look at the grid.") -> list[Grade]:
    wrong = Finding(Check.VALUES, phrase, message)
    return [
        Grade(SOLVED.id, 0, State.PASSED, 3),
        Grade(SOLVED.id, 1, State.PASSED, 2, SLOW),
        Grade(WRONG.id, 0, State.PASSED, 3),
        Grade(WRONG.id, 1, State.FAILED, 0, wrong),
        Grade(WAITING.id, 0, State.TODO, 0),
    ]


def standings_of(given: list[Grade]) -> SessionStandings:
    return standings((SOLVED, WRONG, WAITING, LAST), given)


def shown(given: list[Grade], address: str = "") -> str:
    return report_files.markdown_summary(standings_of(given), given, 7, address)


def test_totals_then_tables_then_what_failed_then_what_is_next() -> None:
    assert (
        shown(grades())
        == """
## Katas: 1 of 3 solved

2 of 9 stars; 1 failed, 1 todo. Hidden cases drawn with `--kata-seed 7`.

### 1\\_first: 1 of 3 solved

| | kata | stars | why not more |
|---|---|---|---|
| ✔ | 01 double | ★★☆ | cost\\: 2.0× par's time |
| ✘ | 02 row\\_sum | ☆☆☆ | values\\: off by one |
| · | 03 row\\_max | ☆☆☆ | todo |

<details><summary>✘ row_sum: values: off by one</summary>

```text
off by one
Look at the grid.

pytest -k row_sum --kata-seed 7
```

</details>

Fix: 02 row\\_sum, `pytest -k row_sum`
"""
    )


def test_a_name_links_to_the_line_in_the_commit_that_was_graded() -> None:
    address = report_files.github_files_url(ACTIONS)
    line = (
        "[01 double](https://example.org/me/katas/blob/c0ffee/katas/1_first/kata_01_double.py#L1)"
    )
    assert line in shown(grades(), address)
    assert "Fix: [02 row\\_sum](https://" in shown(grades(), address)


@pytest.mark.parametrize("missing", ACTIONS)
def test_outside_of_a_workflow_there_are_no_links(missing: str) -> None:
    assert not report_files.github_files_url({**ACTIONS, missing: ""})
    assert not report_files.github_files_url(
        {name: ACTIONS[name] for name in ACTIONS if name != missing}
    )


SAID = "a | b `c` <d> *e* [f](g)\n_h_ \x1b[31m ~i~ \\| #1 @me"


def test_what_was_said_breaks_no_table() -> None:
    (row,) = (line for line in shown(grades(SAID)).splitlines() if line.startswith("| ✘"))
    assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", row)) == 5
    cell = row[row.index("values") :].removesuffix(" |")
    plain = re.sub(r"\\([!-/:-@\[-`{-~])", r"\1", cell)
    assert plain == "values: " + " ".join(SAID.split()).replace("\x1b", "�")
    assert not re.search(r"(?<!\\)[`*_<\[@#~]", cell.replace("\\\\", ""))


def test_what_was_said_ends_no_block() -> None:
    message = "look:\n```\n````text\n</details>\n\x1b[31mred\x00"
    text = shown(grades("<b>", message))
    assert "<summary>✘ row_sum: values: &lt;b&gt;</summary>" in text
    inside = text.partition("`````text\n")[2].partition("\n`````\n")[0]
    assert inside.startswith("<b>\nlook:\n```\n````text\n</details>\n�[31mred�\n")
    assert html.unescape(text).count("`````") == 2


def test_a_long_message_is_cut() -> None:
    """GitHub shows nothing of a summary that is longer than it likes."""
    text = shown(grades(message="x" * 100_000))
    assert len(text) < 10_000
    assert "more characters" in text


def test_a_phrase_is_not_said_twice() -> None:
    assert shown(grades("Look at", "Look at the grid.")).count("Look at") == 3


def test_what_was_not_judged_is_said_once() -> None:
    unasked = NotJudged(Check.COMPILES, "no [tpu]")
    given = [Grade(SOLVED.id, case, State.PASSED, 1, not_judged=unasked) for case in range(2)]
    assert shown(given).count("Not judged: ") == 1
    assert "Not judged: compiles (no \\[tpu\\]). No star from there on." in shown(given)
    assert "Fix" not in shown(given)


def test_nothing_graded_is_said() -> None:
    assert shown([]) == "\n## Katas\n\nNone was graded.\n"


def test_it_is_appended_in_a_folder_that_is_made(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "summary.md"
    said = [
        report_files.append_summary(file, standings_of(grades("\ud800")), grades("\ud800"), 7, {})
        for _ in "ab"
    ]
    assert said == ["", ""]
    assert file.read_text().count("## Katas: 1 of 3 solved") == 2


def test_what_cannot_be_written_is_a_line(tmp_path: Path) -> None:
    said = report_files.append_summary(tmp_path, standings_of(grades()), grades(), 7, {})
    assert said.startswith("katas: no summary was written: ")
    assert str(tmp_path) in said


# ---- the option, and the workflow ----


def test_a_summary_that_cannot_be_written_costs_no_result(repository: Repository) -> None:
    repository.add("stub")
    done = repository.pytest("--kata-summary", str(repository.root), "--kata-require", "stub")
    assert done.code == 1
    assert "katas: no summary was written: " in done.out
    assert "0/1 solved" in done.out


@pytest.fixture
def workflow() -> str:
    return (ROOT / ".github" / "workflows" / "katas.yml").read_text()


def step(workflow: str) -> str:
    """The workflow's one line that grades."""
    (line,) = re.findall(r"^ +- run: (pytest .*)$", workflow, re.MULTILINE)
    return line


def in_bash(script: str, folder: Path, require: str) -> subprocess.CompletedProcess[str]:
    """Run the step as a workflow does, its summary in `folder`."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environ = {
        "PATH": path,
        "CI": "true",
        "PYTEST_ADDOPTS": "-p grader.plugin",
        "KATA_REQUIRE": require,
    }
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env={**os.environ, **environ, "GITHUB_STEP_SUMMARY": str(folder / "summary.md")},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("require", ["", "basics", "basics or constant_add"])
def test_the_workflow_requires_what_the_variable_says(
    tmp_path: Path, workflow: str, require: str
) -> None:
    script = f'pytest() {{ printf "%s\\n" "$@"; }}; {step(workflow)}'
    arguments = in_bash(script, tmp_path, require).stdout.splitlines()
    asked = ["-k", "kata", "-n", "auto", "--kata-summary", str(tmp_path / "summary.md")]
    assert arguments == asked + (["--kata-require", require] if require else [])


def test_the_workflow_fails_for_what_is_broken_or_required(
    repository: Repository, workflow: str
) -> None:
    repository.add("stub")
    repository.add("other", number=2)
    repository.add("broken", number=3).key_path.write_text('title = "x"')  # needs no jax
    assert in_bash(step(workflow), repository.root, "stub or nothing").returncode == 1
    text = (repository.root / "summary.md").read_text()
    assert "2 failed, 1 todo" in text
    assert "✘ stub: runs: still to do" in text
    assert "This kata is broken" in text


def test_the_workflow_may_only_read_and_is_given_the_variable(workflow: str) -> None:
    assert "permissions:\n  contents: read\n" in workflow
    assert "KATA_REQUIRE: ${{ vars.KATA_REQUIRE }}" in workflow
    assert "secrets" not in workflow
    assert "${{" not in step(workflow)


def test_a_note_is_shown_once_for_each_exercise() -> None:
    given = [Grade(SOLVED.id, case, State.PASSED, 3, notes=("it is ignored",)) for case in range(2)]
    assert shown(given).count("Note: it is ignored") == 1
