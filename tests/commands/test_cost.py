"""`kata cost` and `kata trace`, in-process; the kernels in processes of their own."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from grader.grading import cost_studies
from grader.sandbox.client import WorkerClient
from grader.sandbox.launch_client import WorkerQueues
from grader.sandbox.worker_pool import WorkerPool
from tests.pallascope.support.trace_events import read
from tests.support.repositories import Shop

needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")


@pytest.fixture
def without_libtpu(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Processes that are started now find no libtpu."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['libtpu'] = None\n")
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=":")


# ---- cost ----


@needs_libtpu
def test_the_chip_is_the_one_that_judges_unless_it_is_named(shared: Shop) -> None:
    shared.edit_key(shared.double, "[cases]", "cores = 2\n\n[cases]")
    assert "on a TPU v5p" in shared.run("cost", "double")
    assert "on a TPU v6e" in shared.run("cost", "double", "--chip", "v6e")


@needs_libtpu
def test_a_solved_one_beside_par_at_sizes_of_ones_own(shop: Shop) -> None:
    shop.repository.solve(shop.double)
    text = shop.run("cost", "double", "bm=64", "M=4096", "--chip", "v6e", "dtype=bfloat16", "N=256")
    assert text.startswith(
        "double on a TPU v6e, predicted: nothing was run\nbm=64, M=4096, N=256, dtype=bfloat16\n"
    )
    assert "yours" in text
    assert "1.00×" in text
    assert re.search(r"^time .*≥ \S+ [nµ]s$", text, re.MULTILINE)
    assert "XLA's own estimate of its time is " in text
    assert "kernel double_kernel, grid (64,): 64 steps" in text
    assert "VMEM: 128 KiB of 32 MiB" in text
    assert "pytest -k double" in text
    assert "bm, M, N, dtype" in text


@pytest.mark.parametrize(
    ("slack", "more", "longer"),
    [("", "10%", "15%"), ("slack = {bytes = 1.0, cycles = 0.06}\n", "100%", "6%")],
)
def test_the_limits_for_the_third_star_are_those_of_the_key(
    shop: Shop, slack: str, more: str, longer: str
) -> None:
    shop.edit_key(shop.double, "[cases]", f"{slack}[cases]")
    said = f"at most {more} more HBM bytes than par, and a time that is at most {longer} longer"
    assert f"★★★ allows {said}" in " ".join(shop.run("cost", "double").split())


@pytest.mark.parametrize("command", ["cost", "trace", "view"])
def test_sizes_that_the_launch_is_not_made_for_are_refused(shared: Shop, command: str) -> None:
    text = shared.run(command, "double", "M=100", "bm=64", code=2)
    assert "double with bm=64, M=100, " in text
    assert "M = 100 isn't a multiple of bm = 64" in text


def test_a_stub_shows_what_par_takes(shared: Shop) -> None:
    text = shared.run("cost", "double")
    assert "Still to do. The cost of par:\n" in text
    assert "yours" not in text
    assert "par" in text
    assert "HBM bytes" in text
    assert "kernel double_kernel" not in text  # its blocks may be what there is to find out


def test_without_the_compiler_the_bytes_are_known(shop: Shop, without_libtpu: None) -> None:
    shop.repository.solve(shop.double)
    text = shop.run("cost", "double", "bm=8", "M=32", "N=128", "dtype=float32")
    assert "HBM bytes  32 KiB  32 KiB  1.00×\n" in text
    assert "not checked: whether the TPU's compiler accepts it" in text
    assert "pip install '.[tpu]'" in text
    assert "no timeline: pip install '.[tpu]'" in shop.run("trace", "double", code=2)
    assert not list(Path.cwd().glob("*.json"))


def test_a_block_that_a_tpu_refuses_is_explained(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    text = shared.run("cost", "double", "bm=12", "M=36", code=1)
    assert "A TPU refuses block (12, " in text
    assert re.search(r"  legal  nearest: .*\(8, \d+\)", text)
    assert "par: a TPU refuses block (12, " in text


def test_a_file_that_does_not_import_is_told(shared: Shop) -> None:
    shared.repository.solve(shared.double, "o_ref[...] = (x_ref[...]")
    text = shared.run("cost", "double", code=1)
    assert "The file cannot be imported." in text
    assert "SyntaxError" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bq=8",), "kata: double has no size 'bq', only bm, M, N, dtype"),
        (("bm",), "kata: 'bm' is not of the form NAME=VALUE"),
        (("bm=8", "bm=16"), "kata: bm is given twice: 8 and 16"),
        (("--case", "9"), "kata: double has cases 0 to 2, not 9"),
        (("bm=8", "--sweep", "bm=8,16"), "kata: bm is both given a value and swept"),
        (("--sweep", "bk=8,16"), "kata: double has no size 'bk'"),
        (("--sweep", "bm=8,x"), "kata: bm=x: a size is a whole number above 0"),
    ],
    ids=" ".join,
)
def test_misuse_is_told_at_once(shop: Shop, arguments: tuple[str, ...], words: str) -> None:
    assert shop.run("cost", "double", *arguments, code=2).startswith(words)


@pytest.mark.parametrize(
    "arguments", [("cost", "double", "--swep"), ("hint", "double", "1", "x=1")]
)
def test_what_follows_options_has_to_be_a_size(shop: Shop, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as raised:
        shop.run(*arguments)
    assert raised.value.code == 2


def test_nothing_is_evaluated_and_large_arrays_stay_where_they_are(
    shared: Shop, pool: WorkerPool
) -> None:
    asking = WorkerClient(WorkerQueues(pool), ("v5e",))
    small = cost_studies.case_of(shared.double, 0, 0, {"dtype": "float32"})
    large = cost_studies.case_of(shared.double, 0, 0, {"M": "8192", "N": "256", "dtype": "float32"})
    for case, known in ((small, True), (large, False)):
        reference = asking.inputs(shared.double, case)
        (x,) = reference.inputs
        assert x.shape == (case.sizes["M"], case.sizes["N"])
        assert bool(x.data) is known
        assert reference.expected == ()
    assert (
        asking.inputs(shared.double, small).inputs == asking.reference(shared.double, small).inputs
    )


# ---- cost --sweep ----


def test_a_sweep_marks_what_is_best_and_what_cannot_be(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    text = shared.run(
        "cost", "double", "--sweep", "bm=8,12,16,32", "N=128", "--chip", "v5e", "M=96"
    )
    lines = text.splitlines()
    assert lines[0] == "double on a TPU v5e, predicted: nothing was run"
    assert lines[1].startswith("M=96, N=128, dtype=")
    rows = {
        line.split()[0]: line for line in lines if line.split()[:1] and line.split()[0].isdigit()
    }
    assert list(rows) == ["8", "12", "16", "32"]
    assert "a TPU refuses block (12, 128)" in rows["12"]
    assert sum("←" in row for row in rows.values()) == 1


def test_sizes_that_follow_suit_all_that_is_swept(shared: Shop) -> None:
    """M is computed from bm: it has to be one that 16 and 24 divide."""
    shared.repository.solve(shared.double)
    text = shared.run("cost", "double", "--sweep", "bm=16,24")
    assert "writes" not in text
    assert text.splitlines()[1].split(",")[0] in ("M=96", "M=144")


def test_a_sweep_of_a_stub_is_pars(shared: Shop) -> None:
    text = shared.run("cost", "double", "--sweep", "bm=8,16")
    assert "still to do, so these are par's times" in text
    assert "←" in text


def test_a_sweep_of_nothing_good_is_not_done(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    assert "refuses" in shared.run("cost", "double", "--sweep", "bm=9,10", "M=90", code=1)


# ---- trace ----


@needs_libtpu
def test_a_trace_is_well_formed_and_takes_the_time_that_is_predicted(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    file = Path("double.trace.json")
    file.write_text("something older")
    said = shared.run("trace", "double", "bm=8", "M=32", "N=128")
    assert said.startswith("wrote double.trace.json: the timeline of yours and par\n")
    assert "ui.perfetto.dev" in said
    found = read(file.read_text(encoding="utf-8"))
    assert list(found) == ["v5e yours: double_kernel", "v5e par: double_kernel"]
    own, par = found.values()
    assert own == par
    assert list(own)[:3] == ["grid steps", "core", "HBM"]
    assert {lane.split(" (")[0] for lane in list(own)[3:]} == {"x_ref in", "o_ref out"}
    assert [one.name for one in own["grid steps"]] == [
        "setup",
        "first blocks move in",
        *(f"step {n}" for n in range(4)),
        "last blocks move out",
    ]
    screen = shared.run("cost", "double", "bm=8", "M=32", "N=128")
    microseconds = own["grid steps"][-1].end / 1000
    assert f"{microseconds:.3g} µs" in screen


@needs_libtpu
def test_a_trace_of_a_stub_is_pars(shared: Shop) -> None:
    said = shared.run("trace", "double", "-o", "par.json")
    assert said.startswith("wrote par.json: the timeline of par, since it is still to do\n")
    assert list(read(Path("par.json").read_text(encoding="utf-8"))) == ["v5e par: double_kernel"]


def test_what_has_no_timeline_writes_no_file(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    assert "A TPU refuses block" in shared.run("trace", "double", "bm=12", code=1)
    assert not Path("double.trace.json").exists()
