"""The player of `kata view`: steps, turns of a loop, copies and waits, rows of chips; the theme."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from grader.exercise import repository
from grader.grading import cost_studies
from grader.sandbox.client import WorkerClient
from grader.view.document import (
    ChipTable,
    Document,
    NumberTable,
    PredictedPoint,
    RooflinePicture,
    RoofOfDtype,
    VerdictView,
)
from grader.view.kernel_view import kernel_of
from grader.view.launch_view import gather_without_launch, par_document
from grader.view.launch_view import page as page_of
from pallascope.tpu.pipeline_steps import motions
from tests.pallascope.support.core_map_kernels import add_by_copies
from tests.pallascope.support.launches import shape
from tests.support.repositories import ROOT
from tests.view.test_view_browser import View, document, long
from tests.view.test_view_browser import view as view

#: Kernels of every kind, and what their player goes through.
KINDS = {
    "tiled_matmul": "step",
    "splash_attention": "step",
    "paged_attention_dma": "step",
    "row_gather": "step",
    "double_buffer": "turn",
    "ring_of_slots": "turn",
    "memory_spaces": "turn",
    "async_copy": "event",
    "constant_add": "event",
    "right_permute": "row",
    "ring_all_gather": "row",
}
VERBS = "arrives|is written back|stays?|starts?|waits?|signals|sends?|has waited|have waited"
Documents = Callable[[str], Document]


@pytest.fixture(scope="module")
def of_solution(asking: WorkerClient) -> Documents:
    """The documents of our solutions, in their first hidden cases."""

    @cache
    def found(name: str) -> Document:
        kata = repository.single_kata(ROOT, name)
        return par_document(asking, kata, cost_studies.case_of(kata, 0, 0, {}))

    return found


def position(shown: View) -> tuple[str, int, int]:
    """Such as ("step", 1, 12)."""
    words = shown.page.locator(".where").inner_text().replace(",", "").split()
    unit, number, of, count = words[:4]
    assert of == "of"
    return unit, int(number), int(count)


def sentence(shown: View) -> str:
    return shown.page.locator("#sentence").inner_text()


@pytest.mark.parametrize("name", KINDS)
def test_the_player_goes_through_every_kind(
    view: Callable[..., View], of_solution: Documents, name: str
) -> None:
    drawn = of_solution(name)
    if KINDS[name] in ("turn", "event") and drawn.kernels[0].timeline is None:
        pytest.skip("needs libtpu")
    shown = view(drawn)
    assert shown.page.locator("#play").is_enabled()
    assert shown.page.locator("#slider").is_enabled()
    unit, number, count = position(shown)
    assert (unit, number) == (KINDS[name], 1)
    assert count > 1
    first = sentence(shown)
    assert re.fullmatch(rf"[A-Za-z]\w*.* ({VERBS})\b.*\.", first), first
    shown.page.keyboard.press("ArrowRight")
    assert position(shown) == (unit, 2, count)
    assert sentence(shown) != first
    assert shown.page.evaluate("location.hash") == "#step=2"
    spoken = shown.page.locator("#slider").get_attribute("aria-valuetext")
    assert spoken.startswith(f"{unit} 2 of {count}")
    shown.page.keyboard.press("End")
    assert position(shown) == (unit, count, count)
    shown.page.keyboard.press("ArrowRight")
    assert position(shown) == (unit, count, count)
    shown.page.keyboard.press("Home")
    assert position(shown) == (unit, 1, count)
    shown.at(count)
    assert position(shown) == (unit, count, count)
    assert view(drawn, step=2).step == 2


def test_the_positions_of_copies_are_their_starts_and_waits(
    view: Callable[..., View], of_solution: Documents
) -> None:
    drawn = of_solution("async_copy")
    if drawn.kernels[0].timeline is None:
        pytest.skip("needs libtpu")
    shown = view(drawn)
    told = []
    for number in range(1, position(shown)[2] + 1):
        shown.at(number)
        told.append(sentence(shown))
    copies = ["w_hbm → w_ref[0]", "w_hbm → w_ref[1]"]
    assert [one for one in told if "→" in one] == [f"The copy {one} starts." for one in copies]
    assert told.index("The copy of x_ref to VMEM starts.") == 0
    assert "The core waits for w_hbm (w_ref[0])." in told
    assert told[-1] == "The core waits for o_ref."
    shown.at(3)
    assert "in flight" in shown.operand("w_hbm").locator(".state").inner_text()
    label = shown.page.locator("#timeline").get_attribute("aria-label")
    assert "event 3 begins at" in label


def test_copies_play_to_the_end(view: Callable[..., View], of_solution: Documents) -> None:
    drawn = of_solution("async_copy")
    if drawn.kernels[0].timeline is None:
        pytest.skip("needs libtpu")
    shown = view(drawn)
    last = position(shown)[2]
    shown.page.select_option("#speed", "64")
    shown.page.click("#play")
    until(shown.page, lambda: shown.step == last)
    until(shown.page, lambda: shown.page.locator("#play").get_attribute("title") == "play (space)")


def test_the_address_starts_a_run_without_an_end(
    browser: Any, of_solution: Documents, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(page_of(of_solution("tiled_matmul")), encoding="utf-8")
    page = browser.new_page()
    page.goto(f"{(tmp_path / 'page.html').as_uri()}#play")
    step = "document.getElementById('step').textContent"
    first = page.evaluate(step)
    page.evaluate("kataView.state.speed = 8")
    until(page, lambda: page.evaluate(step) != first)
    until(page, lambda: page.evaluate(step) == first)
    assert page.locator("#play").get_attribute("aria-label") == "pause"
    page.keyboard.press("End")
    assert page.locator("#play").get_attribute("aria-label") == "play"
    page.close()


def until(page: Any, holds: Callable[[], bool]) -> None:
    """Wait for a condition; the page's own policy forbids Playwright's way to."""
    for _ in range(400):
        if holds():
            return
        page.wait_for_timeout(25)
    pytest.fail("it doesn't happen")


def test_without_a_schedule_the_copies_are_not_told(view: Callable[..., View]) -> None:
    (motion,) = motions(add_by_copies, shape("float32", 256, 128))
    shown = view(document(kernel_of(motion, None, "v5e")))
    assert shown.page.locator("#play").is_disabled()
    assert position(shown) == ("step", 1, 1)
    assert sentence(shown) == (
        "The kernel makes its copies itself, and only the compiler's schedule tells them."
    )


# ---- rows of chips ----


def chips(rows: int) -> Document:
    """Two chips that do something else in each row."""
    table = ChipTable(
        chips=("chip 0", "chip 1"),
        moments=tuple(
            ((f"sends x_ref[{row}] to chip 1; sem counts it",), (f"waits for sem[{row}]",))
            for row in range(rows)
        ),
        links=tuple((f"0 → 1: x_ref[{row}], 1 KiB",) for row in range(rows)),
        note="",
    )
    kernel = long().kernels[0]
    operands = tuple(replace(one, runs=None) for one in kernel.operands)
    return document(replace(kernel, operands=operands, steps=1, shown=1, chip_table=table))


def test_the_current_row_is_marked_and_in_sight(view: Callable[..., View]) -> None:
    shown = view(chips(60))
    page = shown.page
    assert page.evaluate("scrollY") == 0  # the page opens at its title
    assert sentence(shown) == "Chip 0 sends x_ref[0] to chip 1; chip 1 waits for sem[0]."
    page.keyboard.press("End")
    assert position(shown) == ("row", 60, 60)
    current = page.locator("#chips-table tr.current")
    assert current.count() == 1
    assert current.get_attribute("aria-current") == "step"
    assert current.locator("th").inner_text() == "60"
    row, player = current.bounding_box(), page.locator("#transport").bounding_box()
    assert row["y"] >= 0
    assert row["y"] + row["height"] <= player["y"]
    page.keyboard.press("Home")
    assert current.locator("th").inner_text() == "1"


def test_chips_that_do_the_same_share_a_clause(
    view: Callable[..., View], of_solution: Documents
) -> None:
    shown = view(of_solution("right_permute"), step=2)
    assert sentence(shown) == (
        "All 4 chips have waited for the barrier semaphore; chip 0 sends x_ref to chip 1, and the "
        "other 3 chips send theirs; all 4 chips wait for send_sem."
    )


# ---- a finding ----


def test_a_finding_leads_to_the_step_that_writes_the_wrong_block(
    view: Callable[..., View], of_solution: Documents
) -> None:
    from tests.view.test_view_browser import wrong

    drawn = of_solution("tiled_matmul")
    (kernel,) = drawn.kernels
    x, y, o, acc = kernel.operands
    rows, columns = o.block
    bad = replace(
        wrong([(0, 1), (1, 1)]), shape=o.shape, block=o.block, size=o.block, cells=(2, 3),
        share=(0, 100, 0, 0, 100, 0), nan=(),
    )  # fmt: skip
    assert (2 * rows, 3 * columns) == o.shape
    operands = (x, y, replace(o, wrong=bad), acc)
    text = "values: o_ref: 2 of 6 blocks are wrong\n  why    because"
    failed = VerdictView("failed", "wrong", text)
    shown = view(replace(drawn, kernels=(replace(kernel, operands=operands),), verdict=failed))
    finding = shown.page.locator("#finding")
    assert finding.get_attribute("open") is not None
    assert finding.locator("summary").inner_text().startswith("o_ref block (0, 1): ")
    button = shown.page.locator("#to-wrong")
    assert button.inner_text() == "go to step 2, which writes this block"
    button.click()
    assert position(shown)[1] == 2
    assert "o_ref block (0, 1) is written back" in sentence(shown)
    shown.page.locator("#wrong-list button").nth(1).click()
    assert "o_ref block (1, 1) is written back" in sentence(shown)
    assert shown.page.evaluate("location.hash") == "#step=5"


# ---- the theme ----


def theme(shown: View) -> str:
    return shown.page.evaluate("getComputedStyle(document.documentElement).colorScheme")


def test_the_address_chooses_the_theme(view: Callable[..., View], of_solution: Documents) -> None:
    shown = view(of_solution("tiled_matmul"), color_scheme="light")
    page = shown.page
    page.goto(f"{shown.file.as_uri()}#theme=dark&step=3")
    assert theme(shown) == "dark"
    page.keyboard.press("ArrowRight")
    assert page.evaluate("location.hash") == "#step=4&theme=dark"
    page.evaluate("location.hash = '#theme=light'")
    assert theme(shown) == "light"
    page.evaluate("location.hash = '#theme=purple'")
    assert theme(shown) == "light"


def test_in_a_frame_it_follows_the_page_around_it(
    browser: Any, of_solution: Documents, tmp_path: Path
) -> None:
    (tmp_path / "page.html").write_text(page_of(of_solution("tiled_matmul")), encoding="utf-8")
    (tmp_path / "around.html").write_text('<iframe src="page.html#theme=light"></iframe>')
    around = browser.new_page(color_scheme="dark")
    faults: list[str] = []
    around.on("console", lambda message: faults.append(message.text))
    around.on("pageerror", lambda error: faults.append(str(error)))
    around.goto((tmp_path / "around.html").as_uri())
    _, frame = around.frames
    frame.locator("#sentence").wait_for()
    scheme = "document.documentElement.dataset.theme"
    assert frame.evaluate(scheme) == "light"
    assert frame.locator("#theme").is_hidden()
    # This listener runs after the page's own.
    frame.evaluate("globalThis.heard = 0; addEventListener('message', () => { heard += 1; })")
    messages = (
        ("{theme: 'dark'}", "dark"),
        ("{theme: 'purple'}", "dark"),
        ("null", "dark"),
        ("'light'", "dark"),
        ("{theme: 'light'}", "light"),
    )
    for number, (sent, expected) in enumerate(messages):
        around.evaluate(f"frames[0].postMessage({sent}, '*')")
        until(around, lambda number=number: frame.evaluate("heard") == number + 1)
        assert frame.evaluate(scheme) == expected, sent
    around.close()
    assert faults == []


# ---- without a launch ----


def test_a_table_of_numbers_is_drawn_with_its_wrong_ones(view: Callable[..., View]) -> None:
    table = NumberTable(
        "input: sizes; result: starts", "index", ("sizes", "starts"),
        (("0", "3", "0"), ("1", "4", "9")), (3,), "The first 2 of 9 rows.",
    )  # fmt: skip
    shown = view(document(numbers=(table,), about="your tables"))
    heads = shown.page.locator("#numbers th").all_inner_texts()
    assert heads == ["index", "sizes", "starts", "0", "1"]
    assert shown.page.locator("#numbers .wrong-cell").all_inner_texts() == ["9"]
    assert shown.page.locator("#transport").is_hidden()
    assert shown.page.locator("#nothing").is_hidden()
    assert shown.overflow() == 0


def test_tables_come_with_the_kernel_that_reads_them(
    view: Callable[..., View], asking: WorkerClient
) -> None:
    kata = repository.single_kata(ROOT, "splash_tables")
    case = cost_studies.any_case_of(kata, 0, 0, {})
    shown = view(gather_without_launch(asking, kata, case))
    assert "block_mask" in shown.page.locator("#numbers").inner_text()
    assert "the solution of splash_attention" in shown.page.locator("#read-by").inner_text()
    shown.page.keyboard.press("ArrowRight")
    assert position(shown)[:2] == ("step", 2)
    assert shown.page.locator('[data-table="mask_next_ref"] .read').count() == 1


def test_predictions_are_points_and_a_table(view: Callable[..., View]) -> None:
    points = (PredictedPoint("added", 2e6, 1e6, 3e-6), PredictedPoint("missing", 0.0, 0.0, 0.0))
    roofs = (RoofOfDtype("bfloat16", 197e12), RoofOfDtype("int8", 393e12))
    shown = view(document(roofline=RooflinePicture(819e9, roofs, points, "Each point.")))
    rows = shown.page.locator("#roofline tr").all_inner_texts()
    assert [row.split("\t") for row in rows[1:]] == [
        ["added", "2.00 MB", "1.00 Mop", "0.500", "3.00 µs", "333 Gop/s"],
        ["missing", *"–" * 5],
    ]
    assert shown.page.locator("#roofline-picture").is_visible()
    todo = replace(points[0], bytes=0.0, operations=0.0, seconds=0.0)
    unanswered = RooflinePicture(819e9, roofs, (todo,), "The roofline.")
    words = view(document(roofline=unanswered)).page.locator("#roofline").inner_text()
    assert "The programs: added." in words


@pytest.mark.parametrize("name", ["tiles_per_group", "write_the_test", "leave_it_to_xla"])
@pytest.mark.parametrize("width", [360, 1600])
def test_what_has_no_launch_has_a_page_of_every_width(
    view: Callable[..., View], asking: WorkerClient, name: str, width: int
) -> None:
    kata = repository.single_kata(ROOT, name)
    case = cost_studies.any_case_of(kata, 0, 0, {})
    size = {"width": width, "height": 800}
    shown = view(gather_without_launch(asking, kata, case), viewport=size)
    assert shown.overflow() == 0
    assert "still to do" in shown.page.locator("#verdict").inner_text()
    assert shown.page.locator("main > section:visible").count() == 1


@pytest.mark.parametrize("name", ["ring_of_slots", "async_copy", "right_permute", "row_gather"])
def test_every_kind_fits_a_narrow_screen(
    view: Callable[..., View], of_solution: Documents, name: str
) -> None:
    shown = view(of_solution(name), viewport={"width": 360, "height": 800}, color_scheme="dark")
    shown.page.keyboard.press("End")
    assert shown.overflow() == 0
