"""What comes along for editors: tasks that name real commands, a notebook that holds the stub."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from grader.cli import main
from grader.exercise.catalog import SOLUTIONS, katas
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


NOTEBOOK = parsed("docs/colab.ipynb")["cells"]


def test_the_notebook_repairs_the_first_exercise() -> None:
    """Its cells write the stub with a wrong body, and change that to the solution's."""
    first = katas(ROOT, SOLUTIONS)[0]
    cells = ["".join(cell["source"]) for cell in NOTEBOOK]
    file = first.path.relative_to(ROOT).as_posix()
    (wrong,) = (cell for cell in cells if cell.startswith(f"%%writefile {file}\n"))
    (repair,) = (cell for cell in cells if "text.replace(" in cell)
    assert repr(write_notebook.WRONG).replace("'", '"') in repair
    _, _, text = wrong.partition("\n")
    assert text.count(write_notebook.WRONG) == 1
    assert "raise NotImplementedError" not in text
    right = text.replace(write_notebook.WRONG, write_notebook.RIGHT)
    assert right == first.solution.read_text(encoding="utf-8").rstrip("\n")


def test_ci_knows_what_each_tag_in_the_notebook_asks_for() -> None:
    tags = [tag for cell in NOTEBOOK for tag in cell["metadata"].get("tags", ())]
    assert sorted(tags) == sorted(write_notebook.Tag)
    runner = (ROOT / ".ci/run_notebook.py").read_text(encoding="utf-8")
    assert set(re.findall(r'"(expect-[\w-]+)": \(', runner)) == set(tags)


def test_the_notebook_needs_colab_nowhere() -> None:
    """Each import of google.colab has another way if there is none."""
    for cell in NOTEBOOK:
        source = "".join(cell["source"])
        assert source.count("from google.colab") == source.count("except ImportError")


def test_a_notebook_that_differs_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(write_notebook, "SETUP_TEXT", "another text")
    assert write_notebook.main(check=True) == 1
    assert "docs/colab.ipynb differs: python tools/write_notebook.py" in capsys.readouterr().out
