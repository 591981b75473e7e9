"""Versions of jax that are tested, and what is said of others."""

from __future__ import annotations

import subprocess
import sys
import tomllib

import pytest
from packaging.requirements import Requirement

from pallascope.tools.versions import TESTED_JAX, untested_jax
from tests.support.repositories import ROOT

OLDEST, TOO_NEW = TESTED_JAX
SAID = "isn't one of the versions that the katas are tested with: grading goes on"
#: A package that is imported before all others, in whose view another jax is installed.
OTHER = "import pallascope.tools.versions as v; v._installed_version = lambda name: '0.13.1'"


@pytest.mark.parametrize(
    ("installed", "tested"),
    [
        ("0.9.2", False),
        ("0.10.1", False),
        ("0.10.2", True),
        ("0.10.2.dev20260701", True),
        ("0.12.0.1", True),
        ("0.12.9+local", True),
        ("0.13.0rc1", False),
        ("0.13.0.dev20261123", False),
        ("0.13", False),
        ("1.0", False),
        (None, True),
    ],
)
def test_a_jax_outside_of_the_range_is_named(
    monkeypatch: pytest.MonkeyPatch, installed: str | None, tested: bool
) -> None:
    monkeypatch.setattr("pallascope.tools.versions._installed_version", {"jax": installed}.get)
    said = untested_jax()
    assert (not said) == tested
    assert tested or (f"jax {installed} {SAID}" in said and "\n" not in said)


def test_the_package_asks_for_the_tested_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [text for extra in project["optional-dependencies"].values() for text in extra]
    asked = [Requirement(text) for text in (*project["dependencies"], *extras)]
    ranges = {str(one.specifier) for one in asked if one.name == "jax"}
    assert ranges == {f"<{TOO_NEW},>={OLDEST}"}


def test_the_installed_jax_is_tested() -> None:
    assert untested_jax() == ""


@pytest.mark.parametrize(
    ("run", "arguments"),
    [
        ("from grader.cli import main; main", ["list"]),
        ("from pallascope.tpu.__main__ import main; main", ["nothing", "--case", "f32[8]"]),
        ("from pallascope.gpu.__main__ import main; main", ["nothing", "--case", "f32[8]"]),
        ("import pytest; pytest.main", ["--collect-only", "-k", "constant_add"]),
    ],
    ids=["commands", "pallascope.tpu", "pallascope.gpu", "pytest"],
)
def test_one_sentence_is_printed(run: str, arguments: list[str]) -> None:
    code = f"{OTHER}; {run}({arguments})"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (ran.stdout + ran.stderr).count(f"jax 0.13.1 {SAID}") == 1
