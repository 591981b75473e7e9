"""The pages of prose about kernels: their code runs, and what they name is there."""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
import warnings
from math import nan
from pathlib import Path

import jax
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from grader.exercise.catalog import SOLUTIONS, katas
from pallascope.checks.exception_advice import OLDER_SPELLINGS
from pallascope.tpu.libtpu import unavailable_reason
from tests.support.repositories import ROOT

sys.path.append(str(ROOT / "tools"))
generate = importlib.import_module("generate")

PAGES = ("why-write-a-kernel", "debugging-a-kernel", "profiling-on-a-tpu")
NEWER = (
    *("choosing-a-kernel-language", "cost-of-operations", "from-jaxpr-to-bundles"),
    *("guiding-a-model", "cost-of-a-batch", "other-kernels", "errors"),
)
needs_libtpu = pytest.mark.skipif(bool(unavailable_reason()), reason="libtpu is not installed")
#: Pages whose code prints what they quote.
WITH_OUTPUTS = (
    *(*PAGES[:2], "choosing-a-kernel-language"),
    pytest.param("from-jaxpr-to-bundles", marks=needs_libtpu),
)
READING = (ROOT / "docs/reading-production-kernels.md").read_text(encoding="utf-8")
NUMBERS = {
    kata.name: f"{kata.track.split('_')[0]}.{kata.number}" for kata in katas(ROOT, SOLUTIONS)
}
SHIPPED = Path(jax.__file__).parent / "experimental/pallas/ops/tpu"
AT_LEAST_0_12 = tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 12)

each_page = pytest.mark.parametrize("page", [*PAGES, "reading-production-kernels"])


def text_of(page: str) -> str:
    return (ROOT / f"docs/{page}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, "reading-production-kernels", *NEWER])
def test_the_readme_leads_to_it(page: str) -> None:
    assert f"(docs/{page}.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


# ---- code ----


def test_the_code_on_profiling_runs(tmp_path: Path) -> None:
    """Its times differ from run to run, so its output is no quoted block."""
    code = "\n".join(generate.CODE.findall(text_of("profiling-on-a-tpu")))
    asked = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(asked, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "called after " in done.stdout


@pytest.mark.parametrize("page", WITH_OUTPUTS)
def test_its_code_prints_what_it_says(page: str) -> None:
    of_code = [quote for quote in generate.quotes(ROOT / f"docs/{page}.md") if not quote.command]
    assert of_code
    if not AT_LEAST_0_12:  # which prints no races, and ends
        for quote, now in zip(of_code, generate.outputs(of_code), strict=True):
            assert generate.alike(quote.text, now, same_compiler=True), now


def test_every_block_without_a_language_is_a_quoted_output() -> None:
    """So that no output is pasted that nothing compares: a drawing is `text`."""
    assert sum(len(generate.quotes(page)) for page in generate.pages()) > 10
    for page in generate.pages():
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^ *```(.*)\n(?:.*\n)*?^ *```$", text, re.MULTILINE)
        assert blocks.count("") == len(generate.quotes(page)), page


def test_ci_compares_every_quoted_output_and_picture() -> None:
    assert "python tools/generate.py --check\n" in (ROOT / ".ci/stages.sh").read_text()
    scripts = {file.stem for file in (ROOT / "tools").glob("*.py")}
    run = {*generate.SCRIPTS, *generate.SCREENSHOTS}
    called = {"drawing", "roofline_data", "shipped_calls", "foreign_calls"}
    by_full = {"prose", "playground_data"}
    assert scripts - run == {"generate", *by_full, *called}


def test_a_quoted_output_that_no_longer_holds_is_found_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    block = "```python\nprint(1 + 1)\n```\n\n<!-- output of the code above -->\n```\n{}\n```\n"
    page.write_text(block.format(3))
    monkeypatch.setattr(generate, "ROOT", tmp_path)
    monkeypatch.setattr(generate, "pages", lambda: [page])
    monkeypatch.setattr(generate.roofline_data, "data", generate.versions)
    assert generate.quoted((), check=True) == 1
    assert "-3\n+2" in capsys.readouterr().out
    assert page.read_text() == block.format(3)
    assert generate.quoted((), check=False) == 1
    assert page.read_text() == block.format(2)
    assert generate.quoted((), check=True) == 0


@pytest.mark.parametrize(
    ("shown", "now", "alike"),
    [
        ("1 failed in 3.21s", "1 failed in 40.02s", (True, True)),
        ("time  411 µs  86%", "time  398 µs  80%", (False, True)),
        ("waiting 6.9 ms ██████", "waiting 6.1 ms █████", (False, True)),
        ("grid (4, 1, 2)", "grid (4, 1, 3)", (False, False)),
        ("5 students, 110 katas", "5 students, 130 katas", (False, False)),
        ("sum [10. 10. 10.]", "sum [11. 10. 10.]", (False, False)),
    ],
)
def test_what_a_quoted_output_may_differ_by(shown: str, now: str, alike: tuple[bool, bool]) -> None:
    """With the same libtpu, and with another one."""
    assert (generate.alike(shown, now, True), generate.alike(shown, now, False)) == alike


def test_lines_that_are_left_out_are_marked() -> None:
    lines = (range(2, 3), range(4, 6))
    quote = generate.Quote(Path("page.md"), "kata list", "", lines, "", 0)
    assert quote.cut("1\n2  \n3\n4\n5\n6\n") == "2\n…\n4\n5\n"


# ---- names ----


@each_page
def test_the_exercises_it_asks_for_are_there(page: str) -> None:
    asked = re.findall(r"(?:kata (?:cost|view|trace|after)|pytest -k) (\w*_\w+)", text_of(page))
    assert asked or page.startswith("reading")
    assert set(asked) <= set(NUMBERS)


@pytest.mark.parametrize("page", PAGES[:2])
def test_names_of_solutions_are_names_of_solutions(page: str) -> None:
    others = {"rms_norm", "scale_add", "feed_forward", "int8_product"}
    others |= {"sum_of_block", "acc_ref", "debug_check", "debug_print"}
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", text_of(page))) - others
    assert len(named) > 3
    assert named <= set(NUMBERS)


def test_numbers_and_names_go_together() -> None:
    pairs = re.findall(r"`(\w+)`,? \(?(\d\.\d\d)", READING)
    assert len(pairs) > 30
    assert [(name, NUMBERS.get(name)) for name, _ in pairs] == pairs
    assert set(re.findall(r"\b\d\.\d\d\b", READING)) <= {*NUMBERS.values(), "0.10", "0.12"}


@pytest.mark.parametrize(
    ("section", "folder"),
    [
        ("Splash attention", "splash_attention"),
        ("Megablox", "megablox"),
        ("Ragged paged attention", "ragged_paged_attention"),
    ],
)
def test_functions_are_named_as_jax_names_them(section: str, folder: str) -> None:
    source = "".join(file.read_text(encoding="utf-8") for file in (SHIPPED / folder).glob("*.py"))
    rows = READING.split(f"## {section}\n")[1].split("\n## ")[0]
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", rows, re.MULTILINE)
    named = [
        word for cell in cells for code in re.findall(r"`(.+?)`", cell) for word in words(code)
    ]
    assert len(named) > 10
    assert [word for word in named if word not in source] == []


def words(code: str) -> list[str]:
    """The names in a piece of code, without what is JAX's own module."""
    return [word for word in re.findall(r"[A-Za-z_]\w+", code) if word not in ("pl", "lax", "ops")]


# ---- the cost of operations ----


@pytest.mark.parametrize(
    ("cycles", "shown"),
    [(0.126, "0.125"), (0.24, "0.25"), (1.03, "1"), (3.48, "3.5"), (41.2, "41"), (nan, "refused")],
)
def test_cycles_are_rounded_to_what_the_method_can_tell(cycles: float, shown: str) -> None:
    assert importlib.import_module("cost_of_operations").number(cycles) == shown


@needs_libtpu
def test_a_cost_that_is_no_longer_predicted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    tool = importlib.import_module("cost_of_operations")
    page = text_of("cost-of-operations")
    assert tool.differs(page) == ""
    assert "jnp.exp(x)` takes 1." in tool.differs(page.replace("exp(x)` | 1 |", "exp(x)` | 2 |"))
    monkeypatch.setattr(tool, "INTEGERS", tool.INTEGERS[1:])
    assert "its rows are not those" in tool.differs(page)


# ---- times of kernels by others ----

of_pinned_jax = pytest.mark.skipif(
    jax.__version__ != generate.roofline_data.data()["jax"], reason="the page is for another jax"
)


@needs_libtpu
@of_pinned_jax
def test_the_page_has_every_kernel_of_jax_and_a_stale_time_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tool, page = importlib.import_module("shipped_kernels"), text_of("other-kernels")
    assert tool.without_a_row() == ()
    assert tool.differs(page) == ""
    (time,) = re.findall(r"threefry_random_bits.*` \| (\d+ µs) \|", page)
    stale = re.sub(rf"(threefry_random_bits.*` \|) {time}", r"\1 1 µs", page)
    assert f"{time}, and the page says 1 µs" in tool.differs(stale)
    monkeypatch.setattr(tool, "TABLES", {"KERNELS": (lambda: tool.calls()[1:], ("v5e", "v6e"))})
    assert "the calls of the table KERNELS" in tool.differs(page)
    monkeypatch.setattr(tool, "calls", list)
    assert "flash_attention, matmul, megablox.gmm" in tool.differs(page)


@of_pinned_jax
@pytest.mark.parametrize(
    ("said", "now", "close"),
    [
        ("1 ms", "1.05 ms", True),
        ("1 ms", "950 µs", True),
        ("1 ms", "1.2 ms", False),
        ("1 ms", "accepted, no time: …", False),
        ("refused: …", "refused: …", True),
    ],
)
def test_times_may_differ_a_little(said: str, now: str, close: bool) -> None:
    assert importlib.import_module("shipped_kernels").close(said, now) == close


# ---- the roofline ----


def test_every_solution_with_a_kernel_of_production_size_is_on_the_roofline() -> None:
    data = json.loads((ROOT / "docs/roofline.json").read_text(encoding="utf-8"))
    drawn = {point["kata"]: point["number"] for point in data["points"]}
    every = [kata for kata in katas(ROOT, SOLUTIONS) if kata.key.kernel and kata.key.production]
    every = [kata for kata in every if kata.key.cores == 1]
    missing = {
        kata.name for kata in every if not kata.key.mesh and kata.key.target.uses_libtpu
    } - set(drawn)
    assert not missing, f"run: python tools/draw_roofline.py --measure {' '.join(sorted(missing))}"
    assert drawn == {name: NUMBERS[name] for name in drawn}


def test_the_roofline_is_drawn_as_measured_and_no_key_has_changed_since() -> None:
    checked = [sys.executable, "tools/draw_roofline.py", "--check"]
    done = subprocess.run(checked, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_changed_size_of_a_drawn_kernel_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "tools")
    roofline_data = importlib.import_module("roofline_data")
    told = roofline_data.data()
    assert roofline_data.stale(told) == []
    row_sum = next(point for point in told["points"] if point["kata"] == "row_sum")
    row_sum["case"] = row_sum["case"].replace("=", "=1", 1)
    assert roofline_data.stale(told) == ["row_sum"]


def test_a_number_of_the_page_that_was_not_measured_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw_roofline = importlib.import_module("draw_roofline")
    told, page = draw_roofline.data(), text_of("why-write-a-kernel")
    assert draw_roofline.with_numbers(page, told) == page
    for point in told["points"]:
        point["seconds"] *= 1.1
    assert draw_roofline.with_numbers(page, told) != page
    with pytest.raises(ValueError, match="no sentence like"):
        draw_roofline.with_numbers(page.replace("`row_sum` has", "row_sum has"), told)


# ---- old spellings ----

ROWS = re.findall(
    r"^\| (`.+?) \| (.+) \| (.+) \|$", READING.split("## A dictionary")[1], re.MULTILINE
)
#: What the grader tells by an exception that names no attribute, as the dictionary has it.
BY_USE = {
    "unhashable type: 'dict'": "compiler_params=dict(",
    "'function' object is not iterable": "BlockSpec(index_map, shape)",
    r"If `grid_spec` is specified, then `\w+` must be": "grid_spec=",
}


@pytest.mark.parametrize("pattern", [pattern for pattern, _ in OLDER_SPELLINGS])
def test_every_old_spelling_that_the_grader_tells_is_in_the_dictionary(pattern: str) -> None:
    old = [row[0] for row in ROWS]
    if attribute := re.search(r"no attribute '\(?([\w|]+)\)?'", pattern):
        module = "pltpu" if "tpu'" in pattern else "pl"
        wanted = [f"`{module}.{name}" for name in attribute[1].split("|")]
    else:
        wanted = [BY_USE[pattern]]
    assert [name for name in wanted if not any(name in one for one in old)] == []


@pytest.mark.parametrize(
    ("old", "state"),
    [(name, state) for old, _, state in ROWS for name in re.findall(r"`((?:pl|pltpu)\.\w+)", old)],
)
def test_an_old_spelling_is_as_old_as_the_dictionary_says(old: str, state: str) -> None:
    module, name = old.split(".")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        there = hasattr({"pl": pl, "pltpu": pltpu}[module], name)
    if AT_LEAST_0_12 and state == "deprecated in 0.12":
        assert there
        assert told
    else:
        assert there == (state != "gone" and not AT_LEAST_0_12)


@pytest.mark.parametrize(
    "name", sorted({name for _, today, _ in ROWS for name in re.findall(r"`(p\w+\.\w+)", today)})
)
def test_todays_spelling_is_there(name: str) -> None:
    row = next(today for _, today, _ in ROWS if f"`{name}" in today)
    if AT_LEAST_0_12 or "0.10 doesn't have" not in row:
        module, name = name.split(".")
        with warnings.catch_warnings(action="ignore"):
            assert hasattr({"pl": pl, "pltpu": pltpu}[module], name)
