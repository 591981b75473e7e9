"""What makes a kernel slow, in words, the costliest first."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from pallascope.model import CopyReason, RunCount, XlaCopy
from pallascope.tpu import Prediction
from pallascope.tpu.block_sizes import Reuse
from pallascope.tpu.bottlenecks import bottlenecks
from pallascope.tpu.chips import CHIPS
from pallascope.tpu.excess_traffic import Bottleneck
from pallascope.tpu.kernel_screen import kernel_notes
from pallascope.tpu.schedule import OperandDmas
from pallascope.tpu.traffic import BY_THE_KERNEL
from tests.pallascope.support.sample_predictions import (
    BYTES_PER_CYCLE,
    SIZE,
    matmul,
    prediction,
    rows,
    schedule,
)

#: A kernel that computes half of the time and waits for blocks for the other half.
WAITING = schedule(100_000, 50_000, {"MXU": 50_000}, size=0)
QUIET = schedule(100_000, 100_000, {"MXU": 100_000}, size=0)


def about(found: tuple[Bottleneck, ...], words: str) -> Bottleneck:
    """The one whose explanation holds these words."""
    (one,) = [each for each in found if words in each.why]
    return one


def moving(ran: Any, counts: tuple[int, ...], **changed: Any) -> Prediction:
    return prediction(ran, traffic=rows(matmul(), counts), **changed)


LOADED = dataclasses.replace(WAITING, moved=())


def test_the_costliest_comes_first() -> None:
    found = bottlenecks([moving(LOADED, (320, 200, 4))])
    assert [one.cycles for one in found] == sorted((one.cycles for one in found), reverse=True)
    assert len(found) > 1


def test_a_core_that_rests_where_pars_works_is_told() -> None:
    own, par = (prediction(QUIET, chip="v5p", sharing=cores) for cores in (1, 2))
    first, *_ = bottlenecks([own], [par])
    assert first.phrase == "runs on 1 of 2 TensorCores"
    assert first.cycles == own.cycles / 2
    assert '("parallel", …)' in first.remedy
    for mine, pars in ((par, par), (own, own), (own, None)):
        found = bottlenecks([mine], [pars] if pars else [])
        assert not any("TensorCores" in each.phrase for each in found)


# ---- what moves ----


def test_what_is_read_again_is_told_against_what_is_needed() -> None:
    one = about(bottlenecks([moving(LOADED, (8, 200, 4))]), "y_ref moves")
    assert one.phrase == "reads y_ref 100.0× as much as needed"
    assert one.cycles == pytest.approx(198 * SIZE / BYTES_PER_CYCLE)
    assert one.why.endswith("changes on every step of the innermost axis (axis 2).")
    assert one.size == 0  # nothing is asked for


def test_bytes_that_move_while_the_core_computes_cost_nothing() -> None:
    assert bottlenecks([moving(QUIET, (32, 200, 4))]) == ()


def test_bytes_cost_no_more_than_the_core_waits() -> None:
    one = about(bottlenecks([moving(LOADED, (8, 20_000, 4))]), "y_ref moves")
    assert one.cycles == 50_000


def test_bytes_that_par_does_not_move_are_told_even_if_they_cost_no_time() -> None:
    one = about(bottlenecks([moving(QUIET, (32, 8, 4))], [moving(QUIET, (8, 8, 4))]), "x_ref moves")
    assert one.phrase == "reads x_ref 4.0× as much as par"
    assert one.size == 24 * SIZE
    assert "; par moves 256 KiB in 8." in one.why


def test_a_stack_is_told_where_par_reads_one_of_its_arrays() -> None:
    call = matmul()
    y = call.operands[1]
    stacked = dataclasses.replace(y, array=dataclasses.replace(y.array, shape=(8, *y.array.shape)))
    copied = dataclasses.replace(call, operands=(call.operands[0], stacked, *call.operands[2:]))
    own = prediction(QUIET, traffic=rows(copied, (8, 16, 4)))
    (one,) = [each for each in bottlenecks([own], [moving(QUIET, (8, 2, 4))]) if each.size]
    assert one.phrase == "reads y_ref 8.0× as much as par"
    assert one.size == 14 * SIZE
    assert "bfloat16[8, 256, 128], of which 512 KiB move; par's is bfloat16[256, 128]" in one.why
    assert "in_axes=None" in one.remedy


def test_a_block_that_par_keeps_longer() -> None:
    longer = (Reuse(0, 2, 8, 8), None, None, None)
    par = moving(QUIET, (8, 8, 4), reuse=longer)
    one = about(bottlenecks([moving(QUIET, (32, 8, 4))], [par]), "x_ref moves")
    assert one.why.endswith("; par keeps it for 8 steps.")
    never = moving(QUIET, (8, 8, 4), reuse=(Reuse(None, 2, 8, 8), None, None, None))
    one = about(bottlenecks([moving(QUIET, (32, 8, 4))], [never]), "x_ref moves")
    assert one.why.endswith("; par keeps it for all steps.")


def test_blocks_smaller_than_pars_should_be_larger() -> None:
    traffic = rows(matmul(), vmem=100 * SIZE)
    par = prediction(QUIET, traffic=traffic)
    one = about(bottlenecks([moving(QUIET, (32, 8, 4))], [par]), "x_ref moves")
    assert "larger blocks, as par does" in one.remedy
    same = about(
        bottlenecks([moving(QUIET, (32, 8, 4))], [moving(QUIET, (8, 8, 4))]), "x_ref moves"
    )
    assert "Order the grid" in same.remedy


def test_a_wider_dtype_than_pars_is_told_as_that() -> None:
    """Not as a block that is read again: its index map is par's."""
    par = moving(QUIET, (8, 8, 4))
    first, *others = par.traffic.operands
    wide = dataclasses.replace(
        first,
        array=dataclasses.replace(first.array, dtype="float32"),
        bytes=2 * (first.bytes or 0),
        least=2 * (first.least or 0),
    )
    traffic = dataclasses.replace(par.traffic, operands=(wide, *others))
    (one,) = bottlenecks([prediction(QUIET, traffic=traffic)], [par])
    assert one.phrase == "x_ref is float32 where par's is bfloat16"
    assert "it is float32[512, 256] where par has bfloat16[512, 256]" in one.why
    assert "cast in the kernel" in one.remedy
    assert one.size == 8 * SIZE


def test_padding_is_told_as_such() -> None:
    padded = rows(matmul(), (320, 2, 4), padding=300 * SIZE)
    one = about(bottlenecks([prediction(LOADED, traffic=padded)]), "padding")
    assert one.why.startswith("94% of x_ref's bytes are padding: bfloat16[512, 256] lies")


def test_without_a_schedule_bytes_are_told_all_the_same() -> None:
    assert about(bottlenecks([moving(None, (8, 200, 4))]), "y_ref moves")


# ---- waiting ----


def test_waiting_goes_by_operand_and_direction() -> None:
    moved = (
        OperandDmas("x_ref", True, SIZE, 40_000.0),
        OperandDmas("o_ref", False, SIZE, 10_000.0),
    )
    found = bottlenecks([moving(dataclasses.replace(WAITING, moved=moved), (8, 2, 4))])
    one, other = (
        about(found, "x_ref's block to arrive"),
        about(found, "o_ref's block to be written"),
    )
    assert (one.cycles, other.cycles) == (40_000, 10_000)
    assert "26.7 µs in all" in one.why


def test_a_single_buffer_is_named_where_its_block_moves() -> None:
    call = matmul()
    operands = tuple(dataclasses.replace(one, buffers=1) for one in call.operands)
    alone = prediction(WAITING, call=dataclasses.replace(call, operands=operands))
    assert "Buffered(1)" in about(bottlenecks([alone]), "to arrive").remedy
    still = Reuse(None, 2, 8, 8)
    kept = dataclasses.replace(alone, reuse=(still, still, still, None))
    assert "Buffered" not in about(bottlenecks([kept]), "to arrive").remedy
    assert "Buffered" not in about(bottlenecks([prediction(WAITING)]), "to arrive").remedy


def test_waiting_that_par_does_too_is_left_out() -> None:
    assert about(bottlenecks([prediction(WAITING)]), "to arrive").cycles == 50_000
    assert bottlenecks([prediction(WAITING)], [prediction(WAITING)]) == ()


def test_where_hbm_has_no_time_left_only_fewer_bytes_help() -> None:
    busy = schedule(100_000, 30_000, {"VPU": 30_000}, size=97_000 * BYTES_PER_CYCLE, spills=90_000)
    (one,) = bottlenecks([moving(busy, (8, 2, 4))])
    assert one.why == (
        "Moving its bytes keeps HBM busy for 97% of the time, and the core waits for 46.7 µs."
    )
    assert "fewer bytes" in one.remedy
    par = schedule(99_000, 90_000, {"VPU": 90_000}, size=97_000 * BYTES_PER_CYCLE, spills=90_000)
    assert bottlenecks([by_hand(busy)], [by_hand(par)]) == ()
    (at_pars,) = bottlenecks([by_hand(dataclasses.replace(busy, cycles=120_000))], [by_hand(par)])
    assert at_pars.remedy == "It moves no more bytes than par does: this is the limit."
    assert at_pars.cycles == pytest.approx(23_000)


def by_hand(ran: Any, **changed: Any) -> Prediction:
    """A kernel of which only the schedule knows what it moves."""
    traffic = rows(matmul(), (8, 2, 4))
    unknown = tuple(dataclasses.replace(o, bytes=None, least=None) for o in traffic.operands)
    return prediction(ran, traffic=dataclasses.replace(traffic, operands=unknown), **changed)


@pytest.mark.parametrize("part", [0.3, 0.74, 0.76, 0.9, 1.0])
@pytest.mark.parametrize("changed", [{}, {"runs": RunCount(8)}, {"chip": "v5p", "sharing": 1}])
@pytest.mark.parametrize("beside", [False, True], ids=["alone", "beside par"])
def test_nothing_is_said_to_cost_more_than_hbm_leaves(
    part: float, changed: dict[str, Any], beside: bool
) -> None:
    """Whatever is waited for, computed or repeated: the bytes take their time all the same."""
    chip = CHIPS[changed.get("chip", "v5e")]
    size = int(part * 100_000 / chip.clock * chip.bandwidth_of_each(1))
    busy = {"VPU": 60_000, "scalar": 20_000}
    moved = (OperandDmas("x_ref", True, size, 60_000.0), OperandDmas("o_ref", False, 0, 30_000.0))
    ran = dataclasses.replace(schedule(100_000, 40_000, busy, spills=90_000), moved=moved)
    own = by_hand(ran, **changed)
    many = dataclasses.replace(own, traffic=dataclasses.replace(own.traffic, grid=(100, 1, 2)))
    quick = dataclasses.replace(schedule(100_000, 100_000, {"MXU": 9}), moved=moved)
    cores = {"chip": "v5p", "sharing": 2} if "chip" in changed else {}
    par = [by_hand(quick, **cores)] if beside else []
    found = bottlenecks([many], par)
    assert found or part > 0.95
    whole = chip.bandwidth_of_each(2) * 2 if cores and beside else chip.bandwidth_of_each(1)
    needed = min(many.bytes, *(each.bytes for each in par or [many]))
    for one in found:
        assert one.cycles <= many.cycles - needed / whole * chip.clock + 1


def test_many_small_steps() -> None:
    many = dataclasses.replace(rows(matmul(), (8, 2, 4)), grid=(100,))
    few = dataclasses.replace(many, grid=(10,))
    found = bottlenecks([prediction(WAITING, traffic=many)], [prediction(QUIET, traffic=few)])
    one = about(found, "grid steps")
    assert one.phrase == "100 grid steps where par has 10"
    assert "of 667 ns each" in one.why
    assert one.cycles == 90 * 300
    assert "leave them out of the grid" in one.remedy  # the blocks are par's
    smaller = dataclasses.replace(
        matmul(), operands=tuple(dataclasses.replace(o, block=(8, 128)) for o in matmul().operands)
    )
    found = bottlenecks(
        [prediction(WAITING, traffic=many, call=smaller)], [prediction(QUIET, traffic=few)]
    )
    assert about(found, "grid steps").remedy.startswith("Use larger blocks")
    assert not any(
        "steps" in each.phrase for each in bottlenecks([prediction(WAITING, traffic=few)])
    )


# ---- what is computed ----


def test_a_unit_that_is_busier_than_for_par() -> None:
    own = schedule(100_000, 100_000, {"XLU": 60_000, "VPU": 40_000})
    par = schedule(60_000, 60_000, {"XLU": 20_000, "VPU": 40_000})
    (one,) = bottlenecks([moving(own, (8, 2, 4))], [moving(par, (8, 2, 4))])
    assert one.why == "Bundles that need the cross-lane unit take 40 µs, in par 13.3 µs."
    assert one.cycles == 40_000


def test_without_par_a_unit_other_than_the_mxu_is_told_if_it_takes_much() -> None:
    own = schedule(100_000, 100_000, {"XLU": 60_000, "VPU": 40_000})
    (one,) = bottlenecks([moving(own, (8, 2, 4))])
    assert "cross-lane unit take 40 µs, 60% of the time" in one.why
    assert bottlenecks([moving(QUIET, (8, 2, 4))]) == ()


def test_registers_that_do_not_suffice() -> None:
    own = dataclasses.replace(QUIET, spills=20_000)
    (one,) = bottlenecks([moving(own, (8, 2, 4))])
    assert "20,000 times" in one.why
    assert one.cycles == 10_000
    assert bottlenecks([moving(own, (8, 2, 4))], [moving(own, (8, 2, 4))]) == ()


@pytest.mark.parametrize(
    ("inward", "why", "remedy"),
    [
        (True, "a copy of x_ref to arrive", "unless it starts early"),
        (False, "a copy of x_ref to be written back", "unless you wait for it late"),
    ],
)
def test_a_copy_by_hand_has_a_remedy_for_its_direction(inward: bool, why: str, remedy: str) -> None:
    waits = dataclasses.replace(WAITING, moved=(OperandDmas("x_ref", inward, SIZE, 40_000.0),))
    by_hand = rows(matmul(), note=BY_THE_KERNEL)
    found = about(bottlenecks([prediction(waits, traffic=by_hand)]), why)
    assert remedy in found.remedy


def test_what_is_hardly_worth_a_word_is_left_out() -> None:
    own = dataclasses.replace(QUIET, spills=2_000)
    assert bottlenecks([moving(own, (8, 2, 4))]) == ()


# ---- several kernels ----


def test_of_several_kernels_each_is_named() -> None:
    found = bottlenecks([prediction(WAITING), prediction(WAITING)])
    assert all(one.why.startswith("double: ") for one in found)


def test_launches_of_other_kernels_are_not_compared() -> None:
    found = bottlenecks([prediction(WAITING)], [prediction(WAITING), prediction(WAITING)])
    assert found == bottlenecks([prediction(WAITING)])


@pytest.mark.parametrize(
    ("reason", "phrase", "remedy"),
    [
        (CopyReason.KEPT, "XLA copies x_ref before the kernel", "donate_argnames"),
        (CopyReason.READ_LATER, "XLA copies x_ref before the kernel", "the last kernel"),
        (CopyReason.ELSEWHERE, "XLA copies x_ref after the kernel", "the input that the output"),
    ],
)
def test_what_xla_copies_is_told(reason: CopyReason, phrase: str, remedy: str) -> None:
    copied = moving(LOADED, (320, 200, 4), copied=(XlaCopy(0, reason),))
    par = moving(LOADED, (320, 200, 4))
    assert copied.bytes - par.bytes == copied.size_of(copied.copied[0]) > 0
    assert copied.cycles > par.cycles
    (found,) = [one for one in bottlenecks([copied], [par]) if "XLA" in one.phrase]
    assert found.phrase == phrase
    assert remedy in found.remedy
    assert found.size == copied.bytes - par.bytes
    assert "XLA copies x_ref: " in " ".join(kernel_notes(copied))
    assert "XLA" not in " ".join(kernel_notes(par))


def test_results_that_have_changed_places_are_told_once() -> None:
    reasons = (CopyReason.ELSEWHERE, CopyReason.ELSEWHERE, CopyReason.EXCHANGED)
    copies = tuple(XlaCopy(0, reason) for reason in reasons)
    copied = moving(LOADED, (320, 200, 4), copied=copies)
    (found,) = [one for one in bottlenecks([copied]) if "XLA" in one.phrase]
    assert "each other's places" in found.why
    assert not [one for one in bottlenecks([copied], [copied]) if "XLA" in one.phrase]
