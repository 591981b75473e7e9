"""The pages for contributors: short, and each path, name and number in them exists in the code."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import itertools
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from grader import cli
from grader.checks import surrounding_operations
from grader.exercise import answer_key, key_reader, key_tables, repository
from grader.exercise.catalog import SOLUTIONS, katas
from grader.report import report_files
from grader.sandbox import process_limits, time_limits, worker_pool
from grader.verdict import Conditions, Cost, Device, Grade
from pallascope.checks import compare
from pallascope.model import Check, Finding, Mode, NotJudged
from tests.commands.test_docs import CODE, DOCS, FENCED, FOR_CONTRIBUTORS, PAGES
from tests.course import test_contract, test_layout, test_session_coverage
from tests.support.repositories import ROOT
from tests.test_architecture import IN_ALL, LARGE, MANY, ROW, ROWS, SMALL

CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
AUTHORING = DOCS / "authoring.md"
REFERENCE = {DOCS / f"{name}.md" for name in ("predictions", "isolation", "json-schema")}
DETAILED = sorted(FOR_CONTRIBUTORS | REFERENCE)
MOST_WORDS = 1500

#: The page on production kernels names functions of JAX's, and has its own test.
NAMING = sorted({*DETAILED, *DOCS.glob("*.md")} - {DOCS / "reading-production-kernels.md"})


def spans(page: Path) -> list[str]:
    """The words between backticks, without fenced blocks."""
    return CODE.findall(FENCED.sub("", page.read_text(encoding="utf-8")))


def test_contributing_is_short() -> None:
    assert len(CONTRIBUTING.split()) <= MOST_WORDS


def test_the_layers_are_drawn_as_they_are() -> None:
    picture = CONTRIBUTING.split("```text\ncli ")[1].split("```")[0]
    lines = [line.split() for line in f"cli {picture}".splitlines()]
    ends = next(n for n, words in enumerate(lines) if words and words[0].startswith("--"))
    drawn: list[set[str]] = []
    for number, words in enumerate(lines):
        package = "grader" if number < ends else "pallascope"
        names = (f"{package}.{word}" for word in words)
        drawn.append(set(itertools.takewhile(ROW.__contains__, names)))
    assert [row for row in drawn[::-1] if row] == [set(row) for row in ROWS]


# ---- paths ----

PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)*/?")
ENDINGS = (".css", ".html", ".ipynb", ".js", ".json", ".md", ".py", ".svg", ".toml", ".txt", ".yml")
#: Where a path may begin. Elsewhere than in CONTRIBUTING.md, paths are whole.
BEGINNINGS = (
    *(".ci", ".github", "docs", "grader", "integrations", "pallascope", "solutions", "tests"),
    "tools",
)
#: Files that appear later, and placeholders.
NOT_THERE = {"katas/ledger.txt", "solutions/1_basics/kata_24_leaky_relu"}
PLACEHOLDERS = ("TRACK", "NAME", "FOLDER")


def paths(page: Path) -> list[str]:
    """The paths that a page has in code, also names of files alone."""
    whole = [words for words in spans(page) if PATH.fullmatch(words)]
    return [words for words in whole if "/" in words or Path(words).suffix in ENDINGS]


def test_every_path_is_there() -> None:
    folders = [ROOT / name for name in BEGINNINGS]
    files = [*ROOT.glob("*"), *(file for folder in folders for file in folder.rglob("*"))]
    names = {file.name for file in files}
    pages = {page: paths(page) for page in PAGES}
    assert sum(len(listed) for listed in pages.values()) > 100
    missing = []
    for page, listed in pages.items():
        bases = (ROOT, ROOT / "grader") if page.name == "CONTRIBUTING.md" else (ROOT,)
        for path in listed:
            if path.removesuffix(".py").removesuffix(".toml") in NOT_THERE:
                continue
            if any(word in path for word in PLACEHOLDERS):
                continue
            if page not in DETAILED and path.partition("/")[0] not in BEGINNINGS:
                continue  # a learner's own file, or one of JAX
            there = any((base / path).exists() for base in bases) if "/" in path else path in names
            if not there:
                missing.append(f"{page.name}: {path}")
    assert missing == []


# ---- names ----

NAME = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
#: How the pages write JAX's modules.
MODULES = {
    "jax": "jax",
    "jnp": "jax.numpy",
    "lax": "jax.lax",
    "pl": "jax.experimental.pallas",
    "pltpu": "jax.experimental.pallas.tpu",
    "plgpu": "jax.experimental.pallas.mosaic_gpu",
    "pytest": "pytest",
    "functools": "functools",
}
#: Pages whose code defines names, and prints the compiler's.
CODE_RUNS = ("choosing-a-kernel-language", "from-jaxpr-to-bundles")
#: Placeholders, examples, and names of other projects.
OTHERS = {
    *("NAME_outcomes", "test_NAME", "leaky_relu_spec", "hiddenN"),
    *("RESULTS.sqlite", "results.jsonl.sqlite"),
    *("leaky_relu", "scale_add", "feed_forward", "int8_product", "KATA_REQUIRE"),
    *("fn", "matmul", "rows"),
    *("cf.assert", "tpu.trace_start", "tpu.trace_stop", "Unreleased", "RuntimeDefault"),
    *("jax_triton", "jax_triton.triton_call", "make_kernel_from_pallas", "wrap_flash_attention"),
    *("jax_view", "torch_view", "tpu_custom_call", "sbr.rel", "dma.hbm_to_vmem", "dma.done.wait"),
    *("linear_softmax_cross_entropy_loss", "layer_norm", "gated_linear_unit"),
    *("shalt.err", "vrot", "vxpose", "iteration_bounds", "vadd.xlane"),
    *("landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self", "prctl", "tmpfs"),
}


def defined() -> Iterator[str]:
    """Each name that our Python defines, "Class.member" too, and each whole text in quotes."""
    folders = ("grader", "pallascope", "integrations", "tests/support", "tests/course")
    folders = (*folders, "tools/benchmarks")
    for folder in folders:
        for file in (ROOT / folder).rglob("*.py"):
            yield file.stem
            yield file.parent.name
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                match node:
                    case (
                        ast.FunctionDef(name=name) | ast.arg(arg=name) | ast.keyword(arg=str(name))
                    ):
                        yield name
                    case ast.Name(id=name, ctx=ast.Store()):
                        yield name
                    case ast.Constant(value=str(text)):
                        yield text
                    case ast.ClassDef(name=name, body=body):
                        yield name
                        yield from (f"{name}.{member}" for member in _members(body))


def _members(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name


def of_a_library(name: str) -> bool:
    """Whether a dotted name is one of JAX's, pytest's or Python's."""
    first, *rest = name.split(".")
    if first not in MODULES:
        return False
    value: object = importlib.import_module(MODULES[first])
    return all((value := getattr(value, part, None)) is not None for part in rest)


@pytest.fixture(scope="module")
def names() -> set[str]:
    libraries = ("builtins", "jax", *map(MODULES.get, ("pltpu", "plgpu")))
    theirs = {name for library in libraries for name in dir(importlib.import_module(str(library)))}
    return {*defined(), *theirs, *OTHERS, *cli.COMMANDS, *(k.name for k in katas(ROOT, SOLUTIONS))}


def exists(name: str, names: set[str]) -> bool:
    """Of an attribute of a value, such as `finding.message`, the attribute alone is looked up."""
    if name in names or of_a_library(name):
        return True
    return name[0].islower() and "." in name and name.rpartition(".")[2] in names


#: Tables that a script writes, such as those with the names of JAX's kernels.
WRITTEN = re.compile(r"^<!-- BEGIN .*?^<!-- END ", re.DOTALL | re.MULTILINE)


def quoted(page: Path) -> set[str]:
    """The names in a page's tables that a script writes; if its code is run and compared, also
    those in the code and the quoted outputs."""
    text = page.read_text(encoding="utf-8")
    blocks = "".join(WRITTEN.findall(text))
    if page.stem in CODE_RUNS:
        blocks += "".join(FENCED.findall(text))
    return set(NAME.findall(blocks)) | set(re.findall(r"\w+", blocks))


@pytest.mark.parametrize("page", NAMING, ids=lambda page: page.stem)
def test_every_name_is_there(page: Path, names: set[str]) -> None:
    listed = {words for words in spans(page) if NAME.fullmatch(words)}
    listed = {words for words in listed if Path(words).suffix not in ENDINGS}
    listed -= quoted(page)
    assert [name for name in sorted(listed) if not exists(name, names)] == []


def test_no_name_is_excused_in_vain() -> None:
    assert {words for page in NAMING for words in spans(page)} >= OTHERS


# ---- numbers ----


def numbers() -> Iterator[tuple[str, str]]:
    """A page, and words with a number as the code has it."""
    yield "CONTRIBUTING", f"{SMALL} to {LARGE} lines"
    yield "CONTRIBUTING", f"at most {MANY} files, and both packages together have at most {IN_ALL}"
    lines, width = test_contract.LINES, test_contract.WIDTH
    yield "docs/authoring", f"{lines[0]} to {lines[-1]} lines of at most {width} columns"
    yield "docs/authoring", f"at most {test_layout.FAR} lines below"
    yield "docs/authoring", f"longer than {test_layout.WIDE} columns"
    yield "docs/authoring", f"at most {test_contract.CONCEPT} characters"
    yield "docs/authoring", f"draws {len(test_session_coverage.SESSIONS)} sessions"
    fewest, most = answer_key.MIN_CASES, answer_key.MAX_CASES
    yield "docs/authoring", f"{fewest} to {most}; default: {answer_key.DEFAULT_CASES}"
    slack = answer_key.Slack()
    yield "docs/authoring", f"slack    = {{bytes = {slack.bytes:.2f}, cycles = {slack.cycles:.2f}}}"
    yield "docs/authoring", f"default: {answer_key.Roundings().results}"
    yield "docs/authoring", f"2 or {key_tables.MAX_DEVICES} devices in all"
    yield "docs/authoring", f"more than {surrounding_operations.LARGEST} N elements"
    yield "docs/authoring", f"at most {surrounding_operations.TOTAL} N elements in all"
    yield "docs/authoring", f"accumulating in float32: {compare.SUM_FACTOR} · 2⁻²⁴"
    yield "docs/authoring", f"{compare.SWAYS} times the larger of two sensitivities"
    yield "docs/json-schema", f"version {report_files.SCHEMA_VERSION} of the schema"
    yield "docs/isolation", f"{process_limits.MEMORY >> 30} GiB"
    yield "docs/isolation", f"{process_limits.FILE >> 20} MiB"
    yield "docs/isolation", f"| open files | {process_limits.FILES} |"
    yield "docs/isolation", f"| threads | {process_limits.THREADS} more"
    yield "docs/isolation", f"beyond {worker_pool.MOST_USED >> 20} MiB"
    yield "docs/isolation", f"for {time_limits.IDLE:g} more second"
    yield "docs/isolation", f"up to {time_limits.MOST} T"
    yield "docs/isolation", f"T / {time_limits.FRACTION}, but at least {time_limits.LEAST:g} s"
    hang = 30 + max(30 / time_limits.FRACTION, time_limits.LEAST) + time_limits.IDLE
    yield "docs/isolation", f"finds an endless loop after about {hang:g} s"
    yield "docs/isolation", f"within {2 * time_limits.MOST} T ({2 * time_limits.MOST * 30} s)"


@pytest.mark.parametrize(("page", "words"), [*numbers()])
def test_a_number_is_that_of_the_code(page: str, words: str) -> None:
    text = " ".join((ROOT / f"{page}.md").read_text(encoding="utf-8").split())
    assert " ".join(words.split()) in text


# ---- tables ----


def test_every_entry_of_an_answer_key_is_in_the_reference() -> None:
    text = AUTHORING.read_text(encoding="utf-8")
    (key,) = re.findall(r"^```toml\ntitle    =.*?^```", text, re.MULTILINE | re.DOTALL)
    entries = re.findall(r"^(?:# )?(\w+) +=", key.partition("\n[mesh]")[0], re.MULTILINE)
    tables = re.findall(r"^\[+(\w+)\]", key, re.MULTILINE)
    assert {*entries, *tables} == set(key_reader._NAMES)


def test_checks_stand_in_their_order() -> None:
    (listed,) = re.findall(r"`caught` is one of (.*?):", AUTHORING.read_text("utf-8"), re.DOTALL)
    assert CODE.findall(listed) == [check.value for check in Check]


def test_every_kind_of_exercise_has_a_row() -> None:
    text = AUTHORING.read_text(encoding="utf-8")
    section = text.split("\n## Kinds of kata\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)
    assert sorted(rows) == sorted(kind.value for kind in key_tables.KataKind)


def test_the_schema_has_every_key() -> None:
    text = (DOCS / "json-schema.md").read_text(encoding="utf-8")
    parts = text.split("Each grade")
    document, grade = (re.findall(r"^\| `(\w+)` \|", part, re.MULTILINE) for part in parts)
    conditions = Conditions(1, Device("cpu", Mode.STRICT), ("v5e",))
    assert document == list(report_files.json_document([], conditions))
    assert sorted(grade) == sorted(field.name for field in dataclasses.fields(Grade))
    for kind in (Finding, Cost, NotJudged):
        assert ", ".join(f"`{field.name}`" for field in dataclasses.fields(kind)) in text


# ---- the tutorial ----

#: The files of tests/course that grade a kata by its name.
GRADED_BY = (
    "after",
    "contract",
    "edges",
    "layout",
    "readmes",
    "session_coverage",
    "shapes_table",
    "verdicts",
)
#: The tutorial's kata, and the one that it builds on.
NEEDED = ("scale_2d", "leaky_relu")


def test_the_exercise_of_the_tutorial_keeps_the_contract(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a copy that has no katas besides, so that collecting the tests is quick."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    generate = importlib.import_module("generate")
    last = generate.quotes(AUTHORING)[-1]
    assert "pytest -k leaky_relu" in last.command
    with generate.workplace(last) as folder:
        for kata in katas(folder, SOLUTIONS):
            if kata.name not in NEEDED:
                kata.solution.unlink()
                kata.key_path.unlink()
        repository.sync(folder, check=False)
        (folder / "pytest.ini").unlink()
        for name in ("conftest.py", "pyproject.toml"):
            shutil.copy(ROOT / name, folder)
        unwanted = shutil.ignore_patterns("node_modules", "variants", "__pycache__")
        shutil.copytree(ROOT / "tests", folder / "tests", ignore=unwanted)
        files = [f"tests/course/test_{name}.py" for name in GRADED_BY]
        options = ["-q", "-p", "no:cacheprovider", "-k", "leaky_relu"]
        ran = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *files],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=250,
        )
    (passed,) = re.findall(r"end with `(\d+ passed)`", AUTHORING.read_text(encoding="utf-8"))
    assert re.search(rf"^{passed},", ran.stdout, re.MULTILINE), ran.stdout[-3000:]
