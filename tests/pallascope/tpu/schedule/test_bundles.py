"""The compiler's listing, read: bundles, instructions, and what is refused."""

from __future__ import annotations

import pytest

from pallascope.tpu.schedule import NotUnderstood
from pallascope.tpu.schedule.bundles import Instruction, parse
from tests.pallascope.support.schedule_listings import bundles, listing


def only(text: str) -> Instruction:
    """The instruction of a listing that has one."""
    ((instruction,),) = (bundle.instructions for bundle in bundles(text))
    return instruction


def test_bundles_come_by_number_with_their_depth() -> None:
    found = bundles(
        "%s1 = smov.u32 0", "", "LB: > > %s2 = sadd.s32 1, %s1 ;; %s3 = smov.u32 5", "> "
    )
    assert [bundle.depth for bundle in found] == [0, 0, 2, 1]
    assert [[one.opcode for one in bundle.instructions] for bundle in found] == [
        ["smov.u32"],
        [],
        ["sadd.s32", "smov.u32"],
        [],
    ]


def test_an_instruction_has_result_and_operands_by_place() -> None:
    found = only("%s12_s3 = sadd.s32 4294967295, %s7_s24")
    assert found == Instruction("sadd.s32", "s3", operands=("4294967295", "s24"))


def test_an_instruction_without_result() -> None:
    found = only("%77 = sst [smem:[#allocation3 + $0x1]] %s7_s24")
    assert (found.opcode, found.result) == ("sst", "")
    assert found.operands == ("[smem:[#allocation3 + $0x1]] s24",)


@pytest.mark.parametrize(
    ("text", "guard", "negated", "operands"),
    [
        ("%s1_s3 = smov.u32 (%p4_p2, %s9_s3), 7", "p2", False, ("7",)),
        ("%s1_s3 = smov.u32 (!%p4_p2, %s9_s3), %s8_s5", "p2", True, ("s5",)),
        ("%s1_s3 = sld [smem:[#allocation3]] (!%p4_p2)", "p2", True, ("[smem:[#allocation3]]",)),
        ("%5 = dma.done.wait (%p4_p12), %s1_s3, 16", "p12", False, ("s3", "16")),
        (
            "%5 = sst [smem:[#allocation3]] (%p4_p12), %s1_s3",
            "p12",
            False,
            ("[smem:[#allocation3]]", "s3"),
        ),
    ],
)
def test_guards(text: str, guard: str, negated: bool, operands: tuple[str, ...]) -> None:
    found = only(text)
    assert (found.guard, found.negated, found.operands) == (guard, negated, operands)


def test_a_guard_keeps_the_same_registers_value() -> None:
    with pytest.raises(NotUnderstood, match=r"smov\.u32 that keeps another register's value"):
        only("%s1_s3 = smov.u32 (%p4_p2, %s9_s4), 7")


def test_comments_are_no_code() -> None:
    found = only("%s1 = smov.u32 3 /* } ;; %s2 = smov.u32 4 */")
    assert found == Instruction("smov.u32", "s1", operands=("3",))


def test_comments_that_name_operands_do_so() -> None:
    found = only(
        "%5 = dma.hbm_to_vmem [thread:$0]  (!%p3), /*hbm=*/%s1, /*size_in_granules=*/64, "
        "/*vmem=*/%s2, /*dst_syncflagno=*/[#allocation5] /* \nbounds: (1, 2)\nstrides: (1) */"
    )
    assert found.labels == {
        "hbm": "s1",
        "size_in_granules": "64",
        "vmem": "s2",
        "dst_syncflagno": "[#allocation5]",
    }
    assert (found.guard, found.negated) == ("p3", True)
    assert found.operands == ("s1", "64", "s2", "[#allocation5]")


def test_comments_that_say_what_is_done() -> None:
    assert only("%5 = sdivrem.u32 %s1, 3 /* kRem */").note == "kRem"
    assert only("%5 = sdivrem.u32 %s1, 3 /* kRem */").operands == ("s1", "3")
    moved = only("%5 = dma.general /*src=*/%s1, /*dst=*/%s2 /* hbm-to-hbm */")
    assert (moved.note, moved.labels) == ("hbm-to-hbm", {"src": "s1", "dst": "s2"})
    assert only("%5 = dma.done.wait %s1, 3 /* pipeline-emitter-dma-wait */").note == ""


def test_what_stands_behind_the_bundle_is_no_code() -> None:
    text = listing("%s1 = smov.u32 3", "%s2 = smov.u32 4")
    found = parse(text.replace("}\n", "} /* End region 3 :: %s9 = smov.u32 9 } */\n"))
    assert [one.result for bundle in found for one in bundle.instructions] == ["s1", "s2"]


def test_the_text_of_a_check_may_hold_comments_and_braces() -> None:
    first, second = bundles(
        "%8 = shalt.err (!%p5) /* Semaphore /* the first */ } is left\nhlo: kernel.1\n */",
        "%s1 = smov.u32 3",
    )
    (check,) = first.instructions
    assert (check.opcode, check.guard, check.negated) == ("shalt.err", "p5", True)
    assert check.note.startswith("Semaphore /* the first")
    assert second.instructions == (Instruction("smov.u32", "s1", operands=("3",)),)


def test_a_check_has_its_bundle_to_itself() -> None:
    with pytest.raises(NotUnderstood, match=r"shares its bundle with shalt\.err"):
        bundles("%s1 = smov.u32 3 ;; %8 = shalt.err (!%p5) /* why */")


def test_vector_instructions_keep_no_operands() -> None:
    assert only("%v1_v2 = vadd.f32 1.0, %v3_v4") == Instruction("vadd.f32", vector=True)
    assert only("%5 = vst [vmem:[%s3_s1] sm:$0xff] /*vst_source=*/%v1_v2").spill is False
    assert only("%5 = vst [vmem:[#allocation35_spill] sm:$0xff] %v1_v2").spill is True
    assert only("%v5_v1 = vpop.f32.mrb[0].mxu0").opcode == "vpop.f32.mrb[0].mxu0"


@pytest.mark.parametrize("text", ["vsyncadd [#allocation3], 5", "vdelay 150", "vwait.ge %s1, 0"])
def test_what_concerns_the_scalar_core_is_no_vector_instruction(text: str) -> None:
    found = only(f"%5 = {text}")
    assert not found.vector
    assert found.operands


def test_an_operand_of_the_kernel() -> None:
    found = only(
        "%s9_s0 = inlined_call_operand.hbm [shape: bf16[8,128], index: 3, kind: output, "
        "shape index: {}] /* of the shape bf16[8,128] */"
    )
    assert (found.opcode, found.result, found.operands) == (
        "inlined_call_operand.hbm",
        "s0",
        ("3", "output"),
    )


def test_where_a_branch_leads() -> None:
    found = only("%5 = sbr.rel (%p1) target bundleno = 334 (0x14e), region = 28")
    assert (found.target, found.guard) == (334, "p1")
    with pytest.raises(NotUnderstood, match="a branch to a computed address"):
        _ = only("%5 = sbr.ind %s3").target


def test_every_bundle_is_there() -> None:
    text = listing("%s1 = smov.u32 3", "", "")
    with pytest.raises(NotUnderstood, match="a gap in the listing before bundle 0x2"):
        parse(text.replace("   0x1    : {}\n", ""))


@pytest.mark.parametrize("text", ["", "= control target key start\n"])
def test_a_listing_has_bundles(text: str) -> None:
    with pytest.raises(NotUnderstood, match="without bundles"):
        parse(text)


@pytest.mark.parametrize("text", ["%s1 = ?", "%s1 = inlined_call_operand.hbm [shape: f32[8]]"])
def test_other_formats_are_refused(text: str) -> None:
    with pytest.raises(NotUnderstood, match="of unknown form"):
        only(text)
