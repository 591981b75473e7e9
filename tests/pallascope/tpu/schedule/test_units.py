"""Which units the bundles of a schedule keep busy, and what is spilled."""

from __future__ import annotations

import pytest

from pallascope.tpu.schedule import Unit
from pallascope.tpu.schedule.bundles import busy, spills, unit_of
from tests.pallascope.support.schedule_listings import bundles, simulated

LOAD = "%v1_v1 = vld [vmem:[%s1_s1] sm:$0xff]"
ADD = "%v2_v2 = vadd.f32 1.0, %v1_v1"
SCALAR = "%s3 = smov.u32 3"


@pytest.mark.parametrize(
    ("opcode", "unit"),
    [
        ("vmatmul.bf16.gmra.mxu0", Unit.MXU),
        ("vmatmul.mubr.bf16.gmra.mrb[0].mxu1", Unit.MXU),
        ("vmatpush.msra.mxu3", Unit.MXU),
        ("vpop.f32.mrf.mxu0", Unit.MXU),
        ("vxpose.xlu0.b32.start", Unit.XLU),
        ("vadd.xlane.f32.xlu1", Unit.XLU),
        ("vpop.permute.xlu2", Unit.XLU),
        ("vrcp.f32", Unit.EUP),
        ("vexp2.f32", Unit.EUP),
        ("vpop.eup", Unit.EUP),
        ("vpop.erf", Unit.EUP),
        ("vld", Unit.VMEM),
        ("vst.msk", Unit.VMEM),
        ("vstv", Unit.VPU),
        ("vadd.f32", Unit.VPU),
        ("vrot.slane", Unit.VPU),
        ("vmov", Unit.VPU),
        ("vpush", Unit.SCALAR),
        ("vpop.sfrf", Unit.SCALAR),
        ("vsyncadd", Unit.SCALAR),
        ("vwait.ge", Unit.SCALAR),
        ("vdelay", Unit.SCALAR),
        ("vphi", Unit.SCALAR),
        ("sadd.s32", Unit.SCALAR),
        ("dma.hbm_to_vmem", Unit.SCALAR),
    ],
)
def test_units(opcode: str, unit: Unit) -> None:
    assert unit_of(opcode) is unit


def test_a_bundle_counts_for_its_scarcest_unit() -> None:
    found = bundles(SCALAR, f"{SCALAR} ;; {LOAD}", f"{LOAD} ;; {ADD}", "%5 = vrcp.f32 %v1_v1")
    assert busy(found, (1, 10, 100, 1000)) == {"EUP": 1000, "VPU": 100, "VMEM": 10, "scalar": 1}


def test_the_units_stand_in_the_order_of_their_rank() -> None:
    found = bundles(LOAD, "%5 = vmatmul.msra.mxu0 %v1_v1", SCALAR, "%5 = vxpose.xlu0 %v1_v1")
    assert list(busy(found, (1, 1, 1, 1))) == ["MXU", "XLU", "VMEM", "scalar"]


def test_empty_bundles_go_with_what_they_wait_for() -> None:
    found = bundles("", ADD, "", "", SCALAR, "")
    assert busy(found, (7, 1, 10, 100, 1000, 10000)) == {"VPU": 111, "scalar": 11007}


def test_what_is_not_issued_does_not_count() -> None:
    assert busy(bundles(ADD, SCALAR), (0, 3)) == {"scalar": 3}


def test_spills_go_both_ways() -> None:
    save = "%5 = vst [vmem:[#allocation9_spill] sm:$0xff] %v1_v1"
    fetch = "%v1_v1 = vld [vmem:[#allocation9_spill] sm:$0xff]"
    found = bundles(f"{save} ;; {LOAD}", f"{fetch} ;; {fetch}", save, LOAD)
    assert spills(found, (10, 100, 0, 1)) == 210


def test_a_schedule_sums_up_its_mix() -> None:
    found = simulated(
        "%s0 = smov.u32 0",
        f"LB: > %s0 = sadd.s32 1, %s0 ;; {ADD}",
        "> %p0 = scmp.lt.s32.totalorder %s0, 3",
        "> %5 = sbr.rel (%p0) target bundleno = 1 (0x1), region = 3",
        "> %5 = vst [vmem:[#allocation9_spill] sm:$0xff] %v1_v1",
        "> ",
    )
    assert found.busy == {"VPU": 3, "VMEM": 6, "scalar": 7}
    assert sum(found.busy.values()) == found.issue == 16
    assert found.spills == 3
