"""docs/errors.md explains each message, and a report leads to its entry."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator

import pytest

from grader.exercise.catalog import SOLUTIONS, katas
from grader.report import failures
from grader.report.failures import EXPLAINED, PAGE, anchor_of, section_of
from grader.tools.git import git_in
from pallascope.model import Check, Finding, NotJudged
from pallascope.tools.versions import site_address
from tests.commands.test_docs import anchors
from tests.support.repositories import ROOT, Repository

TEXT = (ROOT / "docs/errors.md").read_text(encoding="utf-8")
SITE = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Documentation"]
EVERY = katas(ROOT, SOLUTIONS)
BY_NAME = {exercise.name: exercise for exercise in EVERY}
#: By heading: the rest of its entry.
ENTRIES = {
    heading: body.partition("\n## ")[0].strip()
    for heading, body in re.findall(r"^### (.+)\n((?:(?!### ).*\n)*)", TEXT, re.MULTILINE)
}


def anchor(heading: str) -> str:
    (found,) = anchors(f"# {heading}")
    return found


def quotes(body: str) -> list[str]:
    """The messages that an entry is about: its first paragraph."""
    return re.findall(r"`([^`]+)`", body.partition("\n\n")[0])


# ---- the page and the table ----


def test_the_table_leads_to_every_entry_and_to_nothing_else() -> None:
    led_to = {anchor for rows in EXPLAINED.values() for _, anchor in rows}
    assert led_to == set(map(anchor, ENTRIES))
    headings = re.findall(r"^#+ (.+)$", TEXT, re.MULTILINE)
    assert len(set(map(anchor, headings))) == len(headings)


def test_each_check_has_a_section_in_the_order_of_the_checks() -> None:
    sections = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    assert list(map(anchor, sections)) == [*map(section_of, Check), section_of(None)]
    assert list(EXPLAINED) == [*Check, None]


def test_the_readme_and_each_track_lead_to_the_page() -> None:
    assert "(docs/errors.md)" in (ROOT / "README.md").read_text(encoding="utf-8")
    for track in {exercise.track for exercise in EVERY}:
        text = (ROOT / "katas" / track / "README.md").read_text(encoding="utf-8")
        assert "(../../docs/errors.md#" in text.partition("\n## When a kata fails\n")[2]


@pytest.mark.parametrize("check", EXPLAINED, ids=section_of)
def test_a_row_leads_to_an_entry_of_its_section(check: Check | None) -> None:
    """Except for messages that several checks have, such as a crash."""
    section = TEXT.partition(f"## {section_of(check).replace('-', ' ')}\n")[2].partition("\n## ")[0]
    mine = set(map(anchor, re.findall(r"^### (.+)$", section, re.MULTILINE)))
    shared = {"no-answer-in-time", "the-process-crashed", "a-gpu-refuses-the-launch"}
    assert mine
    assert {anchor for _, anchor in EXPLAINED[check]} - shared == mine - shared


@pytest.mark.parametrize("heading", ENTRIES)
def test_an_entry_quotes_explains_and_advises(heading: str) -> None:
    body = ENTRIES[heading]
    assert quotes(body)
    assert body.index("**Why.**") < body.index("**Try.**")
    _, _, taught = body.partition("**Taught in**")
    linked = re.findall(r"\[(\w+)\]\(\.\./katas/([\w/]+)\.py\)", taught)
    assert bool(linked) is bool(taught)
    for name, id in linked:
        assert BY_NAME[name].id == id


@functools.cache
def printed() -> tuple[str, ...]:
    """Every text in the packages' code, "\\0" for the values in it, and the keys' phrases."""
    texts = []
    for package in ("grader", "pallascope"):
        for file in sorted((ROOT / package).rglob("*.py")):
            nodes = ast.walk(_without_table(ast.parse(file.read_text(encoding="utf-8"))))
            texts += filter(None, map(_template, nodes))
    return (*texts, *(mistake.says for each in EVERY for mistake in each.key.mistakes))


def _without_table(tree: ast.Module) -> ast.Module:
    tables = [node for node in tree.body if isinstance(node, ast.AnnAssign)]
    ours = [node for node in tables if ast.unparse(node.target) == "EXPLAINED"]
    tree.body = [node for node in tree.body if node not in ours]
    return tree


def _template(node: ast.AST) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(_template(part) or "\0" for part in node.values)
    return ""


@pytest.mark.parametrize("heading", ENTRIES)
def test_what_an_entry_quotes_is_printed(heading: str) -> None:
    for quote in quotes(ENTRIES[heading]):
        pieces = [piece.strip() for piece in re.split("…", quote)]
        assert max(map(len, pieces)) >= 3, quote
        for piece in filter(None, pieces):
            assert any(piece in text for text in printed()), f"nothing prints {piece!r}"


def test_a_message_that_nothing_prints_is_found() -> None:
    assert not any("the kernel is too beautiful" in text for text in printed())
    assert any("is never waited for on \0" in text for text in printed())


@pytest.mark.parametrize("heading", ENTRIES)
def test_a_quoted_message_leads_to_its_entry(heading: str) -> None:
    """At least one does: others are only the beginning of a message."""
    here = anchor(heading)
    mine = [check for check, rows in EXPLAINED.items() if here in [led_to for _, led_to in rows]]
    filled = [quote.replace("…", "7 x_ref") for quote in quotes(ENTRIES[heading])]
    led_to = [
        anchor_of(Finding(check, text, f"{text}.") if check else NotJudged(Check.VALUES, text))
        for check in mine
        for text in filled
    ]
    assert here in led_to


# ---- findings ----


@pytest.mark.parametrize(
    ("check", "phrase", "message", "found"),
    [
        (Check.VALUES, "padding of x_ref was used", "", "padding-was-used"),
        # A message may mention other causes: the phrase comes first.
        (Check.VALUES, "off by the same factor: 2", "never written", "off-by-the-same-factor"),
        (Check.VALUES, "your kernel rounded too early", "out of bounds", "a-known-mistake"),
        (Check.VALUES, "no answer after 30 s", "At production size:", "no-answer-in-time"),
        (
            Check.RUNS,
            "TypeError: x",
            "A Ref is a handle\n to memory",
            "a-ref-is-a-handle-to-memory",
        ),
        (Check.RUNS, "KeyError: 'x'", "The launch cannot be traced: it fails", "runs"),
        (
            Check.LOWERS,
            "Mosaic refuses sort",
            "Mosaic refuses sort. x",
            "mosaic-refuses-an-operation",
        ),
        (
            Check.LOWERS,
            "Mosaic refuses scan",
            "Loop over the rows of the Ref. x",
            "a-value-is-sliced-or-indexed",
        ),
        (
            Check.COMPILES,
            "v5e refuses it: y",
            "compiler refuses the kernel",
            "the-compiler-refuses-an-operation",
        ),
        (
            Check.COMPILES,
            "h100 refuses it: y",
            "The compiler refuses it for",
            "a-gpu-refuses-the-launch",
        ),
        (Check.COST, "2.0× par's HBM bytes: waits for y_ref", "", "too-many-bytes"),
        (Check.COST, "new words", "", "cost"),
        (Check.OWN_WORK, "new words", "", "own-work"),
    ],
)
def test_where_a_finding_is_explained(check: Check, phrase: str, message: str, found: str) -> None:
    assert anchor_of(Finding(check, phrase, message)) == found


def test_a_check_that_could_not_be_made_is_explained() -> None:
    assert anchor_of(NotJudged(Check.COST, "time needs a GPU")) == "a-check-could-not-be-made"


# ---- the line in a report ----


@pytest.fixture
def wrong(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> Repository:
    """With an exercise that multiplies by 3. The installed metadata may be older."""
    monkeypatch.setattr(failures, "site_address", lambda: SITE)
    repository.solve(repository.add("wrong"), "o_ref[...] = x_ref[...] * 3")
    return repository


LINE = f"  read   {SITE}/{PAGE}#off-by-the-same-factor\n"


@pytest.mark.parametrize("option", ["-v", "--tb=short", "-rA"])
def test_a_report_ends_with_the_link(wrong: Repository, option: str) -> None:
    out = wrong.pytest("-k", "wrong", option).out
    assert out.count(LINE) == 1
    after = out.rpartition(LINE)[2]
    assert after.startswith("fix   katas/1_first/kata_01_wrong.py:14")


@pytest.mark.parametrize("option", ["-q", "-qq", "--tb=no", "--tb=line"])
def test_a_short_report_has_no_link(wrong: Repository, option: str) -> None:
    ran = wrong.pytest("-k", "wrong", option)
    assert ran.state("wrong") == "failed"
    assert "errors.html" not in ran.out


def test_a_right_kernel_has_no_link(wrong: Repository) -> None:
    wrong.solve(katas(wrong.root)[0])
    assert "errors.html" not in wrong.pytest("-k", "wrong").out


def test_a_broken_exercise_has_its_link(wrong: Repository) -> None:
    exercise = wrong.add("double", number=2)
    wrong.solve(exercise)
    exercise.key_path.write_text("title = 1")
    out = wrong.pytest("-k", "double").out
    assert f"  read   {SITE}/{PAGE}#this-kata-is-broken\n" in out
    assert "errors.html" not in wrong.pytest("-k", "double", "-q").out


def test_without_an_address_there_is_no_link(
    wrong: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failures, "site_address", lambda: "")
    out = wrong.pytest("-k", "wrong").out
    assert "off by the same factor" in out
    assert "errors.html" not in out


# ---- the site's address ----


def test_the_metadata_have_the_address() -> None:
    assert site_address() == SITE, "pyproject.toml has changed: pip install -e . --no-deps"


def test_every_address_of_the_site_is_that_of_the_project() -> None:
    pattern = re.compile(r"https://[\w.-]+\.github\.io/pallas-katas\b")
    found = {address for text in _tracked() for address in pattern.findall(text)}
    assert found == {SITE}


def _tracked() -> Iterator[str]:
    for name in git_in(ROOT)("ls-files").splitlines():
        file = ROOT / name
        if file.suffix in (".py", ".md", ".toml", ".yml", ".json", ".ipynb", ".js", ".html"):
            yield file.read_text(encoding="utf-8") if file.is_file() else ""
