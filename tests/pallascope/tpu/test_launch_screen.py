"""One screen for a launch, and the table of a sweep."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

import pytest
from rich.console import RenderableType

from pallascope.model import Role, Route
from pallascope.tools.text import render_text
from pallascope.tpu import Prediction
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.launch_screen import Launch, Side, screen
from pallascope.tpu.schedule import OperandDmas
from pallascope.tpu.sweep import SweepRow, table
from pallascope.tpu.traffic import BY_THE_KERNEL, OUTSIDE
from tests.pallascope.support.calls import call, operand
from tests.pallascope.support.sample_predictions import (
    SIZE,
    matmul,
    prediction,
    refused,
    rows,
    schedule,
    vmem,
)

ESCAPES = re.compile(r"\x1b\[[0-9;]*m")

SLOW = prediction(
    schedule(3000, 1200, {"MXU": 800, "scalar": 400}, size=20 * SIZE, spills=1234),
    traffic=rows(matmul(), counts=(16, 8, 4)),
)
PAR = prediction(schedule(1500, 1200, {"MXU": 800, "scalar": 400}, size=8 * SIZE))


def shown(what: RenderableType, width: int = 80, **options: Any) -> str:
    return render_text(what, width, options.pop("colour", False), **options)


def launch(*own: Prediction, par: Prediction | None = PAR, **changed: Any) -> Launch:
    given: dict[str, Any] = {
        "name": "tiled_matmul",
        "drawn": "bm=128, M=512, dtype=bfloat16",
        "chip": "v5e",
        "own": Side("yours", own),
        "par": Side("par", (par,)) if par else None,
        "xla": Estimate(1200, moved=320 << 10, computing=600e-9),
        "notes": ("the end",),
    }
    return Launch(**{**given, **changed})


WHOLE = """\
tiled_matmul on a TPU v5e, predicted: nothing was run
bm=128, M=512, dtype=bfloat16

                 yours      par  ratio       XLA
time              2 µs     1 µs  2.00×  ≥ 600 ns
HBM bytes      640 KiB  256 KiB  2.50×   320 KiB
VMEM           128 KiB  128 KiB
bandwidth          40%      32%
waiting            60%      20%
spills           1,234        0
bound by   DMA latency      MXU

kernel double, grid (4, 1, 2): 8 steps
  bound by DMA latency: 60% of the time is spent waiting; 640 KiB at 819 GB/s
  take 800 ns, 40% of the time

  waiting      1.2 µs  60%  ██████████████
  MXU          533 ns  27%  ██████
  scalar core  267 ns  13%  ███

  operand           block       moves    bytes  refetch    VMEM  waits
  x_ref    in       (128, 128)     16  512 KiB     2.0×  64 KiB    60%
  y_ref    in       (128, 128)      8  256 KiB     4.0×  64 KiB
  o_ref    out      (128, 128)      4  128 KiB     1.0×  64 KiB
  acc_ref  scratch  (128, 128)                           64 KiB
  VMEM: 128 KiB of 16 MiB (blocks 96 KiB, scratch 32 KiB)
  spills: vector registers are saved or fetched back 1,234 times

what costs most, and what to try
"""


def test_what_goes_over_the_links() -> None:
    own, par = (dataclasses.replace(PAR, sent=blocks << 10) for blocks in (48, 36))
    text = shown(screen(launch(own, par=par)))
    assert re.search(r"^link bytes +48 KiB +36 KiB +1.33×$", text, re.MULTILINE)
    unknown = dataclasses.replace(PAR, sent=None)
    text = shown(screen(launch(unknown, par=par)))
    assert re.search(r"^link bytes +– +36 KiB$", text, re.MULTILINE)
    assert "link bytes" not in shown(screen(launch(PAR)))


def test_the_busiest_link_is_compared() -> None:
    """Both send the same; one of them in one direction."""
    ways = (("x", 1),), (("x", -1),)
    half, whole = 12 << 20, 24 << 20
    own = dataclasses.replace(PAR, sent=whole, routes=(Route(ways[0], whole),))
    par = dataclasses.replace(PAR, sent=whole, routes=tuple(Route(way, half) for way in ways))
    text = shown(screen(launch(own, par=par)))
    assert re.search(r"^link bytes +24 MiB +24 MiB +1.00×$", text, re.MULTILINE)
    assert re.search(r"^link time +503 to 591 µs +252 to 299 µs +2.00×$", text, re.MULTILINE)


def test_what_is_multiplied_while_something_comes() -> None:
    own, par = (dataclasses.replace(PAR, sent=1 << 10, covered=part) for part in (0.0, 0.75))
    assert re.search(r"^overlap +0% +75%$", shown(screen(launch(own, par=par))), re.MULTILINE)
    assert "overlap" not in shown(screen(launch(PAR)))


def test_the_whole_screen() -> None:
    text = shown(screen(launch(SLOW)))
    assert text.startswith(WHOLE)
    advised = text.removeprefix(WHOLE).splitlines()
    heads = [line for line in advised if re.match(r"\d\.", line)]
    assert [line[:2] for line in heads] == ["1.", "2.", "3."]
    assert "The core waits for x_ref's block" in heads[0]
    assert sum("try: " in line for line in advised) == 3
    assert advised[-8:] == [
        "",
        "v5e: predicted times of 16 µs or more are within 22% of measured ones; no",
        "shorter times are known to compare with",
        "par: on the same chip, so most errors of a prediction are in both times",
        "XLA: the same in jax.numpy, without Pallas. It takes at least 400 ns for its",
        "bytes and 600 ns for its operations, at the chip's bandwidth and peaks",
        "XLA's own estimate of its time is 800 ns; such estimates are rough",
        "the end",
    ]


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("own", [SLOW, refused(), prediction()], ids=["slow", "refused", "blocks"])
def test_it_keeps_to_the_width_and_cuts_nothing(own: Prediction, width: int) -> None:
    text = shown(screen(launch(own)), width)
    assert max(map(len, text.splitlines())) <= width
    assert "…" not in text
    for name in ("x_ref", "y_ref", "acc_ref", "(128, 128)", "256 KiB"):
        assert name in text


def test_a_narrow_screen_has_a_paragraph_for_each_operand() -> None:
    text = shown(screen(launch(SLOW)), 40)
    assert not re.search(r"\bratio\b", text)
    assert (
        "  x_ref in (128, 128)\n"
        "    16 moves, bytes 512 KiB, refetch\n"
        "    2.0×, VMEM 64 KiB, waits 60%\n"
    ) in text


def test_a_wide_screen_has_the_arrays_too() -> None:
    assert "bfloat16[512, 256]  (128, 128)" in shown(screen(launch(SLOW)), 120)


def test_colour_adds_escapes_and_no_text() -> None:
    coloured = shown(screen(launch(SLOW)), colour=True)
    assert coloured != shown(screen(launch(SLOW)))
    plain = "\n".join(line.rstrip() for line in ESCAPES.sub("", coloured).splitlines()) + "\n"
    assert plain == shown(screen(launch(SLOW)))


def test_it_can_do_without_unicode() -> None:
    text = shown(screen(launch(SLOW)), encoding="ascii")
    assert text.isascii()
    assert "waiting      1.2 us  60%  ##############" in text
    assert "?" not in text


def test_square_brackets_are_text() -> None:
    unchecked = prediction(unknown="pip install '.[tpu]'")
    assert "(pip install '.[tpu]')" in shown(screen(launch(unchecked)), 120)
    tries = [SweepRow({"bm": 8}, trouble="[red]no[/red]")]
    assert "[red]no[/red]" in shown(table(tries))


# ---- beside par and XLA ----


def test_without_par_or_xla_there_is_one_column() -> None:
    text = shown(screen(launch(SLOW, par=None, xla=None)))
    assert re.search(r"\n +yours\ntime +2 µs\n", text)
    assert "XLA" not in text
    assert not re.search(r"\bpar\b", text)


def xla_column(found: Estimate, chip: str = "v5e") -> tuple[str, str, str]:
    """The time and the bytes in XLA's column, and the notes under the table."""
    shown_launch = dataclasses.replace(launch(SLOW, xla=found), chip=chip)
    text = shown(screen(shown_launch), 120)
    rows_of = [re.search(rf"^{row} .*×  +(.*)$", text, re.MULTILINE) for row in ("time", "HBM")]
    time, moved = (found[1] if found else "" for found in rows_of)
    return time, moved, text[text.index("\nXLA") :]


@pytest.mark.parametrize(
    ("moved", "computing", "floor"),
    [(819_000, 0.4e-6, "≥ 1 µs"), (819_000, 3e-6, "≥ 3 µs"), (819_000, 0.0, "≥ 1 µs")],
    ids=["bytes take longer", "operations take longer", "nothing is computed"],
)
def test_the_time_of_xla_is_the_floor_of_its_bytes_and_operations(
    moved: int, computing: float, floor: str
) -> None:
    for cycles in (0, 1500, 1_500_000):  # XLA's own estimate changes nothing
        found = Estimate(cycles, "" if cycles else "why", moved, computing)
        time, bytes_, notes = xla_column(found)
        assert (time, bytes_) == (floor, "800 KiB")
        assert "It takes at least 1 µs for its bytes" in notes
        assert ("for its operations" in notes) == bool(computing)
        assert "XLA's own estimate of its time" in notes


def test_both_cores_of_a_chip_run_xlas_program() -> None:
    assert xla_column(Estimate(1, moved=2_765_000), "v5p")[0] == "≥ 1 µs"


def test_without_its_bytes_xlas_time_is_left_out() -> None:
    time, _, notes = xla_column(Estimate(1500, computing=3e-6))
    assert time == "–"
    assert "Its bytes, and so the least time for them, are unknown" in notes
    time, _, notes = xla_column(Estimate(0, "XLA has no estimate for while"))
    assert time == "–"
    assert "without Pallas: XLA has no estimate for while" in notes


@pytest.mark.parametrize(
    ("chip", "milliseconds", "said"),
    [
        (
            "v5e",
            0.7,
            "16 µs or more are within 22% of measured ones: 574 to 897 µs for this one",
        ),
        ("v5e", 0.9, "within 13% of measured ones: 796 µs to 1.03 ms for this one"),
        ("v5e", 0.001, "within 22% of measured ones; no shorter times are known to compare with"),
        ("v6e", 1, "of 750 µs or more are within 16%"),
        (
            "v6e",
            0.1,
            "9 µs or more, of copies only, are within 10% of measured ones: 93.2 to 114",
        ),
        ("v6e", 0.005, "no shorter times are known"),
        ("v5p", 1, "of 400 µs or more are within 16%"),
        ("v4", 1, "no measured times are known"),
        ("tpu7x", 1, "wrong by a factor of up to 2.8"),
    ],
)
def test_the_accuracy_is_that_of_measured_times_as_long(
    chip: str, milliseconds: float, said: str
) -> None:
    own = dataclasses.replace(
        prediction(schedule(milliseconds / 1e3 * CHIPS[chip].clock, 1)), chip=chip
    )
    shown_launch = dataclasses.replace(launch(own, par=None, xla=None), chip=chip)
    assert said in shown(screen(shown_launch), 120)


def test_par_that_does_not_get_there_is_told_in_a_line() -> None:
    par = Side("par", trouble="needs 36 MiB of VMEM")
    text = shown(screen(dataclasses.replace(launch(SLOW), par=par)))
    assert "par: needs 36 MiB of VMEM" in text
    assert not re.search(r"\bratio\b", text)


def test_at_par_it_says_how_to_go_beyond() -> None:
    text = shown(screen(launch(PAR)))
    assert "1.00×" in text
    assert "at par; to go beyond it" in text
    assert "y_ref moves 256 KiB in 8 blocks" in text
    assert "innermost" in text


def test_at_hbms_limit_nothing_is_offered() -> None:
    """Waiting for an HBM that is always busy is no time to be saved."""
    once = rows(matmul(), (8, 2, 4))
    busy = schedule(850, 120, {"VPU": 120}, size=14 * SIZE)
    counted = prediction(busy, traffic=once)
    unknown = [dataclasses.replace(row, bytes=None, least=None) for row in once.operands]
    by_hand = prediction(busy, traffic=dataclasses.replace(once, operands=tuple(unknown)))
    for own in (counted, by_hand):
        for par in (None, own):
            text = shown(screen(launch(own, par=par)))
            assert re.search(r"^bandwidth +99%", text, re.MULTILINE)
            assert re.search(r"^waiting +86%", text, re.MULTILINE)
            assert "up to" not in text
            assert "Nothing to save: HBM is busy nearly all of the time" in text


def test_the_costliest_few_are_enough() -> None:
    """A wait that is half of a small kernel's time is little of the launch's."""
    moved = tuple(OperandDmas(f"x{n}_ref", True, 0, 300.0 - n) for n in range(5))
    ran = dataclasses.replace(schedule(3000, 1500, {"MXU": 1500}), moved=moved)
    traffic = dataclasses.replace(rows(matmul(), counts=(8, 2, 4)), grid=(1,))
    waiting = prediction(ran, traffic=traffic)
    text = shown(screen(launch(waiting, par=None)))
    assert [name in text for name in ("x0_ref's", "x2_ref's", "x3_ref's")] == [True, True, False]
    long = prediction(schedule(90_000, 90_000, {"MXU": 90_000}))
    assert "x0_ref's" not in shown(screen(launch(waiting, long, par=None)))


def test_what_is_told_once_is_not_told_again() -> None:
    moved = (
        OperandDmas("x_ref", True, 0, 700.0),
        OperandDmas("y_ref", True, 0, 600.0),
    )
    waiting = dataclasses.replace(schedule(3000, 1700, {"MXU": 1700}), moved=moved)
    text = shown(screen(launch(prediction(waiting), par=None)))
    assert text.count("The next block moves during") == 1
    assert "x_ref's block to arrive, 467 ns" in text
    assert re.search(r"y_ref's block to arrive, 400 ns.*\n(.*\n)?   try: the same\.", text)


# ---- what does not get there ----


def test_what_keeps_a_launch_from_a_kernel_stands_in_its_place() -> None:
    trouble = (
        "Mosaic cannot lower sort.\n"
        "  error  Mosaic has no lowering for sort of\n"
        "         float32[8, 128].\n"
        "  line   double.py:3\n"
        "             jnp.sort(x)"
    )
    own = Side("yours", trouble=trouble)
    text = shown(screen(dataclasses.replace(launch(), own=own)))
    assert (
        "Mosaic cannot lower sort.\n"
        "  error  Mosaic has no lowering for sort of float32[8, 128].\n"
        "  line   double.py:3\n"
        "             jnp.sort(x)\n"
        "\n"
    ) in text
    assert re.search(r"\n +par +XLA\ntime +1 µs +≥ 600 ns\n", text)
    assert "kernel double" not in text


def test_a_kernel_that_is_refused_has_its_reason_in_its_place() -> None:
    own = Side("yours", (PAR, refused()), refusals=("", "Needs 36 MiB.\n  vmem   too large"))
    text = shown(screen(dataclasses.replace(launch(), own=own)))
    first, second = text.split("kernel double")[1:]
    assert "bound by MXU" in first
    assert "  Needs 36 MiB.\n    vmem  too large\n" in second
    assert "y_ref    in" in second
    assert "what to try" not in text


def test_a_refusal_without_better_words_has_the_numbers() -> None:
    text = shown(screen(launch(refused())))
    assert "it needs more VMEM than it may have\n    needs  36 MiB, of 16 MiB\n" in text
    assert "x_ref  2 × bf16[128,128]  36 MiB" in text
    assert "fits   (32, 128) of x_ref" in text


def test_without_the_compiler_it_says_what_is_not_checked() -> None:
    text = shown(screen(launch(prediction(unknown="no libtpu"), par=None, xla=None)))
    assert "HBM bytes  640 KiB" in text
    assert "VMEM: 256 KiB for blocks and scratch, by their shapes" in text
    assert "not checked: whether the TPU's compiler accepts it, its time and spills (no\n" in text
    assert "bound by" not in text
    assert "y_ref moves 256 KiB" in text


def test_a_kernel_without_a_time_says_why() -> None:
    text = shown(screen(launch(prediction(compiled=True, unknown="a branch on data"))))
    assert "  no predicted time: a branch on data\n" in text


def test_a_lower_bound_is_told_as_such() -> None:
    bounded = prediction(schedule(3000, 1200, size=8 * SIZE, least="a DMA from HBM to HBM"))
    text = shown(screen(launch(bounded)))
    assert re.search(r"^time +≥ 2 µs +1 µs +≥ 2\.00×", text, re.MULTILINE)
    assert "its time is a lower bound (a DMA from HBM to HBM)" in text
    text = shown(screen(launch(PAR, par=bounded)))
    assert re.search(r"^time +1 µs +≥ 2 µs +≥ 600 ns", text, re.MULTILINE)
    tried = shown(table([SweepRow({"bm": 8}, (bounded,))]))
    assert "≥ 2 µs" in tried


def test_an_output_that_is_not_covered_is_pointed_out() -> None:
    parts = rows(matmul())
    output = dataclasses.replace(parts.operands[2], least=3 * SIZE)
    some = dataclasses.replace(parts, operands=(*parts.operands[:2], output, parts.operands[3]))
    text = shown(screen(launch(prediction(PAR.schedule, traffic=some))))
    assert "the grid writes 75% of o_ref: do the blocks divide its dimensions?" in text
    assert "the grid writes" not in shown(screen(launch(PAR)))


def test_a_note_on_an_operand_stands_below_the_table() -> None:
    outside = rows(matmul(), moves=None, bytes=None, least=None, note=OUTSIDE)
    own = prediction(schedule(1000, 900, size=SIZE), traffic=outside)
    text = shown(screen(launch(own)))
    assert f"x_ref: {OUTSIDE}" in text
    assert re.search(r"x_ref +in +\(128, 128\) +– +32 KiB", text)  # as scheduled


def test_what_the_kernel_copies_itself_has_no_block() -> None:
    copied = rows(matmul(), moves=None, bytes=None, least=None, note=BY_THE_KERNEL)
    own = prediction(schedule(1000, 900, size=SIZE), traffic=copied)
    text = shown(screen(launch(own)))
    assert re.search(r"x_ref +in +by hand +– +32 KiB", text)  # as scheduled
    counted = prediction(traffic=rows(matmul(), note=BY_THE_KERNEL), compiled=True, unknown="?")
    assert re.search(r"x_ref +in +by hand +8 +256 KiB", shown(screen(launch(counted))))


def test_padding_has_a_column_where_there_is_any() -> None:
    padded = rows(matmul(), padding=6 * SIZE)
    own = prediction(PAR.schedule, traffic=padded)
    assert re.search(r"padding.*\n +x_ref .* 75%", shown(screen(launch(own))))
    assert "padding " not in shown(screen(launch(PAR)))


# ---- kernels, grids ----


def test_each_kernel_of_a_launch_has_its_block_and_its_share() -> None:
    text = shown(screen(launch(SLOW, PAR, par=None)))
    assert "8 steps, 2 µs (67% of the launch)" in text
    assert "8 steps, 1 µs (33% of the launch)" in text
    assert re.search(r"time +3 µs", text)
    assert re.search(r"HBM bytes +896 KiB", text)
    assert re.search(r"\nbound by +DMA latency\n", text)  # the longer one's
    assert "1. double: The core waits" in text
    large = dataclasses.replace(vmem(), used=1 << 20)
    larger = dataclasses.replace(PAR, vmem=large)
    assert re.search(r"VMEM +1 MiB\n", shown(screen(launch(SLOW, larger, par=None))))


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ((), "no grid: one step"),
        ((1,), "grid (1,): 1 step\n"),
        ((64, 32), "grid (64, 32): 2,048 steps"),
        ((None, 2), "a grid whose size is known only at run time"),
    ],
    ids=str,
)
def test_the_grid_in_words(grid: tuple[int | None, ...], words: str) -> None:
    traffic = dataclasses.replace(rows(matmul()), grid=grid)
    assert words in shown(screen(launch(prediction(PAR.schedule, traffic=traffic))))


def test_scratch_without_vmem_is_left_out() -> None:
    semaphore = operand("sem", (), (), Role.SCRATCH, dtype="dma_sem", space="semaphore_mem")
    kernel = call(*matmul().operands, semaphore, grid=(4, 1, 2))
    whole = rows(matmul())
    empty = dataclasses.replace(whole.operands[3], name="sem", vmem=0)
    traffic = dataclasses.replace(whole, operands=(*whole.operands, empty))
    own = prediction(PAR.schedule, call=kernel, traffic=traffic, reuse=(None,) * 5)
    assert "sem" not in shown(screen(launch(own, par=None)))


# ---- sweeps ----


def tried(**sizes: int) -> dict[str, int]:
    return sizes


def partly(position: int, part: float) -> Prediction:
    """A kernel that covers part of one operand."""
    parts = list(rows(matmul()).operands)
    one = parts[position]
    parts[position] = dataclasses.replace(one, least=int(one.stored * part))
    return prediction(
        schedule(500, 400), traffic=dataclasses.replace(rows(matmul()), operands=tuple(parts))
    )


SWEPT = [
    SweepRow({"bm": 128, "bn": 256}, (SLOW,)),
    SweepRow({"bm": 256, "bn": 256}, (PAR,)),
    SweepRow({"bm": 384, "bn": 256}, (partly(2, 0.75),)),
    SweepRow({"bm": 512, "bn": 256}, (partly(0, 0.5),)),
    SweepRow({"bm": 100, "bn": 256}, trouble="a TPU refuses block (100, 256)"),
    SweepRow({"bm": 2048, "bn": 256}, (refused(),)),
    SweepRow({"bm": 64, "bn": 256}, (prediction(compiled=True, unknown="a DMA within HBM"),)),
]


def test_a_sweep_marks_the_fastest_and_says_what_is_wrong_with_others() -> None:
    assert shown(table(SWEPT)) == (
        "  bm   bn    time  HBM bytes     VMEM  bound by\n"
        " 128  256    2 µs    640 KiB  128 KiB  DMA latency\n"
        " 256  256    1 µs    256 KiB  128 KiB  MXU          ← fastest\n"
        " 384  256  333 ns        0 B  128 KiB  MXU          writes 75% of o_ref\n"
        " 512  256  333 ns        0 B  128 KiB  MXU          reads 50% of x_ref\n"
        " 100  256       –          –        –  –            a TPU refuses block (100,\n"
        "                                                    256)\n"
        "2048  256       –    640 KiB  256 KiB  –            needs 36 MiB of VMEM\n"
        "  64  256       –    640 KiB  256 KiB  –            a DMA within HBM\n"
        "\n"
        "fastest: bm=256 bn=256\n"
    )


def test_a_narrow_sweep_has_a_paragraph_for_each_combination() -> None:
    text = shown(table(SWEPT), 40)
    assert max(map(len, text.splitlines())) <= 40
    assert (
        "bm=256 bn=256\n  time 1 µs, HBM bytes 256 KiB, VMEM 128\n  KiB, bound by MXU, ← fastest"
        in text
    )
    assert "bm=100 bn=256\n  a TPU refuses block (100, 256)\n" in text


def test_what_is_not_written_comes_before_what_is_not_read() -> None:
    first, other = (partly(position, 0.5).traffic.operands for position in (0, 2))
    operands = (first[0], *other[1:])
    traffic = dataclasses.replace(rows(matmul()), operands=operands)
    both = prediction(schedule(500, 400), traffic=traffic)
    text = shown(table([SweepRow({"bm": 1}, (both,)), SweepRow({"bm": 2}, (PAR,))]))
    assert "writes 50% of o_ref" in text
    assert "reads" not in text


def test_an_output_that_none_writes_whole_is_held_against_all() -> None:
    text = shown(table([SweepRow({"bm": 1}, (partly(2, 0.75),))]))
    assert "writes 75% of o_ref" in text
    assert "fastest" not in text


def test_an_input_that_none_reads_whole_is_not_held_against_any() -> None:
    assert "reads" not in shown(table([SweepRow({"bm": 1}, (partly(0, 0.5),))]))


def test_without_times_the_fewest_bytes_are_marked() -> None:
    unknown = "pip install '.[tpu]'"
    more = prediction(unknown=unknown, traffic=rows(matmul(), counts=(16, 8, 4)))
    text = shown(
        table([SweepRow({"bm": 1}, (more,)), SweepRow({"bm": 2}, (prediction(unknown=unknown),))])
    )
    assert re.search(r" 2 .*← fewest bytes\n", text)
    assert "fewest bytes: bm=2\n" in text
    assert text.count(unknown) == 1
    assert "not checked: times, and whether it fits into VMEM (pip install '.[tpu]')" in text


def test_what_a_table_leaves_out_of_an_input_is_not_held_against_a_size() -> None:
    tables = operand("t_ref", (8,), role=Role.PREFETCH)
    halves = [
        dataclasses.replace(one, call=dataclasses.replace(one.call, operands=(tables,)))
        for one in (partly(0, 0.5), partly(0, 1.0))
    ]
    both = [SweepRow({"bm": size}, (one,)) for size, one in enumerate(halves, 1)]
    assert "reads" not in shown(table(both))


def test_a_sweep_of_nothing_good_marks_none() -> None:
    assert "fastest" not in shown(
        table([SweepRow({"bm": 8}, trouble="no"), SweepRow({"bm": 9}, (refused(),))])
    )
