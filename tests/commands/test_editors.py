"""What comes along for editors: tasks that name real commands, a notebook that holds the stub."""

from __future__ import annotations

import json
from typing import Any

import pytest

from grader.cli import main
from grader.exercise.catalog import katas
from tests.support.repositories import ROOT
from tools import write_notebook


def parsed(file: str) -> Any:
    return json.loads((ROOT / file).read_text(encoding="utf-8"))


TASKS = {task["label"]: task for task in parsed(".vscode/tasks.json")["tasks"]}


@pytest.mark.parametrize("label", TASKS, ids=map(str, range(len(TASKS))))
def test_a_task_runs_something_that_there_is(
    label: str, capsys: pytest.CaptureFixture[str]
) -> None:
    flag, module, *arguments = TASKS[label]["args"]
    assert flag == "-m"
    if module == "pytest":
        assert arguments == ["-q", "${relativeFile}"]
        return
    assert module == "grader.cli"
    with pytest.raises(SystemExit) as ended:
        main([arguments[0], "--help"])
    assert ended.value.code == 0
    assert f"kata {arguments[0]}" in capsys.readouterr().out


def test_the_settings_look_for_tests_among_the_exercises() -> None:
    settings = parsed(".vscode/settings.json")
    assert settings["python.testing.pytestEnabled"]
    (folder,) = settings["python.testing.pytestArgs"]
    assert (ROOT / folder).is_dir()


def test_container_and_settings_recommend_the_same_extensions() -> None:
    container = parsed(".devcontainer/devcontainer.json")["customizations"]["vscode"]
    assert container["extensions"] == parsed(".vscode/extensions.json")["recommendations"]


def test_the_notebook_is_as_it_would_be_written() -> None:
    assert write_notebook.main(check=True) == 0


def test_the_notebook_holds_the_first_stub_as_a_cell() -> None:
    first = katas(ROOT)[0]
    cells = ["".join(cell["source"]) for cell in parsed("docs/colab.ipynb")["cells"]]
    file = first.path.relative_to(ROOT).as_posix()
    assert f"%%writefile {file}\n{first.stub_text()}".rstrip("\n") in cells


def test_a_notebook_that_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_notebook, "SETUP_TEXT", "another text")
    assert write_notebook.main(check=True) == 1
    assert "docs/colab.ipynb differs: python tools/write_notebook.py" in capsys.readouterr().out
