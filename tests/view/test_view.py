"""`kata view`: what the page is given, and the command around it. The page itself: _browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grader.cli import main
from grader.commands.launches import why_no_browser
from grader.exercise import repository
from grader.grading import cost_studies
from grader.sandbox.client import WorkerClient
from grader.view.document import (
    SCHEMA,
    CaughtKernels,
    Copied,
    Document,
    VerdictView,
    differences,
)
from grader.view.kernel_view import MOST, MOST_BLOCKS, kernel_of, timeline, wrong_of
from grader.view.launch_view import (
    MANY_TURNS,
    case_of_many_steps,
    gather_without_launch,
    page,
)
from pallascope.checks.compare import Comparison, Sum, compare
from pallascope.model import Mode, Role, Roundings
from pallascope.tools import codec
from pallascope.tpu.chips import named
from pallascope.tpu.libtpu import unavailable_reason
from pallascope.tpu.perfetto import step_spans
from pallascope.tpu.pipeline_steps import BlockMotion, motions
from pallascope.tpu.pipeline_steps import Path as Runs
from pallascope.tpu.schedule import Landing
from pallascope.tpu.traffic import traffic
from tests.pallascope.support import calls
from tests.pallascope.support.calls import array, doubling, operand
from tests.pallascope.support.core_map_kernels import (
    add_by_copies,
    add_by_pipeline,
    add_in_core_map,
)
from tests.pallascope.support.launches import shape
from tests.pallascope.support.sample_predictions import (
    SIZE,
    prediction,
    refused,
    schedule,
    stalls,
    transfers,
)
from tests.support.repositories import ROOT, Shop, with_text


def document_in(file: Path) -> dict[str, Any]:
    """The document that a page holds, as a browser reads it."""
    found = re.search(
        r'<script type="application/json" id="document">(.*?)</script>', file.read_text()
    )
    assert found
    return json.loads(found[1])


def _read(file: Path) -> str:
    return file.read_text(encoding="utf-8")


def motion() -> BlockMotion:
    """Doubling in four blocks of rows, on a grid of four steps."""
    call = doubling()
    starts = np.array([[8 * step, 0] for step in range(4)], np.int32)
    moved = traffic(call, (4,), (starts, starts))
    path = Runs((0, 1, 2, 3), (0, 1, 2, 3), (0, 0, 8, 0, 16, 0, 24, 0), (4096,) * 4)
    return BlockMotion(call, ("x_ref", "o_ref"), 4, 4, moved, (path, path), (None, None), ())


def document(**changed: Any) -> Document:
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "name": "double",
        "title": "Double",
        "case": "M=32",
        "chip": "v5e",
        "whose": "yours",
        "verdict": VerdictView("passed", "right"),
        "trouble": "",
        "kernels": (kernel_of(motion(), None, "v5e"),),
        "other": (),
    }
    return Document(**{**given, **changed})


# ---- what the page is given ----


def test_a_kernel_with_what_its_traffic_counts() -> None:
    kernel = kernel_of(motion(), None, "v5e")
    moved = motion().traffic
    assert (kernel.read, kernel.written, kernel.least) == (moved.read, moved.written, moved.least)
    x, o = kernel.operands
    assert (x.label, x.role, x.block, x.moves, x.bytes, x.windows) == (
        "x_ref", "input", (8, 128), 4, 4 * 4096, 1,
    )  # fmt: skip
    assert x.runs is not None
    assert (x.runs.first, x.runs.sizes) == ((0, 1, 1, 1), (4096,) * 4)
    assert o.wrong is None
    assert not kernel.memory.reported
    assert kernel.memory.limit == 16 << 20
    assert kernel.untold == "the launch did not reach the TPU's compiler"


def test_what_the_compiler_reports_of_vmem_goes_before_what_shapes_tell() -> None:
    kernel = kernel_of(motion(), prediction(schedule(turns=(0.0,) * 6)), "v5e")
    assert kernel.memory.reported
    assert [(one.name, one.buffers) for one in kernel.memory.held] == [("x_ref", 2), ("acc_ref", 1)]


def test_a_refused_kernel_shows_what_it_wanted_and_why() -> None:
    kernel = kernel_of(motion(), refused(), "v5e", refusal="Needs 36 MiB.")
    assert (kernel.memory.used, kernel.memory.limit) == (36 << 20, 16 << 20)
    assert (kernel.timeline, kernel.refusal) == (None, "Needs 36 MiB.")
    assert kernel.untold == "it needs more VMEM than it may have"


def test_what_is_not_known_is_told_instead_of_counted() -> None:
    call = doubling()
    moved = traffic(call, (None,), (None, None), ("no one knows", "no one knows"))
    empty = BlockMotion(call, ("x_ref", "o_ref"), 0, 0, moved, (None, None), (None, None), ())
    kernel = kernel_of(empty, None, "v5e")
    assert kernel.grid == (None,)
    for one in kernel.operands:
        assert (one.counted, one.note, one.runs) == (False, "no one knows", None)


@pytest.mark.parametrize("launch", [add_by_copies, add_by_pipeline, add_in_core_map])
def test_what_a_kernel_copies_by_hand_has_no_runs(launch: Callable[..., Any]) -> None:
    (motion,) = motions(launch, shape("float32", 256, 128))
    kernel = kernel_of(motion, None, "v5e")
    assert (kernel.grid, kernel.steps) == ((1,), 1)
    for one in kernel.operands:
        assert (one.space, one.runs, one.note) == ("any", None, "the kernel copies it itself")


def test_growing_numbers_are_told_by_their_differences() -> None:
    assert differences((0, 2, 5, 5)) == (0, 2, 3, 0)
    assert differences(()) == ()


# ---- the timeline ----


def test_steps_compute_one_turn_after_their_blocks_were_asked_for() -> None:
    ran = schedule(turns=tuple(float(100 * turn) for turn in range(10)), transfers=transfers(7.0))
    kernel = prediction(ran)  # a grid of 4 x 1 x 2: eight steps, ten turns
    assert step_spans(kernel) == tuple(float(100 * turn) for turn in range(1, 10))
    found = timeline(kernel)
    assert found is not None
    assert found.steps == (100,) * 9
    assert found.cycles == found.until == 1000
    lanes = {lane.name: lane for lane in found.lanes}
    assert list(lanes) == ["core", "HBM", "x_ref in"]
    assert lanes["x_ref in"].slices == (7, 700, 0)
    assert lanes["x_ref in"].kinds == ("x_ref in",)


def test_copies_by_hand_are_told_with_their_slots_and_what_they_hide_behind() -> None:
    call = calls.call(
        operand("x_ref", (64, 128), space="any"),
        operand("came", (2, 8, 128), role=Role.SCRATCH, space="vmem"),
        grid=(),
    )
    slots = (3 << 18 << 4, (3 << 18 << 4) + 128)
    ran = schedule(
        cycles=1000,
        turns=(0.0, 400.0),
        transfers=transfers(0.0, 400.0, took=300),
        stalls=stalls((100, 300), (600, 700)),
        landings=tuple(Landing(place, 0, 700.0) for place in slots),
    )
    moved = traffic(call, (), (None, None))
    found = timeline(prediction(ran, call=call, traffic=moved))
    assert found is not None
    assert found.by_hand == (Copied("x_ref", True, 2, 2 * SIZE, ("came[0]", "came[1]"), (), 1),)
    assert (found.computing, found.hidden, found.waiting) == (700, 300, 300)
    assert (found.steps, found.turns) == ((0, 1000), (0, 400))
    assert [lane.name for lane in found.lanes][2:] == ["x_ref → came[0]", "x_ref → came[1]"]


def test_turns_that_are_no_steps_are_not_taken_for_them() -> None:
    assert step_spans(prediction(schedule(turns=(0.0, 10.0, 20.0)))) == ()


def test_the_beginning_of_a_long_run_is_tied_to_its_steps() -> None:
    ran = schedule(turns=tuple(float(turn) for turn in range(5)))
    assert step_spans(prediction(ran), max_events=5) == (1.0, 2.0, 3.0, 4.0)


def test_without_a_schedule_there_is_no_timeline() -> None:
    assert timeline(prediction(unknown="no libtpu")) is None
    assert kernel_of(motion(), prediction(unknown="no libtpu"), "v5e").untold == "no libtpu"


# ---- wrong elements ----


def result(actual: Any, expected: Any, block: tuple[int, ...]) -> Comparison:
    shape = np.asarray(expected).shape
    output = operand("o_ref", shape, block, Role.OUTPUT)
    wanted = array(expected, "float64")
    return compare("o_ref", array(actual), wanted, output, Roundings(1, 0), Sum(), Mode.STRICT)


def test_wrong_elements_are_counted_by_block_and_by_cell() -> None:
    expected = np.ones((256, 256))
    actual = expected.copy()
    actual[0:64, 128:] = 3.0  # half of block (0, 1)
    actual[200, 7] = np.nan  # one element of block (1, 0)
    found = wrong_of(result(actual, expected, (128, 128)))
    assert (found.wrong, found.wrong_blocks, found.of_blocks) == (64 * 128 + 1, 2, 4)
    assert [(b.at, b.wrong, b.of, b.worst) for b in found.blocks] == [
        ((0, 1), 64 * 128, 128 * 128, "2"),
        ((1, 0), 1, 128 * 128, "not a number"),
    ]
    assert (found.cells, found.size) == ((MOST, MOST), (4, 4))
    share = np.array(found.share).reshape(found.cells)
    assert (share[:16, 32:] == 100).all()
    assert share[50, 1] == 7  # one of sixteen, rounded up
    assert np.count_nonzero(share) == 16 * 32 + 1
    assert found.nan == (50 * MOST + 1,)


def test_cells_end_where_blocks_end() -> None:
    expected = np.zeros((100, 300))
    actual = expected.copy()
    actual[40:80] = 1.0
    found = wrong_of(result(actual, expected, (40, 300)))
    share = np.array(found.share).reshape(found.cells)
    # 40 rows in cells of two, and of the last block the 20 that there are.
    assert (found.size[0], found.cells[0]) == (2, 50)
    assert (share[20:40] == 100).all()
    assert not share[:20].any()
    assert not share[40:].any()


def test_leading_dimensions_keep_their_planes() -> None:
    expected = np.zeros((3, 8, 128))
    actual = expected.copy()
    actual[2, 4, 5] = 1.0
    found = wrong_of(result(actual, expected, (1, 8, 128)))
    assert found.cells[0] == 3
    share = np.array(found.share).reshape(found.cells)
    assert not share[:2].any()
    assert np.count_nonzero(share[2]) == 1


def test_a_vector_and_many_blocks_are_told_in_short() -> None:
    expected = np.zeros(1024 * (MOST_BLOCKS + 9))
    found = wrong_of(result(expected + 1, expected, (1024,)))
    assert (found.wrong_blocks, len(found.blocks)) == (MOST_BLOCKS + 9, MOST_BLOCKS)
    assert found.cells == (MOST_BLOCKS + 9,)
    assert set(found.share) == {100}


# ---- one file ----


def test_the_page_is_one_file_that_asks_for_nothing() -> None:
    text = page(document())
    assert "{{" not in text
    assert not re.search(r"""(?:src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.search(r"https?://|@import|url\(", text)
    assert "default-src 'none'" in text


def test_nothing_in_the_document_ends_its_element() -> None:
    rude = "</script><script>alert(1)</script><!-- {{TITLE}}"
    text = page(document(name=rude, trouble=rude))
    assert text.count("</script>") == 2
    assert "alert(1)</script>" not in text
    assert "<title>&lt;/script&gt;" in text
    found = re.search(r'id="document">(.*?)</script>', text, re.DOTALL)
    assert found
    read = json.loads(found[1])
    assert (read["name"], read["trouble"]) == (rude, rude)
    assert codec.from_builtins(Document, read) == document(name=rude, trouble=rude)


# ---- the command ----


def test_a_stub_shows_the_solutions_launch(shared: Shop, tmp_path: Path) -> None:
    text = shared.run("view", "double", "--no-open")
    assert text.startswith(
        "wrote double.view.html: the solution's launch, since yours is still to do\n"
        "open it in a browser: file://"
    )
    found = document_in(Path("double.view.html"))
    assert (found["whose"], found["verdict"]["state"]) == ("par", "todo")
    (kernel,) = found["kernels"]
    assert kernel["steps"] == kernel["grid"][0] > 1


def test_a_wrong_kernel_shows_where_and_succeeds(shared: Shop) -> None:
    shared.repository.solve(shared.double, "o_ref[...] = x_ref[...] * (2 + pl.program_id(0))")
    text = shared.run("view", "double", "--no-open", "-o", "out.html", "--case", "1")
    assert text.startswith("wrote out.html: your launch: ")
    found = document_in(Path("out.html"))
    assert found["verdict"]["state"] == "failed"
    assert found["verdict"]["text"].startswith("values: ")
    (kernel,) = found["kernels"]
    wrong = kernel["operands"][1]["wrong"]
    assert wrong["wrong_blocks"] == kernel["steps"] - 1  # the first is doubled, as it should be
    assert wrong["blocks"][0]["at"] == [1, 0]
    case = cost_studies.case_of(shared.double, 1, 0, {})
    assert found["case"] == str(case)


def test_a_right_one_is_opened_where_there_is_a_screen(
    shared: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda address: opened.append(address) or True)
    monkeypatch.setenv("BROWSER", "some-browser")
    shared.repository.solve(shared.double)
    text = shared.run("view", "double", "bm=8", "M=4096")
    assert "your launch: not run at these sizes\n" in text
    assert opened == [Path("double.view.html").resolve().as_uri()]
    assert f"opened {opened[0]}\n" in text
    found = document_in(Path("double.view.html"))
    assert found["kernels"][0]["steps"] == 512
    assert found["verdict"]["state"] == "unasked"


def test_a_right_one_at_small_sizes_is_run(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    assert ": your launch: right" in shared.run("view", "double", "bm=16", "--no-open")
    assert document_in(Path("double.view.html"))["verdict"]["state"] == "passed"


def test_blocks_that_a_tpu_refuses_are_drawn_with_why(shared: Shop) -> None:
    shared.repository.solve(shared.double)
    shared.run("view", "double", "bm=12", "M=36", "--no-open")
    found = document_in(Path("double.view.html"))
    assert "A TPU refuses block (12, " in found["trouble"]
    assert found["kernels"][0]["steps"] == 3
    assert found["kernels"][0]["operands"][0]["runs"]


def test_what_does_not_import_has_nothing_to_draw(shared: Shop) -> None:
    shared.repository.solve(shared.double, "o_ref[...] = (x_ref[...]")
    shared.run("view", "double", "--no-open")
    found = document_in(Path("double.view.html"))
    assert found["kernels"] == []
    assert "SyntaxError" in found["trouble"]
    assert found["verdict"]["state"] == "failed"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("bq=8",), "kata: double has no size 'bq', only bm, M, N, dtype"),
        (("--case", "9"), "kata: double has cases 0 to 2, not 9"),
    ],
    ids=" ".join,
)
def test_misuse_is_told_at_once(shop: Shop, arguments: tuple[str, ...], words: str) -> None:
    assert shop.run("view", "double", *arguments, code=2).startswith(words)
    assert not list(Path.cwd().glob("*.html"))


def test_the_default_case_has_two_steps_on_each_axis(shared: Shop) -> None:
    shared.edit_key(shared.double, 'M = ["2*bm", "3*bm"]', 'M = ["bm", "3*bm"]')
    double = repository.single_kata(shared.root, "double")
    first = [cost_studies.case_of(double, 0, seed, {}).sizes for seed in range(4)]
    assert any(sizes["M"] == sizes["bm"] for sizes in first)  # a grid of one step
    for seed, sizes in enumerate(first):
        text = shared.run("view", "double", "--no-open", "--seed", str(seed))
        (kernel,) = document_in(Path("double.view.html"))["kernels"]
        assert kernel["grid"] == [3]
        named = re.search(rf"^case: --seed {seed} --case ([1-9])$", text, re.MULTILINE)
        assert bool(named) == (sizes["M"] == sizes["bm"])


def test_without_such_a_case_it_is_the_one_with_the_fewest_single_steps(shared: Shop) -> None:
    shared.edit_key(shared.double, 'M = ["2*bm", "3*bm"]', 'M = ["bm"]')
    shared.run("view", "double", "--no-open")
    found = document_in(Path("double.view.html"))
    assert found["kernels"][0]["grid"] == [1]
    double = repository.single_kata(shared.root, "double")
    assert found["case"] == str(cost_studies.case_of(double, 0, 0, {}))


def test_a_loop_with_two_slots_is_drawn_with_four_turns(asking: WorkerClient) -> None:
    exercise = repository.single_kata(ROOT, "double_buffer")
    first = cost_studies.case_of(exercise, 0, 0, {})
    assert first.sizes["M"] == 2 * first.sizes["bm"]  # two turns: no slot is used twice
    chosen = case_of_many_steps(asking, exercise, 0)
    if unavailable_reason():  # without a schedule, no turns are known
        assert chosen == first
    else:
        assert chosen.sizes["M"] >= MANY_TURNS * chosen.sizes["bm"]


# ---- without a launch ----


def without_launch(
    client: WorkerClient, name: str, root: Path, old: str = "", new: str = ""
) -> Document:
    """The document of one of our own, solved with a change, or still to do."""
    kata = repository.single_kata(ROOT, name)
    text = kata.solution.read_text(encoding="utf-8") if old else kata.stub_text()
    assert old in text
    root.mkdir(exist_ok=True)
    kata = with_text(kata, root, text.replace(old, new) if old else text)
    return gather_without_launch(client, kata, cost_studies.any_case_of(kata, 0, 0, {}))


ENDS = "(group_offsets[1:] + tm - 1) // tm"


def test_tables_are_numbers_with_named_columns(asking: WorkerClient, tmp_path: Path) -> None:
    found = without_launch(asking, "tiles_per_group", tmp_path)
    assert (found.whose, found.verdict.state, found.kernels) == ("par", "todo", ())
    assert found.about == "the solution's tables, computed without a kernel"
    groups, offsets = found.numbers
    assert (groups.index, groups.columns) == ("index", ("group_sizes", "the result"))
    assert offsets.columns == ("group_offsets",)
    assert [row[0] for row in groups.rows] == [str(i) for i in range(8)]
    assert groups.wrong == ()
    starts = [int(row[1]) for row in offsets.rows]
    sizes = [int(row[1]) for row in groups.rows]
    assert starts == [sum(sizes[:i]) for i in range(9)]


def test_wrong_numbers_of_a_table_are_marked(asking: WorkerClient, tmp_path: Path) -> None:
    right = without_launch(asking, "tiles_per_group", tmp_path / "1", ENDS, ENDS).numbers[0]
    found = without_launch(asking, "tiles_per_group", tmp_path / "2", ENDS, "group_offsets[1:]//tm")
    assert (found.whose, found.verdict.state) == ("yours", "failed")
    wrong = found.numbers[0]
    assert right.wrong == ()
    differ = [row for row in range(8) if right.rows[row][2] != wrong.rows[row][2]]
    assert differ
    assert wrong.wrong == tuple(2 * row + 1 for row in differ)  # in the second column


def test_large_arrays_are_cut() -> None:
    from grader.view.launch_view import MOST_COLUMNS, MOST_ROWS, _number_tables, _Numbers

    cut = _Numbers("masks", "result", np.ones((3, 100, 40), np.int8), np.ones((3, 100, 40), bool))
    scalar = _Numbers("count", "input", np.array(7), None)
    first, second = _number_tables([cut, scalar])
    assert (len(first.rows), len(first.columns)) == (MOST_ROWS, MOST_COLUMNS)
    assert first.note == f"Plane (0) of 3. The first {MOST_ROWS} × {MOST_COLUMNS} elements of " + (
        "100 rows and 40 columns."
    )
    assert first.wrong == tuple(range(MOST_ROWS * MOST_COLUMNS))
    assert second.rows == (("0", "7"),)


BYTES = "moved = 2 * (2 * T * D + D)"


def test_predictions_are_the_learners_points(asking: WorkerClient, tmp_path: Path) -> None:
    todo = without_launch(asking, "leave_it_to_xla", tmp_path / "1").roofline
    assert todo is not None
    assert [point.name for point in todo.points][:2] == ["scale_add", "rms_norm"]
    assert {(point.bytes, point.operations, point.seconds) for point in todo.points} == {(0, 0, 0)}
    chip = named("v5e")
    assert (todo.bandwidth, todo.roofs[0].peak) == (chip.bandwidth, chip.peak)
    found = without_launch(asking, "leave_it_to_xla", tmp_path / "2", BYTES, "moved = 2 * T * D")
    assert found.verdict.state == "failed"
    assert found.roofline is not None
    sizes = cost_studies.any_case_of(
        repository.single_kata(ROOT, "leave_it_to_xla"), 0, 0, {}
    ).sizes
    given = 2 * sizes["T"] * sizes["D"]  # the learner's number, not the right one
    point = found.roofline.points[1]
    assert point.bytes == pytest.approx(given)
    assert point.seconds == pytest.approx(given / chip.bandwidth, rel=0.01)


BIAS = "b = 10 * jax.random.normal(b_key, (1, N))"


def test_a_test_shows_how_many_it_catches_and_not_which(
    asking: WorkerClient, tmp_path: Path
) -> None:
    todo = without_launch(asking, "write_the_test", tmp_path / "1").trials
    assert todo == CaughtKernels(ran=False, caught=0, of=8, accepted=2, of_right=2)
    found = without_launch(asking, "write_the_test", tmp_path / "2", BIAS, "b = jnp.zeros((1, N))")
    assert found.trials is not None
    assert found.trials.ran
    assert 0 < found.trials.caught < found.trials.of == 8
    assert (found.trials.accepted, found.trials.of_right) == (2, 2)
    text = json.dumps(codec.to_builtins(found))
    planted = repository.single_kata(ROOT, "write_the_test").key.tested
    assert planted is not None
    assert not [one.title for one in planted.planted if one.title in text]


def test_gpu_launches_are_left_to_another_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(("view", "wgmma_matmul")) == 2
    assert "kata view draws TPU launches only" in (told := capsys.readouterr().err)
    assert "kata cost wgmma_matmul" in told


def test_a_grid_without_fetches_is_tied_to_its_steps() -> None:
    """Results alone are pipelined: step n computes in iteration n, and one more drains."""
    call = calls.call(
        operand("x_ref", (64, 128), space="any"),
        operand("o_ref", (64, 128), (8, 128), Role.OUTPUT),
        grid=(8,),
    )
    ran = schedule(turns=tuple(float(100 * turn) for turn in range(9)))
    moved = traffic(call, (8,), (None, None))
    found = timeline(prediction(ran, call=call, traffic=moved))
    assert found is not None
    assert found.steps == (0, *(100,) * 8)


@pytest.mark.parametrize(
    ("environ", "platform", "words"),
    [
        ({}, "linux", "no display here"),
        ({"DISPLAY": ":0"}, "linux", ""),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "linux", ""),
        ({"SSH_CONNECTION": "a b c d", "DISPLAY": ":0"}, "linux", "this is a remote shell"),
        ({}, "darwin", ""),
        ({"BROWSER": "firefox", "SSH_CONNECTION": "a b c d"}, "linux", ""),
    ],
    ids=str,
)
def test_where_no_browser_is_opened(environ: dict[str, str], platform: str, words: str) -> None:
    told = why_no_browser(environ, platform)
    assert told.startswith(words)
    assert bool(told) == bool(words)


def test_results_that_are_no_output_stand_by_themselves() -> None:
    from grader.view.launch_view import _placed

    bare = result(np.ones((32, 128)), np.zeros((32, 128)), (8, 128))
    on, other = _placed([bare], motion(), (0,))
    assert on[0] is not None
    assert other == ()
    made_after = result(np.ones((4096,)), np.zeros((4096,)), (4096,))
    on, other = _placed([made_after], motion(), (None,))
    assert (on, len(other)) == ((None,), 1)
    assert other[0].shape == (4096,)


def test_a_result_that_was_reshaped_is_drawn_as_the_output_that_it_holds() -> None:
    from grader.view.launch_view import _placed

    actual = np.zeros(4096)
    actual[8 * 128 : 9 * 128] = 1.0
    (on,), other = _placed([result(actual, np.zeros(4096), (4096,))], motion(), (0,))
    assert on is not None
    assert (on.name, on.shape, on.block, other) == ("o_ref", (32, 128), (8, 128), ())
    assert [(block.at, block.wrong) for block in on.blocks] == [((1, 0), 128)]
