"""The pytest plugin, from outside: what is selected, drawn, reported, and with which exit code."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark import KeywordMatcher

from pallascope.tpu import compiler
from tests.support.repositories import ROOT, Ran, Repository
from tests.support.sessions import LentPool


def fill(repository: Repository) -> None:
    """Add three katas in two tracks; one is solved, one wrong, one a stub."""
    repository.solve(repository.add("right"))
    repository.solve(repository.add("wrong", number=10), "o_ref[...] = x_ref[...] * 3")
    repository.add("stub", track="2_second")


@pytest.fixture
def two_tracks(repository: Repository) -> Repository:
    """Three katas in two tracks; one is solved, one wrong, one a stub."""
    fill(repository)
    return repository


@dataclass(frozen=True)
class Graded:
    """The three katas, graded once for the tests that only look at what was said of them."""

    repository: Repository
    ran: Ran
    xml: Path
    document: dict[str, Any]  # of --kata-json


@pytest.fixture(scope="module")
def graded(tmp_path_factory: pytest.TempPathFactory, lent: LentPool) -> Graded:
    repository = Repository(tmp_path_factory.mktemp("graded"), lent.opened)
    fill(repository)
    xml = repository.root / "out.xml"
    ran = repository.pytest("--kata-seed", "3", f"--junitxml={xml}", CI="")
    return Graded(repository, ran, xml, json.loads(repository.grades.read_text()))


def ran(repository: Repository, *arguments: str) -> set[str]:
    return set(repository.pytest(*arguments).grades)


def collected(repository: Repository, *arguments: str) -> list[str]:
    """The node ids that pytest would run."""
    out = repository.pytest("--collect-only", "-q", *arguments).out
    return [line for line in out.splitlines() if "::" in line]


def test_selection(two_tracks: Repository) -> None:
    every = {"right", "wrong", "stub"}
    file = "katas/1_first/kata_10_wrong.py"
    for arguments, expected in {
        ("-k", "kata"): every,
        ("-k", "first"): {"right", "wrong"},
        ("-k", "first and 10"): {"wrong"},
        ("-k", "stub"): {"stub"},
        (file,): {"wrong"},
        (f"{file}::test_wrong",): {"wrong"},
        (f"{file}::test_wrong[hidden1]",): {"wrong"},
        ("katas/2_second",): {"stub"},
    }.items():
        names = {
            re.sub(r".*kata_\d+_(\w+)\.py.*", r"\1", n) for n in collected(two_tracks, *arguments)
        }
        assert names == expected, arguments


def test_ids_are_stable_and_show_no_shape(two_tracks: Repository) -> None:
    first = collected(two_tracks, "--kata-seed", "1")
    assert first == collected(two_tracks, "--kata-seed", "2")
    assert first[0] == "katas/1_first/kata_01_right.py::test_right[hidden0]"
    assert len(first) == len(set(first)) == 9


def test_our_own_tests_are_not_selected_as_exercises(request: pytest.FixtureRequest) -> None:
    """`pytest katas tests -k kata` runs katas alone. Looked at: the tests of this session."""
    ours = [item for item in request.session.items if ROOT / "tests" in item.path.parents]
    assert request.node in ours
    assert not [item.nodeid for item in ours if KeywordMatcher.from_item(item)("kata")]


@pytest.fixture(scope="module")
def under_xdist(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, str]:
    """A session of two workers that draws its seed, and the JUnit XML that it wrote."""
    repository = Repository(tmp_path_factory.mktemp("xdist"))
    fill(repository)
    ran = repository.process("-v", "-n", "2", "--junitxml=x.xml", CI="true", COLUMNS="45")
    return ran, (repository.root / "x.xml").read_text()


def seed_of(out: str) -> str:
    (seed,) = set(re.findall(r"--kata-seed (\d+)", out))
    return seed


def test_a_seed_fixes_the_cases_also_under_xdist(
    two_tracks: Repository, under_xdist: tuple[Ran, str]
) -> None:
    def drawn(ran: Ran) -> list[str]:
        return [grade["drawn"] for grade in ran.grades["wrong"]]

    def drawn_with(seed: str) -> list[str]:
        return drawn(
            two_tracks.pytest("--kata-mode", "interpret", "-k", "wrong", "--kata-seed", seed)
        )

    apart, _ = under_xdist
    seed = seed_of(apart.out)
    assert drawn(apart) == drawn_with(seed)
    assert drawn(apart) != drawn_with(str(int(seed) + 1))


def test_an_undrawn_seed_is_shared_by_all_workers_and_printed(
    under_xdist: tuple[Ran, str],
) -> None:
    apart, _ = under_xdist
    header = re.search(r"^katas: TPU v5e, .*--kata-seed (\d+)$", apart.out, re.MULTILINE)
    again = re.search(r"again  pytest .* --kata-seed (\d+)", apart.out)
    assert header
    assert again
    assert header[1] == again[1] == seed_of(apart.out)


def test_outcomes_and_map(graded: Graded) -> None:
    done = graded.ran
    assert done.code == 1
    # In this process pytest may warn of modules that were imported before.
    assert re.search(r"3 failed, 3 passed, (\d+ warnings?, )?3 todo", done.out)
    assert "katas: strict TPU interpreter: NaN in unwritten memory" in done.out
    assert "1_first" in done.out
    assert "1/2 solved" in done.out
    assert re.search(r"✔ 01 ★★★ right", done.out)
    assert re.search(r"✘ 10 ☆☆☆ wrong +3 of 3 hidden cases failed: explained below", done.out)
    assert re.search(r"· 01 ☆☆☆ stub +todo", done.out)
    assert "1 of 3 solved, 1 failed, 1 todo" in done.out
    assert "fix   katas/1_first/kata_10_wrong.py:14" in done.out


def test_a_failure_is_told_in_full_once_with_its_case(graded: Graded) -> None:
    out = graded.ran.out
    assert out.count("  case   bm=") == 1, out
    assert "_ wrong: 3 of 3 hidden cases _" in out
    assert out.count("values: off by the same factor: 1.5") == 1
    again = r'pytest "katas/1_first/kata_10_wrong\.py::test_wrong\[hidden(\d)\]" --kata-seed 3'
    example = re.search(again, out)
    assert example
    assert f"  view   kata view wrong --seed 3 --case {example[1]}\n" in out
    assert "Traceback" not in out
    assert "NotImplementedError" not in out


def test_each_case_has_its_own_text_for_editors(under_xdist: tuple[Ran, str]) -> None:
    ran, xml = under_xdist
    assert ran.out.count("  case   bm=") == 1
    assert xml.count('failure message="values: off by the same factor: 1.5') == 3
    assert xml.count("  case   bm=") == 3
    assert xml.count("  open   katas/1_first/kata_10_wrong.py:14") == 3


def test_the_map_comes_first_then_the_explanation_then_where_to_fix_it(graded: Graded) -> None:
    out = graded.ran.out
    places = [
        out.index(text)
        for text in (
            "= katas =",
            "1 of 3 solved, 1 failed, 1 todo",
            "values: off by the same factor",
            "fix   katas/1_first/kata_10_wrong.py:14   stuck?  kata hint wrong",
            "3 failed, 3 passed",
        )
    ]
    assert places == sorted(places)
    assert "short test summary" not in out
    assert "pytest -k wrong" not in out


def test_other_failures_stand_above_the_map_with_their_summary(two_tracks: Repository) -> None:
    """Those of other tests as pytest prints them, and those of further katas."""
    (two_tracks.root / "test_other.py").write_text("def test_other(): assert 1 == 2\n")
    two_tracks.solve(two_tracks.add("later", number=11), "o_ref[...] = x_ref[...] * 7")
    out = two_tracks.pytest(".", "-k", "wrong or later or other", CI="").out
    above, _, below = out.partition("= katas =")
    assert "off by the same factor: 3.5" in above
    assert re.search(r"✘ 11 ☆☆☆ later +values: off by the same factor: 3\.5", below)
    assert "assert 1 == 2" in above
    assert "off by the same factor: 1.5" in below
    assert [line for line in out.splitlines() if line.startswith("FAILED ")] == [
        "FAILED test_other.py::test_other - assert 1 == 2"
    ]
    assert "7 failed" in below


def test_cases_that_fail_for_different_reasons_have_a_block_each(repository: Repository) -> None:
    factor = "3 if x_ref.dtype == 'bfloat16' else no_such_name"
    repository.solve(repository.add("two"), f"o_ref[...] = x_ref[...] * ({factor})")
    ran = repository.pytest("--kata-seed", "3")
    reasons = {one["finding"]["check"] for one in ran.grades["two"]}
    assert reasons == {"runs", "values"}
    _, _, below = ran.out.partition("= katas =")
    assert re.search(
        r"_ two: [12] of 3 hidden cases _[\s\S]*_ two: [12] of 3 hidden cases _", below
    )
    assert "values: off by the same factor" in below
    assert "  error  NameError: name 'no_such_name' is not defined" in below


@pytest.mark.parametrize(
    ("option", "explained"),
    [("-v", True), ("-rA", True), ("--tb=short", True), ("--tb=no", False), ("-q", True)],
)
def test_the_reason_is_never_lost(two_tracks: Repository, option: str, explained: bool) -> None:
    out = two_tracks.pytest("-k", "wrong", option).out
    assert "values: off by the same factor: 1.5" in out
    assert ("  again  pytest" in out) is explained
    assert "3 failed" in out


def test_the_printed_command_repeats_the_case(graded: Graded) -> None:
    out = graded.ran.out
    case = re.search(r"  case   (.*)", out)
    again = re.search(r'  again  pytest "(.*)" --kata-seed (\d+)', out)
    assert case
    assert again
    grade = graded.repository.pytest(again[1], "--kata-seed", again[2]).grades["wrong"]
    assert [g["drawn"] for g in grade] == [case[1]]


def test_todo_alone_is_success_unless_required(two_tracks: Repository) -> None:
    assert two_tracks.pytest("-k", "stub").code == 0
    required = two_tracks.pytest("-k", "stub", "--kata-require", "second")
    assert required.code == 1
    assert "still to do" in required.out
    assert two_tracks.pytest("-k", "stub", "--kata-require", "first").code == 0


def test_a_requirement_that_names_nothing_is_refused(two_tracks: Repository) -> None:
    done = two_tracks.pytest("--kata-require", "no_such_track")
    assert done.code == 4
    assert "--kata-require: no kata matches 'no_such_track'; kata list" in done.out


@pytest.mark.parametrize("more", [(), ("-n", "1")], ids=["", "xdist"])
def test_a_mistyped_name_is_told_what_it_may_have_meant(
    two_tracks: Repository, more: tuple[str, ...]
) -> None:
    done = two_tracks.pytest("-k", "rihgt and not x", *more)
    assert done.code == 5
    assert "\nno kata matches 'rihgt and not x'; did you mean right?\n" in done.out


def test_a_name_is_not_mistyped_where_no_exercise_was_asked_for(two_tracks: Repository) -> None:
    (two_tracks.root / "test_other.py").write_text("def test_other(): pass\n")
    for arguments in (("test_other.py", "-k", "rihgt"), ("katas/2_second", "-k", "right")):
        done = two_tracks.pytest(*arguments)
        assert done.code == 5
        assert "no kata matches" not in done.out


def test_no_debugger_is_opened_in_the_grader(two_tracks: Repository) -> None:
    """Neither by --pdb nor by the kata; for other tests --pdb is what it always is."""
    two_tracks.solve(two_tracks.add("stops"), "import pdb; pdb.set_trace()")
    two_tracks.add("keyless").key_path.write_text("broken")
    done = two_tracks.process("--pdb", "-k", "wrong or stops or keyless", timeout=60)
    assert "katas: --pdb opens no debugger for a kata" in done.out
    assert "(Pdb)" not in done.out
    assert done.phrase("stops") == "opens a debugger"
    assert "import pdb; pdb.set_trace()\n  try " in done.out
    assert {done.state(name) for name in ("wrong", "keyless")} == {"failed"}
    (two_tracks.root / "test_other.py").write_text("def test_other(): assert False\n")
    assert "(Pdb)" in two_tracks.process("--pdb", "test_other.py", timeout=60).out


def test_an_edited_stub_is_still_todo(two_tracks: Repository) -> None:
    """Its region still raises: a note above it changes nothing."""
    file = next(two_tracks.root.glob("katas/2_second/*.py"))
    file.write_text("# a note\n" + file.read_text())
    done = two_tracks.pytest("-k", "stub")
    assert (done.code, done.state("stub")) == (0, "todo")


def test_a_not_implemented_error_from_elsewhere_is_no_todo(two_tracks: Repository) -> None:
    file = next(two_tracks.root.glob("katas/1_first/kata_01*.py"))
    text = file.read_text().replace("    rows = pl", "    raise NotImplementedError\n    rows = pl")
    file.write_text(text)
    assert two_tracks.pytest("-k", "right").state("right") == "failed"


def test_last_failed_and_exit_first(graded: Graded) -> None:
    assert ran(graded.repository, "--lf") == {"wrong"}
    stopped = graded.repository.pytest("-x", "-k", "wrong or stub")
    assert [len(grades) for grades in stopped.grades.values()] == [1]


def test_last_failed_cases_that_pass_are_not_yet_a_pass(repository: Repository) -> None:
    """--lf grades the cases that failed: the map says how many ran, and nothing is recorded until
    all of them did."""
    ledger = repository.root / "katas" / "ledger.txt"
    repository.solve(repository.add("right"))
    half = repository.add("half", number=2)
    repository.solve(half, "o_ref[...] = x_ref[...] * (3 if x_ref.dtype == 'bfloat16' else 2)")
    whole = repository.pytest("--kata-seed", "3")
    failed = [number for number, one in enumerate(whole.grades["half"]) if one["state"] == "failed"]
    assert 0 < len(failed) < 3

    still = repository.pytest("--lf", "--kata-seed", "3")
    assert (still.code, still.state("half"), list(still.grades)) == (1, "failed", ["half"])
    assert "0/1 solved" in still.out

    repository.solve(half)
    fixed = repository.pytest("--lf", "--kata-seed", "3")
    assert (fixed.code, fixed.state("half")) == (0, "passed")
    assert [one["case"] for one in fixed.grades["half"]] == failed
    assert f"★★★ so far: {len(failed)} of 3 hidden cases ran" in fixed.out
    assert "0/1 solved" in fixed.out
    assert "half" not in ledger.read_text()

    again = repository.pytest("--lf", "--kata-seed", "3")
    assert "2 of 2 solved, 0 failed, 0 todo" in again.out
    assert "kata_02_half" in ledger.read_text()


def test_a_broken_key_is_its_own_failure(two_tracks: Repository) -> None:
    two_tracks.add("keyless").key_path.write_text('title = "x"\nconcpt = "y"\n')
    done = two_tracks.pytest("-k", "right or keyless")
    assert done.state("right") == "passed"
    assert done.state("keyless") == "failed"
    assert "did you mean concept" in done.out
    assert "This kata is broken, not your kernel" in done.out


def test_a_broken_solution_is_its_own_failure(two_tracks: Repository) -> None:
    two_tracks.solve(kata := two_tracks.add("unsound"))
    kata.solution.write_text(kata.solution.read_text().replace("x * 2", "no_such_name"))
    done = two_tracks.pytest("-k", "right or unsound")
    assert (done.state("right"), done.state("unsound")) == ("passed", "failed")
    assert "This kata is broken, not your kernel" in done.out


def test_modes(graded: Graded) -> None:
    plain = graded.repository.pytest("-k", "hidden0", "--kata-mode", "interpret")
    for done, mode in ((graded.ran, "strict"), (plain, "interpret")):
        assert (done.state("right"), done.state("wrong")) == ("passed", "failed")
        assert f"katas: {mode}" in done.out


def test_strict_catches_what_interpret_forgives(repository: Repository) -> None:
    """Reading an output before it is written: garbage on a TPU, zeros in the plain interpreter."""
    repository.solve(repository.add("greedy"), "o_ref[...] = x_ref[...] * 2 + 0 * o_ref[...]")
    strict = repository.pytest("--kata-mode", "strict")
    assert "o_ref read before it was written" in strict.phrase("greedy")


def test_compiled_mode_needs_a_tpu(two_tracks: Repository) -> None:
    done = two_tracks.pytest("--kata-mode", "compiled", JAX_PLATFORMS="cpu")
    assert done.code == 4
    assert "needs a TPU" in done.out


def test_machines_can_read_the_grades(graded: Graded) -> None:
    document, xml_file = graded.document, graded.xml
    assert document["schema"] == 3
    assert document["mode"] == "strict"
    grade = next(grade for grade in document["grades"] if grade["kata"].endswith("wrong"))
    assert grade["finding"]["check"] == "values"
    cases = xml.etree.ElementTree.parse(xml_file).iter("testcase")
    case = next(case for case in cases if (case.get("name") or "").startswith("test_wrong"))
    properties = {p.get("name"): p.get("value") for p in case.iter("property")}
    assert properties["kata"] == "1_first/kata_10_wrong"
    assert properties["kata_state"] == "failed"
    assert properties["kata_reason"] == grade["finding"]["phrase"]


@pytest.mark.parametrize("arguments", [["-qq"], ["-q", "--color=yes"]])
def test_the_total_is_readable_everywhere(two_tracks: Repository, arguments: list[str]) -> None:
    out = two_tracks.pytest("-k", "hidden0", *arguments, COLUMNS="45").out
    plain = re.sub(r"\x1b\[[0-9;]*m", "", out)
    assert "0 of 3 solved, 1 failed, 1 todo, 1 unfinished" in " ".join(plain.split())


def test_the_total_is_readable_under_xdist(under_xdist: tuple[Ran, str]) -> None:
    assert "1 of 3 solved, 1 failed, 1 todo" in under_xdist[0].out


def test_no_map_where_none_ran(repository: Repository) -> None:
    (repository.root / "test_other.py").write_text("def test_other():\n    pass\n")
    out = repository.pytest("test_other.py").out
    assert "1 passed" in out
    assert "solved" not in out
    assert "katas:" not in out


SLOW = """import jax.numpy as jnp
value = x_ref[...]
for _ in range(100):
    value = jnp.maximum(value, jnp.minimum(value, -value))
o_ref[...] = value * 2"""

#: Hides libtpu, as on a machine for which there is none.
HIDDEN = """import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "libtpu" else found(name, *more)
"""


@pytest.fixture
def slow(repository: Repository) -> Repository:
    """One kata that is solved right, and slower than it can be."""
    repository.solve(repository.add("slow"), SLOW)
    return repository


def needs_libtpu() -> None:
    if reason := compiler.unavailable_reason():
        pytest.skip(reason)


def test_missing_par_is_no_failure(slow: Repository) -> None:
    needs_libtpu()
    done = slow.pytest("-v", "--kata-seed", "3")
    assert done.code == 0
    assert re.search(r"✔ 01 ★★☆ slow .*× par +cost: [\d.]+× par's time: ", done.out)
    assert re.search(r"the third star: kata cost slow --seed 3 --case \d\n", done.out)
    for grade in done.grades["slow"]:
        assert (grade["state"], grade["stars"]) == ("passed", 2)
        assert grade["finding"]["check"] == "cost"
        assert grade["cost"]["cycles"] > 1.15 * grade["cost"]["par_cycles"]
        assert grade["cost"]["bytes"] == grade["cost"]["par_bytes"]


def test_a_key_may_require_par_or_allow_for_more(repository: Repository) -> None:
    needs_libtpu()
    for name, line in (("strict", 'par = "required"'), ("lenient", "slack = {cycles = 99}")):
        repository.solve(repository.add(name, key=f"{line}\n{repository.KEY}"), SLOW)
    done = repository.pytest("--kata-seed", "3")
    assert done.code == 1
    assert "cost: " in done.out
    assert "predicted on a v5e; par" in " ".join(done.out.split())
    assert {(g["state"], g["stars"]) for g in done.grades["strict"]} == {("failed", 2)}
    assert [g["stars"] for g in done.grades["lenient"]] == [3, 3, 3]


def test_without_libtpu_the_rest_is_graded_and_the_gap_is_named(
    slow: Repository, tmp_path_factory: pytest.TempPathFactory
) -> None:
    hiding = tmp_path_factory.mktemp("hiding")
    (hiding / "sitecustomize.py").write_text(HIDDEN)
    done = slow.process("--kata-seed", "3", PYTHONPATH=str(hiding))
    assert done.code == 0
    assert "not compiled: " in done.out
    assert "not judged: compiles (" in done.out
    assert "pip install" in done.out
    for grade in done.grades["slow"]:
        assert (grade["stars"], grade["finding"]) == (1, None)
        assert grade["cost"]["cycles"] is None
        assert grade["cost"]["bytes"] == grade["cost"]["par_bytes"]
        assert grade["not_judged"]["check"] == "compiles"


def test_the_chip_is_chosen_and_named(two_tracks: Repository) -> None:
    needs_libtpu()
    done = two_tracks.pytest("-k", "right and hidden0", "--kata-chip", "v6e")
    assert "katas: TPU v6e" in done.out
    assert {grade["cost"]["chip"] for grade in done.grades["right"]} == {"v6e"}
    every = two_tracks.pytest("-k", "right and hidden0", "--kata-chip", "all")
    assert "katas: TPU v5e, v4, v5p, v6e, tpu7x" in every.out
    assert [g["cost"]["chip"] for g in every.grades["right"]] == ["v5e"]
    unknown = two_tracks.pytest("--kata-chip", "v1")
    assert unknown.code == 4
    assert "v5e" in unknown.out


def test_what_only_the_compiler_refuses(two_tracks: Repository) -> None:
    """A slice whose start it can't prove to be aligned; a block of 8 rows has only one."""
    needs_libtpu()
    body = """o_ref[...] = x_ref[...] * 2
rows = pl.ds(jax.numpy.minimum(pl.program_id(0), 0), 8)
o_ref[rows, :] = x_ref[rows, :] * 2"""
    two_tracks.solve(two_tracks.add("unaligned", number=20), body)
    done = two_tracks.pytest("-k", "unaligned", "--kata-seed", "3")
    assert done.code == 1
    failed = [g for g in done.grades["unaligned"] if g["state"] == "failed"]
    assert {(g["finding"]["check"], g["stars"]) for g in failed} == {("compiles", 1)}
    assert "multiple of 8" in done.out
