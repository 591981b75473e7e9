"""A pytest of another environment is told so, in place of what its imports would raise."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from grader.plugin import dependencies
from tests.support.repositories import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT_JAX = """
import importlib.util, sys
find_spec = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name == "jax" else find_spec(name)
import pytest
sys.exit(pytest.main(["-p", "no:cacheprovider", "--disable-plugin-autoload"]))
"""

ELSEWHERE = """
import sys

def test_elsewhere():
    packages = {name.partition(".")[0] for name in sys.modules}
    assert not packages & {"grader", "pallascope"}
"""


@pytest.fixture
def no_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "rich" else find_spec(name)
    )


def test_what_is_asked_for_is_what_the_project_declares() -> None:
    declared = {Requirement(text).name for text in PROJECT["dependencies"]}
    assert set(dependencies.REQUIRED_MODULES) <= declared
    assert PROJECT["requires-python"] == ">={}.{}".format(*dependencies.MIN_PYTHON)


def test_nothing_is_said_where_everything_is_there() -> None:
    dependencies.require()


def test_an_environment_that_was_not_activated_is_named(no_rich: None, tmp_path: Path) -> None:
    (tmp_path / ".venv").mkdir()
    with pytest.raises(pytest.UsageError) as raised:
        dependencies.require(tmp_path)
    said = str(raised.value)
    assert f"{sys.executable}, lacks packages that grading needs: rich.\n" in said
    assert "source .venv/bin/activate" in said


def test_where_none_was_made_the_command_is_that_of_the_readme(
    no_rich: None, tmp_path: Path
) -> None:
    with pytest.raises(pytest.UsageError) as raised:
        dependencies.require(tmp_path)
    command = str(raised.value).splitlines()[-1].strip()
    assert f"\n{command} && .venv/bin/pytest -k" in (ROOT / "README.md").read_text()


def test_an_old_python_is_told_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    with pytest.raises(pytest.UsageError, match=r"is Python 3\.10, and grading needs 3\.11"):
        dependencies.require(tmp_path)


def test_a_run_of_pytest_elsewhere_imports_nothing_of_the_grader(tmp_path: Path) -> None:
    """The plugin has no entry point: conftest.py loads it."""
    (tmp_path / "test_elsewhere.py").write_text(ELSEWHERE)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name != "PYTEST_ADDOPTS"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.OK, ran.stdout + ran.stderr


def test_pytest_ends_with_that_alone(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text((ROOT / "conftest.py").read_text())
    ran = subprocess.run(
        [sys.executable, "-c", WITHOUT_JAX],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR, ran.stdout + ran.stderr
    said = ran.stdout + ran.stderr
    assert "lacks packages that grading needs: jax.\n" in said
    assert "Traceback" not in said
    assert len(said.strip().splitlines()) <= 3
