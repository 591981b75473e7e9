"""What is installed and released: the declared dependencies, the version, the changelog."""

from __future__ import annotations

import ast
import contextlib
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.repositories import ROOT
from tools.write_notebook import colab_address

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
TRACKS = [folder.name for folder in (ROOT / "katas").glob("[0-9]*_*") if folder.is_dir()]
COLAB = colab_address()
BENCHMARKS = ROOT / "tools" / "benchmarks"
RELEASE = runpy.run_path(str(ROOT / ".ci" / "release_notes.py"))
#: Asked for because pytest loads them: their options are in README.md and pyproject.toml.
PLUGINS = {"pytest-timeout", "pytest-xdist"}
#: Asked for because jax imports them for Mosaic GPU, and doesn't declare them.
FOR_JAX = {"absl-py"}
#: What decides verdicts: where one of these changes, a verdict can.
JUDGES = (
    *(f"grader/{room}" for room in ("checks", "exercise", "grading", "plugin", "sandbox")),
    "grader/verdict.py",
    "pallascope",
    "solutions",
)


def imported(folder: Path) -> set[str]:
    """The first name of every import in the files below `folder`, inside functions too."""
    names: set[str] = set()
    for file in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names.update(alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                names.add(node.module.split(".")[0])
    return names


def test_every_import_of_the_grader_is_declared_and_nothing_else_is() -> None:
    declared = {canonicalize_name(Requirement(text).name) for text in PROJECT["dependencies"]}
    distributions = packages_distributions()
    ours = {"grader", "pallascope"}
    foreign = (
        set().union(*(imported(ROOT / name) for name in ours)) - sys.stdlib_module_names - ours
    )
    asked = {canonicalize_name(distributions[name][0]) for name in foreign - {"absl"}}
    assert asked | PLUGINS | FOR_JAX == declared


# ---- the distributions of the fixture ----


def project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def test_the_fixture_and_its_package_have_the_version_of_the_course() -> None:
    alone, fixture = project("pallascope")["project"], project("integrations/pytest")["project"]
    assert {alone["version"], fixture["version"]} == {PROJECT["version"]}
    pin = f"=={PROJECT['version']}"
    assert f"pallascope{pin}" in fixture["dependencies"]
    assert fixture["optional-dependencies"]["tpu"] == [f"pallascope[tpu]{pin}"]


def test_pallascope_alone_asks_for_what_it_imports_in_the_versions_of_the_course() -> None:
    alone = project("pallascope")["project"]
    assert set(alone["dependencies"]) <= set(PROJECT["dependencies"])
    foreign = imported(ROOT / "pallascope") - sys.stdlib_module_names - {"pallascope"}
    asked = {canonicalize_name(Requirement(text).name) for text in alone["dependencies"]}
    assert {canonicalize_name(name) for name in foreign} == asked
    extras, own = PROJECT["optional-dependencies"], alone["optional-dependencies"]
    assert own["tpu"] == extras["tpu"]
    # Only Mosaic GPU needs absl, so it belongs to the extra there.
    assert set(own["gpu"]) - set(extras["gpu"]) == {"absl-py>=2"}


def test_pallascope_alone_has_all_of_its_packages() -> None:
    found = project("pallascope")["tool"]["setuptools"]["packages"]
    files = (ROOT / "pallascope").rglob("__init__.py")
    assert found == sorted(".".join(file.parent.relative_to(ROOT).parts) for file in files)


def test_the_fixtures_distribution_holds_little() -> None:
    """pytest rewrites the assertions of all packages of a distribution with an entry point."""
    settings = project("integrations/pytest")
    assert settings["tool"]["setuptools"]["packages"] == ["pytest_pallas"]
    assert settings["project"]["entry-points"] == {"pytest11": {"pallas": "pytest_pallas"}}
    folder = ROOT / "integrations" / "pytest" / "pytest_pallas"
    assert sorted(file.name for file in folder.glob("*.py")) == ["__init__.py", "strategies.py"]
    declared = {"pytest", "pallascope", "hypothesis", "jax", "numpy"}
    assert imported(folder) - sys.stdlib_module_names == declared


#: Imports the whole grader, and Mosaic GPU, where the modules in sys.argv can't be found.
PLAIN_INSTALL = """
import importlib, pkgutil, sys
from importlib.abc import MetaPathFinder

class Closed(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1:]:
            raise ModuleNotFoundError(f"a plain install has no {name}", name=name)

sys.meta_path.insert(0, Closed())
import grader
for module in pkgutil.walk_packages(grader.__path__, "grader."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
from pallascope.kernels.serialization import make_ready_for_gpus
make_ready_for_gpus()
"""


def installed_with(requirements: list[str]) -> set[str]:
    """The distributions that come with these requirements, without extras, by normalised name."""
    found: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        one = waiting.pop()
        name = canonicalize_name(one.name)
        if name in found or (one.marker and not one.marker.evaluate({"extra": ""})):
            continue
        found.add(name)
        waiting += map(Requirement, requires(name) or ())
    return found


def test_a_plain_install_has_all_that_the_grader_and_jax_import() -> None:
    """For GPUs, too: jax imports what it doesn't declare."""
    plain = installed_with(PROJECT["dependencies"])
    plain.add(PROJECT["name"])
    others = [
        module
        for module, of in packages_distributions().items()
        if not plain.intersection(map(canonicalize_name, of))
    ]
    ran = subprocess.run(
        [sys.executable, "-c", PLAIN_INSTALL, *others],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


def git(*arguments: str) -> str:
    """What git says about this repository; "" where it has no answer."""
    ran = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    return ran.stdout.strip() if ran.returncode == 0 else ""


def test_the_changelog_begins_with_this_version() -> None:
    first = RELEASE["HEADING"].search(CHANGELOG)
    assert first, "CHANGELOG.md: no heading of the form ## [1.2.3] - 2030-01-31"
    assert first["version"] == PROJECT["version"]


def test_what_judges_has_changed_since_the_last_release_only_with_the_version() -> None:
    """The ledger stores the version with each pass: one version, one way to judge."""
    tag = git("describe", "--tags", "--abbrev=0", "--match", "v*")
    if tag != f"v{PROJECT['version']}":
        return  # nothing is released yet, or the version has been raised since
    changed = git("diff", "--name-only", tag, "--", *JUDGES)
    assert not changed, f"raise the version in pyproject.toml, changed since {tag}:\n{changed}"


def test_what_judges_is_there() -> None:
    assert all((ROOT / name).exists() for name in JUDGES)


# ---- what a release says of itself ----

NOTES = RELEASE["notes"]
TWO = "# Changelog\n\n## [0.3.0] - 2030-01-31\n\n- new\n\n## [0.2.0] - 2029-01-31\n\n- old\n"


@pytest.mark.parametrize(("version", "said"), [("0.3.0", "- new\n"), ("0.2.0", "- old\n")])
def test_a_release_says_what_its_section_says(version: str, said: str) -> None:
    assert NOTES(f"v{version}", f'[project]\nversion = "{version}"', TWO) == said


@pytest.mark.parametrize(
    ("tag", "changelog", "said"),
    [
        ("v0.2.0", TWO, "the tag is v0.2.0, but pyproject.toml says 0.3.0"),
        ("0.3.0", TWO, "the tag is 0.3.0, but"),
        ("v0.3.0", TWO.replace("2030-01-31", "Unreleased"), "'Unreleased': needs YYYY-MM-DD"),
        ("v0.3.0", "# Changelog\n", "no section ## \\[0.3.0\\]"),
    ],
)
def test_a_release_is_refused(tag: str, changelog: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        NOTES(tag, '[project]\nversion = "0.3.0"', changelog)


# ---- the repository's address ----

ADDRESS = PROJECT["urls"]["Repository"]
OWNER, NAME = ADDRESS.removeprefix("https://github.com/").split("/")
#: Sites that show a repository by its owner and name, and the owner in an address there.
SHOWN_BY = re.compile(
    r"(?:github\.com|githubusercontent\.com|colab\.research\.google\.com/github|codespaces\.new)"
    rf"/([^/\s]+)/{re.escape(NAME)}\b"
)


def tracked_texts() -> Iterator[tuple[str, str]]:
    """The name and text of every tracked file that is text."""
    for name in git("ls-files").splitlines():
        file = ROOT / name
        if file.is_file():
            with contextlib.suppress(UnicodeDecodeError):
                yield name, file.read_text(encoding="utf-8")


def test_every_address_of_the_repository_is_that_of_the_project() -> None:
    """To move the repository, change pyproject.toml, and the files that this test names."""
    found = {name: set(SHOWN_BY.findall(text)) for name, text in tracked_texts()}
    assert {name: owners for name, owners in found.items() if owners - {OWNER}} == {}
    assert {"README.md", "SECURITY.md", "docs/colab.ipynb"} <= {
        n for n, own in found.items() if own
    }


def test_no_address_has_a_placeholder() -> None:
    placeholder = re.compile(rf"\b(?:OWNER|ORGANI[SZ]ATION|USER)/{re.escape(NAME)}\b")
    assert [name for name, text in tracked_texts() if placeholder.search(text)] == []


@pytest.mark.parametrize(
    "page",
    ["README.md", "docs/editors.md", *sorted(f"katas/{track}/README.md" for track in TRACKS)],
)
def test_a_page_has_a_badge_that_opens_the_notebook(page: str) -> None:
    badge = f"[![Open in Colab](https://colab.research.google.com/assets/colab-badge.svg)]({COLAB})"
    assert badge in (ROOT / page).read_text(encoding="utf-8")


def test_the_readme_opens_a_codespace() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"](https://codespaces.new/{OWNER}/{NAME})" in text


def test_no_record_of_anybody_is_shipped() -> None:
    """Whoever clones the repository begins with nothing solved."""
    tracked = git("ls-files", "--", "katas", ".kata").split()
    assert not [file for file in tracked if file == "katas/ledger.txt" or file.startswith(".kata")]


@pytest.mark.parametrize("script", sorted(BENCHMARKS.glob("*.py")), ids=lambda script: script.stem)
def test_a_benchmark_says_how_it_is_started(script: Path) -> None:
    """One that imports from tests/ or tools/ is a module of the root; docs/testing.md names all."""
    text = script.read_text(encoding="utf-8")
    of_root = re.search(r"^(from|import) (tests|tools)\b", text, re.MULTILINE)
    how = (
        f"python -m tools.benchmarks.{script.stem}"
        if of_root
        else f"python {script.relative_to(ROOT)}"
    )
    assert f"    {how}" in (ast.get_docstring(ast.parse(text), clean=False) or "")
    assert f"`{script.name}`" in (ROOT / "docs/testing.md").read_text(encoding="utf-8")
