"""The pages name commands, options, keys, chips, files and sections that exist."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import cli
from grader.plugin import start
from grader.watching.watch_screen import KEYS
from pallascope.tpu import __main__ as predicting
from pallascope.tpu.chips import CHIPS
from tests.support.repositories import ROOT

DOCS = ROOT / "docs"
COMMANDS = (DOCS / "commands.md").read_text(encoding="utf-8")
OWN_KERNELS = (DOCS / "your-own-kernels.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md"), *(ROOT / "katas").rglob("*.md")])
#: Pages for those who change the course or the grader. The others are for those who use them.
FOR_CONTRIBUTORS = {
    ROOT / "CONTRIBUTING.md",
    *(DOCS / f"{name}.md" for name in ("authoring", "checks", "releasing", "testing")),
}
FENCED = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
CODE = re.compile(r"`([^`]+)`")

each_page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix().replace("kata", "exercise")
)


def code(text: str) -> list[str]:
    """What a page sets as code: the words between backticks, and the lines of fenced blocks."""
    blocks = [line for block in FENCED.findall(text) for line in block.splitlines()[1:-1]]
    return blocks + CODE.findall(FENCED.sub("", text))


def option_names(parser: argparse.ArgumentParser) -> set[str]:
    """Every long option of a parser and of its subcommands, without --help."""
    names = {name for action in parser._actions for name in action.option_strings}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            names.update(*map(option_names, action.choices.values()))
    return {name for name in names if name.startswith("--")} - {"--help"}


def mentioned(text: str) -> set[str]:
    """The long options that a text has in code."""
    return {name for words in code(text) for name in re.findall(r"--[a-z][a-z-]*", words)}


# ---- commands, options, keys ----


def options_of(command: str) -> set[str]:
    """The long options of a `kata` command."""
    parser = argparse.ArgumentParser()
    arguments, _ = cli.command_functions(command)
    arguments(parser)
    return option_names(parser)


def named(section: str) -> set[str]:
    """The `kata` commands that a section has in code."""
    commands = (re.match(r"kata (\w+)", words) for words in code(section))
    return {command[1] for command in commands if command} & set(cli.COMMANDS)


SECTIONS = re.split(r"^## ", COMMANDS, flags=re.MULTILINE)
KATA_SECTIONS = [section for section in SECTIONS if named(section)]


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_is_listed_with_its_options(name: str) -> None:
    sections = [section for section in SECTIONS if name in named(section)]
    assert sections, f"docs/commands.md has no `kata {name}`"
    missing = options_of(name) - mentioned("".join(sections))
    assert not missing, f"docs/commands.md: kata {name} has {missing}"


@pytest.mark.parametrize(
    "section",
    KATA_SECTIONS,
    ids=lambda section: section.partition("\n")[0].replace("kata", "exercise"),
)
def test_no_option_is_listed_that_there_is_not(section: str) -> None:
    taken = {option for command in named(section) for option in options_of(command)}
    assert mentioned(section) <= taken | option_names(cli.parser_for([])) | {"--help"}


def test_the_options_before_any_command_are_listed() -> None:
    assert option_names(cli.parser_for([])) <= mentioned(COMMANDS)


class Group:
    """Stands for pytest's parser and its group of options; keeps their names."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def getgroup(self, name: str, description: str) -> Group:
        return self

    def addoption(self, name: str, **_: object) -> None:
        self.names.add(name)


def test_every_option_of_pytest_is_listed_and_no_other() -> None:
    group = Group()
    start.pytest_addoption(group)  # type: ignore[arg-type]
    assert group.names
    (section,) = re.findall(r"^## pytest: .*?(?=^## )", COMMANDS, re.DOTALL | re.MULTILINE)
    for text in (section, COMMANDS):
        assert {name for name in mentioned(text) if name.startswith("--kata-")} == group.names


def test_every_option_for_kernels_of_ones_own_is_listed() -> None:
    wanted = option_names(predicting._parser())
    assert wanted
    assert wanted <= mentioned(OWN_KERNELS)


@pytest.mark.parametrize("text", [COMMANDS, OWN_KERNELS], ids=["commands", "own kernels"])
def test_every_chip_is_listed(text: str) -> None:
    assert set(CHIPS) <= set(code(text))


@pytest.mark.parametrize("name", ["slurm.sh", "kubernetes.yaml"])
def test_a_script_for_a_batch_system_grades_with_options_that_there_are(name: str) -> None:
    script = (
        (DOCS / "scale" / name).read_text().partition("kata grade ")[2].partition("resources")[0]
    )
    assert {"--shard", "--out"} <= set(re.findall(r"--[a-z-]+", script)) <= options_of("grade")
    assert f"(scale/{name})" in (DOCS / "scale.md").read_text(encoding="utf-8")


def test_the_image_gets_the_files_that_its_dockerfile_copies() -> None:
    lines = (DOCS / "scale/Dockerfile").read_text().splitlines()
    copied = {file for line in lines if line.startswith("COPY") for file in line.split()[1:-1]}
    sent = (DOCS / "scale/Dockerfile.dockerignore").read_text().split()
    assert {f"!{file}" for file in copied} <= set(sent)


def test_every_key_of_the_watch_is_listed() -> None:
    day = (DOCS / "your-day.md").read_text(encoding="utf-8")
    keys = re.findall(r"^\| `(\w)` \|", day, re.MULTILINE)
    assert set(KEYS) <= set(keys)


@each_page
def test_a_page_names_no_command_that_there_is_not(page: Path) -> None:
    named = [
        command[1]
        for words in code(page.read_text(encoding="utf-8"))
        if (command := re.match(r"kata ([a-z]\w*)", words))
    ]
    assert set(named) <= set(cli.COMMANDS), page


# ---- links ----


def links(text: str) -> Iterator[str]:
    """Where a page's links and pictures lead."""
    text = CODE.sub("", FENCED.sub("", text))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'(?:src|srcset|href)="([^"]+)"', text)


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", text), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.replace(" ", "-") for heading in plain}


@each_page
def test_a_link_leads_somewhere(page: Path) -> None:
    for link in links(page.read_text(encoding="utf-8")):
        if re.match(r"\w+:", link):  # another site's
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{page}: {link}"
        assert target.exists(), f"{page}: no {link}"
        if anchor:
            assert anchor in anchors(target.read_text(encoding="utf-8")), f"{page}: no {link}"


def test_anchors_are_those_of_github() -> None:
    text = "# The `--a` of it, 2\n```sh\n# no heading\n```\n## Über: x_y\n"
    assert anchors(text) == {"the---a-of-it-2", "über-x_y"}


def test_learners_pages_lead_to_no_page_for_contributors() -> None:
    """Except from README's section on contributing, and from the commands for authors."""
    found = set()
    for page in set(PAGES) - FOR_CONTRIBUTORS:
        for link in links(page.read_text(encoding="utf-8")):
            target = (page.parent / link.partition("#")[0]).resolve()
            if target in FOR_CONTRIBUTORS:
                found.add(tuple(file.relative_to(ROOT).as_posix() for file in (page, target)))
    assert found == {("README.md", "CONTRIBUTING.md"), ("docs/commands.md", "docs/authoring.md")}
