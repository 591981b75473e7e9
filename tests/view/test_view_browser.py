"""The page of `kata view` in a browser: loads, plays, steps; its numbers are the traffic's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

from grader.view.document import (
    SCHEMA,
    Document,
    VerdictView,
    WrongElements,
)
from grader.view.kernel_view import EVENTS, kernel_of, wrong_of
from grader.view.launch_view import page as page_of
from pallascope.checks.compare import Sum, compare
from pallascope.kernels.lowering import TracedKernel
from pallascope.model import Mode, Role, Roundings
from pallascope.tpu import predictions
from pallascope.tpu.pipeline_steps import follow, motions
from pallascope.tpu.traffic import Traffic, traffic
from tests.pallascope.support import manual_dma_launches
from tests.pallascope.support.calls import array
from tests.pallascope.support.launches import on_v5e, shape
from tests.pallascope.support.solved_katas import GROUPS, TILE, arguments

WIDE, NARROW = {"width": 1280, "height": 800}, {"width": 390, "height": 844}
LONG = 10_000  # steps


class View:
    """One page, opened from a file; what went wrong in it, and what it asked for."""

    def __init__(self, browser: Any, file: Path, step: int = 1, **options: Any) -> None:
        self.file = file
        self.page = browser.new_page(**{"viewport": WIDE, **options})
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(message.text))
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", lambda asked: self._asked(asked.url))
        self.page.goto(f"{file.as_uri()}#step={step}")

    def _asked(self, address: str) -> None:
        if not address.startswith((self.file.as_uri(), "data:")):
            self.faults.append(f"asks for {address}")

    def at(self, step: int) -> None:
        """Move the slider: steps and other positions are counted from 1."""
        self.page.locator("#slider").fill(str(step))

    @property
    def step(self) -> int:
        return int(self.page.locator("#slider").input_value())

    def bytes(self, name: str) -> int:
        return int(self.page.locator(name).get_attribute("data-bytes"))

    def operand(self, label: str) -> Any:
        return self.page.locator(f'[data-operand="{label}"]')

    def overflow(self) -> int:
        return self.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.fixture
def view(browser: Any, tmp_path: Path) -> Iterator[Callable[..., View]]:
    """Opens documents; at the end none of them may have complained or asked for anything."""
    opened: list[View] = []

    def show(document: Document, step: int = 1, **options: Any) -> View:
        file = tmp_path / f"{len(opened)}.html"
        file.write_text(page_of(document), encoding="utf-8")
        opened.append(View(browser, file, step, **options))
        return opened[-1]

    yield show
    for one in opened:
        one.page.close()
        assert one.faults == []


def document(*kernels: Any, **changed: Any) -> Document:
    given: dict[str, Any] = {
        "schema": SCHEMA,
        "name": "tiled_matmul",
        "title": "Tiled matmul",
        "case": "M=256",
        "chip": "v5e",
        "whose": "yours",
        "verdict": VerdictView("passed", "right, ★★★"),
        "trouble": "",
        "kernels": kernels,
        "other": (),
    }
    return Document(**{**given, **changed})


@pytest.fixture(scope="module")
def matmul() -> Document:
    """The solved matmul of 2 x 2 x 3 steps, as predicted where libtpu is there."""
    jax.config.update("jax_platforms", "cpu")
    launch, args, keywords = arguments("tiled_matmul")
    (motion,) = motions(launch, *args, **keywords)
    (predicted,) = predictions(launch, *args, events=EVENTS, **keywords)
    return document(kernel_of(motion, predicted, "v5e"))


def so_far(kernel: TracedKernel, step: int) -> tuple[dict[str, int], int]:
    """What traffic counts of the first steps alone: bytes by operand, and the least in all.

    A block that is still to be written back at the last of these steps is not counted.
    """
    blocks = kernel.block_positions()
    found: dict[str, int] = {}
    least = 0
    for position, operand in enumerate(kernel.call.operands):
        starts = blocks.starts[position]
        if starts is None:
            continue
        kept = starts[: step + 1]
        if operand.role is Role.OUTPUT and step + 1 < len(starts):
            same = (starts == starts[step + 1]).all(axis=1)
            last = step + 1
            while last and same[last - 1]:
                last -= 1
            kept = starts[:last]
        row = counted(kernel, position, kept)
        found[operand.name] = sum(o.bytes or 0 for o in row.operands)
        least += row.least
    return found, least


def counted(kernel: TracedKernel, position: int, starts: Any) -> Traffic:
    """The traffic of one operand over some steps."""
    if not len(starts):
        return Traffic("none", (), (), ())
    call = replace(kernel.call, operands=(kernel.call.operands[position],))
    return traffic(call, (len(starts),), (starts,))


def test_its_numbers_are_the_traffics(view: Callable[..., View], matmul: Document) -> None:
    launch, args, keywords = arguments("tiled_matmul")
    kernel = on_v5e(lambda x, y: launch(x, y, **keywords), *args)
    blocks = kernel.block_positions()
    whole = traffic(kernel.call, blocks.grid, blocks.starts, blocks.unknown)
    shown = view(matmul)
    assert (shown.bytes("#hbm-total"), shown.bytes("#hbm-least")) == (whole.bytes, whole.least)
    for step in (0, 2, 5, 7, 11):
        shown.at(step + 1)
        expected, least = so_far(kernel, step)
        for label, size in expected.items():
            card = shown.operand(label)
            assert int(card.locator(".bytes-now").get_attribute("data-bytes")) == size, step
        assert shown.bytes("#hbm-now") == sum(expected.values()), step
        assert shown.bytes("#hbm-least-now") == least, step
    assert (shown.bytes("#hbm-now"), shown.bytes("#hbm-least-now")) == (whole.bytes, whole.least)
    for row in whole.operands[:3]:
        words = shown.operand(row.name).locator(".moves-now").inner_text()
        assert int(words) == row.moves


def test_each_step_is_told_in_a_sentence(view: Callable[..., View], matmul: Document) -> None:
    shown = view(matmul, step=6)
    sentence = shown.page.locator("#sentence").inner_text()
    assert sentence == (
        "x_ref block (0, 2) arrives; y_ref block (2, 1) arrives; "
        "o_ref block (0, 1) is written back."
    )
    assert shown.page.locator(".where").inner_text().split("\n") == ["step 6 of 12 (0, 1, 2)"]
    shown.page.keyboard.press("ArrowLeft")
    assert "; o_ref block (0, 1) stays." in shown.page.locator("#sentence").inner_text()
    slots = shown.operand("x_ref").locator(".slot").all_inner_texts()
    assert sorted(map(str.split, slots)) == [["(0,", "1)", "just", "in"], ["(0,", "2)", "filling"]]


def test_keys_buttons_and_address_move_it(view: Callable[..., View], matmul: Document) -> None:
    shown = view(matmul, step=3)
    page = shown.page
    assert shown.step == 3
    for key, step in (("ArrowRight", 4), ("End", 12), ("Shift+ArrowLeft", 2), ("Home", 1)):
        page.keyboard.press(key)
        assert shown.step == step, key
    page.click("#on")
    page.click("#last")
    page.click("#back")
    assert shown.step == 11
    assert page.evaluate("location.hash") == "#step=11"
    page.click("#first")
    page.keyboard.press("Shift+Slash")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    speed = page.locator("#speed").input_value()
    page.keyboard.press("+")
    assert int(page.locator("#speed").input_value()) > int(speed)


def test_it_plays_to_the_end_and_again(view: Callable[..., View], matmul: Document) -> None:
    page = view(matmul, reduced_motion="reduce").page
    page.select_option("#speed", "64")
    page.locator("#speed").blur()
    page.keyboard.press("Space")
    _until(page, "document.getElementById('slider').value === '12'")
    _until(page, "document.getElementById('play').title === 'play (space)'")
    page.select_option("#speed", "1")
    page.click("#play")
    assert page.evaluate("kataView.state.playing")
    page.keyboard.press("End")
    assert not page.evaluate("kataView.state.playing")


def _until(page: Any, condition: str) -> None:
    """Wait for a condition; the page's own policy forbids Playwright's way to."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(25)
    pytest.fail(f"never: {condition}")


# ---- copies by hand ----


def by_hand(launch: Callable[..., Any]) -> Document:
    """A kernel that moves four parts of an array through two slots, as predicted."""
    jax.config.update("jax_platforms", "cpu")
    x = shape("float32", 512, 256)
    (motion,), (predicted,) = motions(launch, x), predictions(launch, x, events=EVENTS)
    return document(kernel_of(motion, predicted, "v5e"))


@pytest.mark.parametrize(
    ("launch", "turns"),
    [(manual_dma_launches.double_buffer, False), (manual_dma_launches.one_after_another, True)],
)
def test_a_double_buffer_that_does_not_overlap_is_seen(
    view: Callable[..., View], launch: Callable[..., Any], turns: bool
) -> None:
    drawn = by_hand(launch)
    if drawn.kernels[0].timeline is None:
        pytest.skip("needs libtpu")
    page = view(drawn).page
    told = page.locator("#overlap").inner_text()
    assert "x_ref in: 4 DMAs, 2 slots (came[0], came[1]), counted by came_sem[0]" in told
    assert ("Copying and computing take turns" in told) == turns
    assert (page.locator("#overlap").get_attribute("class") == "small turns") == turns
    assert "4 DMAs" in page.locator('[data-operand="x_ref"] .counts').inner_text()
    sentence = page.locator("#sentence").inner_text()
    assert sentence.startswith("Before the loop, the copy x_ref → ") != turns
    assert "n turn 1, the co" in sentence
    assert "slots that it copies to" in page.locator("#scratch-words").inner_text()
    assert page.locator("#hbm-steps").is_hidden()


def test_a_moment_of_the_timeline_is_told_in_words(view: Callable[..., View]) -> None:
    drawn = by_hand(manual_dma_launches.double_buffer)
    if drawn.kernels[0].timeline is None:
        pytest.skip("needs libtpu")
    page = view(drawn).page
    for _ in range(2):
        page.keyboard.press("ArrowRight")  # to the third turn of its loop
    assert page.locator("#step").inner_text() == "turn 3"
    told = page.locator("#moment").inner_text()
    assert "x_ref → came[0]: on its way until" in told
    assert "x_ref → came[1]: x_ref in use" in told
    assert "goes[0] → o_ref: on its way until" in told
    page.locator("#timeline").hover(position={"x": 250, "y": 30})
    assert "the core waits for x_ref (came[0])" in page.locator("#moment").inner_text()


def test_the_timeline_goes_with_the_slider(view: Callable[..., View], matmul: Document) -> None:
    timeline = matmul.kernels[0].timeline
    shown = view(matmul, step=6)
    canvas = shown.page.locator("#timeline")
    if timeline is None:
        assert not canvas.is_visible()
        assert "No timeline: pip install" in shown.page.locator("#timeline-words").inner_text()
        return
    assert len(timeline.steps) == 13
    assert "step 6 computes from" in canvas.get_attribute("aria-label")
    box = canvas.bounding_box()
    assert box
    canvas.click(position={"x": box["width"] * 0.95, "y": 60})
    assert shown.step >= 11


@pytest.mark.parametrize("colours", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_it_fits_in_light_and_dark(
    view: Callable[..., View], matmul: Document, size: dict[str, int], colours: str
) -> None:
    shown = view(matmul, viewport=size, color_scheme=colours)
    assert shown.overflow() == 0
    transport = shown.page.locator("#transport").bounding_box()
    assert transport
    assert transport["y"] + transport["height"] == size["height"]
    assert (sum(_background(shown)) < 3 * 64) == (colours == "dark")
    shown.page.click("#theme")
    assert (sum(_background(shown)) < 3 * 64) == (colours == "light")


def _background(shown: View) -> list[int]:
    words = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    return [int(number) for number in words.removeprefix("rgb(").rstrip(")").split(",")]


# ---- wrong elements ----


def wrong(blocks: list[tuple[int, int]]) -> WrongElements:
    """A result of 256 x 256 with these blocks of 128 x 128 wrong, the first one not a number."""
    launch, args, keywords = arguments("tiled_matmul")
    (motion,) = motions(launch, *args, **keywords)
    expected = np.zeros((256, 256))
    actual = expected.copy()
    for number, (i, j) in enumerate(blocks):
        part = slice(128 * i, 128 * (i + 1)), slice(128 * j, 128 * (j + 1))
        actual[part] = 1.0 if number else np.nan
    output = motion.call.role(Role.OUTPUT)[0]
    wanted = array(expected, "float64")
    found = compare("o_ref", array(actual), wanted, output, Roundings(1, 0), Sum(), Mode.STRICT)
    return wrong_of(found)


def test_wrong_blocks_are_coloured_and_listed(view: Callable[..., View], matmul: Document) -> None:
    (kernel,) = matmul.kernels
    x, y, o, acc = kernel.operands
    operands = (x, y, replace(o, wrong=wrong([(0, 1), (1, 1)])), acc)
    failed = VerdictView("failed", "too large", "values: o_ref: 2 of 4 blocks\n  why    because")
    shown = view(document(replace(kernel, operands=operands), verdict=failed))
    words = shown.operand("o_ref").locator(".wrong-words")
    assert words.get_attribute("data-wrong-blocks") == "2"
    assert "32,768 elements in 2 of 4 blocks" in words.inner_text()
    first = "o_ref block (0, 1): all 16,384 elements are wrong; not all of them are numbers."
    assert shown.page.locator("#finding summary").inner_text() == first
    assert "values: o_ref: 2 of 4 blocks" in shown.page.locator("#finding").inner_text()
    listed = shown.page.locator("#wrong-list td:first-child").all_inner_texts()
    assert listed == ["(0, 1)", "(1, 1)"]
    assert "not a number" in shown.page.locator("#wrong-list").inner_text()
    assert shown.page.locator("#finding .labelled b").inner_text() == "why"
    # Steps 10 to 12 make the second block of the lower row: until it has gone out, it isn't red.
    lower = (0.75, 0.75), (0.25, 0.75)
    shown.at(9)
    assert [_is_red(shown, *at) for at in lower] == [False, False]
    shown.at(12)
    assert [_is_red(shown, *at) for at in lower] == [True, False]
    shown.at(4)
    assert not _is_red(shown, 0.75, 0.75)
    shown.at(12)
    words.locator("input").uncheck()
    assert not _is_red(shown, 0.75, 0.75)


def _is_red(shown: View, x: float, y: float) -> bool:
    """Whether the picture of o_ref is red at a place, in fractions of its size."""
    code = """([x, y]) => {
      const canvas = document.querySelector('[data-operand="o_ref"] canvas');
      const one = document.createElement('canvas').getContext('2d');
      one.drawImage(canvas, -Math.round(x * canvas.width), -Math.round(y * canvas.height));
      return [...one.getImageData(0, 0, 1, 1).data];
    }"""
    red, green, _, _ = shown.page.evaluate(code, [x, y])
    return red > 180 and green < 90


# ---- tables, long grids, what can't be drawn ----


def test_the_cells_that_index_maps_read_are_marked(view: Callable[..., View]) -> None:
    launch, args, keywords = arguments("ragged_grouped_matmul")
    (motion,) = motions(launch, *args, **keywords)
    shown = view(document(kernel_of(motion, None, "v5e")))
    offsets = np.concatenate([[0], np.cumsum(GROUPS)])
    tiles = [
        (group, tile)
        for group in range(len(offsets) - 1)
        for tile in range(offsets[group] // TILE, -(-offsets[group + 1] // TILE))
        if offsets[group] < offsets[group + 1]
    ]
    columns, visits, k_steps = (n or 0 for n in motion.traffic.grid)
    assert visits == len(tiles)
    for step in (0, 7, motion.steps // 2 + 3, motion.steps - 1):
        shown.at(step + 1)
        visit = step // k_steps % visits
        for table, value in zip(("group_ids_ref", "m_tile_ids_ref"), tiles[visit], strict=True):
            read = shown.page.locator(f'[data-table="{table}"] .read')
            assert read.count() == 1
            assert read.get_attribute("data-cell") == str(visit), (table, step)
            assert read.inner_text() == str(value), (table, step)
    assert columns > 1
    assert shown.page.locator('[data-table="group_offsets_ref"] .read').count() == 0
    assert "no index map reads it" in shown.page.locator("#tables").inner_text()


def long() -> Document:
    """A matmul of 25 x 20 x 20 steps."""

    def kernel(x_ref: Any, y_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] + y_ref[...]

    cut = (128, 128)
    launch = pl.pallas_call(
        kernel,
        grid=(25, 20, 20),
        in_specs=[
            pl.BlockSpec(cut, lambda i, j, k: (i, k)),
            pl.BlockSpec(cut, lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec(cut, lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((25 * 128, 20 * 128), jnp.float32),
    )
    x, y = shape("float32", 25 * 128, 20 * 128), shape("float32", 20 * 128, 20 * 128)
    return document(kernel_of(follow(on_v5e(launch, x, y)), None, "v5e"))


def test_ten_thousand_steps_can_be_gone_through(view: Callable[..., View]) -> None:
    document = long()
    assert document.kernels[0].steps == LONG
    assert len(page_of(document)) < 3_000_000
    shown = view(document, step=4322)
    assert shown.page.locator("#step").inner_text() == "step 4,322"
    assert shown.page.locator("#index").inner_text() == "(10, 16, 1)"
    visited = shown.page.evaluate(
        "(n) => { for (let s = 1; s <= n; s++) kataView.go(s); return kataView.state.position; }",
        LONG,
    )
    assert visited + 1 == LONG
    assert shown.bytes("#hbm-now") == shown.bytes("#hbm-total")
    shown.at(18)
    assert shown.operand("x_ref").locator(".moves-now").inner_text() == "18"


def test_what_has_no_kernel_says_so(view: Callable[..., View]) -> None:
    shown = view(document(trouble="The file cannot be imported.\n  error  SyntaxError: no"))
    assert shown.page.locator("#nothing").inner_text() == "There is no kernel to draw."
    assert "SyntaxError: no" in shown.page.locator("#trouble").inner_text()
    shown.page.keyboard.press("Space")
    shown.page.keyboard.press("End")


def test_a_grid_of_unknown_size_is_drawn_without_steps(view: Callable[..., View]) -> None:
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    out = shape("float32", 32, 128)

    def launch(x: Any, n: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            o_ref[...] = x_ref[...]

        return pl.pallas_call(kernel, grid=(n,), in_specs=[spec], out_specs=spec, out_shape=out)(x)

    one = kernel_of(follow(on_v5e(launch, out, shape("int32"))), None, "v5e")
    shown = view(document(one))
    assert "not known before the run" in shown.page.locator("#sentence").inner_text()
    assert "not known" in shown.operand("x_ref").inner_text()
    assert shown.page.locator("#play").is_disabled()


def test_several_kernels_can_be_chosen_from(view: Callable[..., View], matmul: Document) -> None:
    first, second = matmul.kernels[0], long().kernels[0]
    page = view(document(first, second)).page
    page.keyboard.press("2")
    assert page.locator("#of").inner_text() == "of 10,000"
    assert page.evaluate("location.hash") == "#step=1&kernel=2"
    page.select_option("#kernel", "0")
    assert page.locator("#of").inner_text() == "of 12"
