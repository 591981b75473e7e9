"""DMAs, semaphores and waits in time, counted by hand: a granule a cycle, 100 cycles of latency."""

from __future__ import annotations

import pytest

from pallascope.tpu.schedule import (
    NotUnderstood,
    OperandDmas,
    Stall,
    Transfer,
    simulate,
)
from pallascope.tpu.schedule.registers import Address, Unknown
from tests.pallascope.support.schedule_listings import (
    CHIP,
    INPUT,
    OUTPUT,
    listing,
    place,
    run,
    simulated,
)

X = "%s0 = inlined_call_operand.hbm [shape: f32[64,128], index: 0, kind: input]"
O = "%s1 = inlined_call_operand.hbm [shape: f32[64,128], index: 1, kind: output]"  # noqa: E741
TO = "%s2 = smov.u32 [#allocation5]"
OPERANDS = f"{X} ;; {O} ;; {TO}"


def copy_in(granules: object, flag: int = 7, of: str = "%s0", to: str = "vmem") -> str:
    return (
        f"%5 = dma.hbm_to_{to} [thread:$0]  /*hbm=*/{of}, /*size_in_granules=*/{granules}, "
        f"/*{to}=*/%s2, /*dst_syncflagno=*/[#allocation{flag}]"
    )


def copy_out(granules: object, flag: int = 8, of: str = "vmem") -> str:
    return (
        f"%5 = dma.{of}_to_hbm /*{of}=*/%s2, /*size_in_granules=*/{granules}, /*hbm=*/%s1, "
        f"/*dst_syncflagno=*/[#allocation{flag}]"
    )


def general(src: str, dst: str, granules: int, note: str = "", flag: str = "[#allocation7]") -> str:
    return (
        f"%5 = dma.general /*src=*/{src}, /*size_in_granules=*/{granules}, /*dst=*/{dst}, "
        f"/*dst_syncflagno=*/{flag}, /*src_syncflagno=*/%s9 {note}"
    )


def wait(granules: int, flag: int = 7) -> str:
    return f"%6 = dma.done.wait [#allocation{flag}], {granules}"


def take(granules: int, flag: int = 7) -> str:
    return f"%7 = vsyncadd [#allocation{flag}], {2**32 - granules}"


def test_a_dma_takes_its_bytes_and_the_latency() -> None:
    found = simulated(OPERANDS, copy_in(64), wait(64), take(64))
    # Issued at 1, it has moved its 64 granules at 65 and arrives at 165; the wait began at 2.
    assert found.transfers == (Transfer("x", True, 1.0, 165.0, 2048),)
    assert found.stalls == (Stall("x", True, 2.0, 165.0),)
    assert found.moved == (OperandDmas("x", True, 2048, 163.0, 1),)
    assert (found.issue, found.cycles, found.stalled, found.bytes) == (4, 167.0, 163.0, 2048)


def test_dmas_wait_their_turn() -> None:
    found = simulated(
        OPERANDS, copy_in(64), copy_out(32), copy_in(16, flag=9), wait(16, 9), wait(32, 8)
    )
    assert found.transfers == (
        Transfer("x", True, 1.0, 165.0, 2048),
        Transfer("o", False, 65.0, 197.0, 1024),
        Transfer("x", True, 97.0, 213.0, 512),
    )
    assert found.stalls == (Stall("x", True, 4.0, 213.0),)  # by then the other has arrived
    assert found.moved == (
        OperandDmas("x", True, 2560, 209.0, 2),
        OperandDmas("o", False, 1024, 0.0, 1),
    )


def test_after_a_pause_the_engine_is_free() -> None:
    found = simulated(OPERANDS, copy_in(4), "%8 = vdelay 50", copy_in(4), wait(8))
    assert [transfer.start for transfer in found.transfers] == [1.0, 53.0]
    assert found.stalls == (Stall("", False, 2.0, 52.0), Stall("x", True, 54.0, 157.0))
    assert found.moved == (OperandDmas("x", True, 256, 103.0, 2), OperandDmas("", False, 0, 50.0))


def test_bundles_that_are_issued_take_their_time() -> None:
    found = simulated(OPERANDS, copy_in(64), *[""] * 200, wait(64), take(64))
    assert (found.cycles, found.stalled, found.stalls) == (204.0, 0.0, ())


def test_what_arrives_right_now_has_arrived() -> None:
    found = simulated(OPERANDS, copy_in(10), *[""] * 109, wait(10))
    assert (found.cycles, found.stalls) == (112.0, ())


def test_a_dma_may_move_nothing() -> None:
    found = simulated(OPERANDS, "%s4 = smov.u32 0", copy_in("%s4"), wait(0))
    assert (found.bytes, found.stalls) == (0, ())


def test_one_dma_may_be_awaited_of_several() -> None:
    found = simulated(
        OPERANDS, copy_in(10), copy_in(20), wait(10), take(10), "", wait(20), take(20)
    )
    assert [stall.end for stall in found.stalls] == [111.0, 131.0]


def test_two_dmas_may_be_awaited_as_one() -> None:
    found = simulated(OPERANDS, copy_in(10), copy_in(20), wait(30))
    assert [stall.end for stall in found.stalls] == [131.0]


def test_what_was_taken_is_gone() -> None:
    with pytest.raises(NotUnderstood, match="a wait for something that this core never sends"):
        simulated(OPERANDS, copy_in(10), wait(10), take(10), wait(10))
    simulated(OPERANDS, copy_in(10), wait(10), wait(10))


def test_a_wait_for_more_than_was_sent() -> None:
    with pytest.raises(NotUnderstood, match="a wait for something that this core never sends"):
        simulated(OPERANDS, copy_in(10), wait(11))


def test_semaphores_that_are_signalled_by_hand() -> None:
    found = simulated(
        "%7 = vsyncadd [#allocation3], 3",
        take(2, 3),  # a wait for 2: take them, then see that nothing is missing
        "%8 = vwait.ge.trace [#allocation3], 0",
        take(1, 3),
        "%8 = vwait.ge [#allocation3], 0",
    )
    assert (found.cycles, found.stalls) == (5.0, ())


def test_taking_before_it_is_there_waits_for_it() -> None:
    for kind in ("vwait.ge", "vwait.ge.trace"):
        found = simulated(OPERANDS, copy_in(10), take(10), f"%8 = {kind} [#allocation7], 0")
        assert found.stalls == (Stall("x", True, 3.0, 111.0),)


def test_a_semaphore_taken_from_too_often() -> None:
    with pytest.raises(NotUnderstood, match="never sends"):
        simulated(take(1, 3), "%8 = vwait.ge [#allocation3], 0")


def test_reading_a_semaphore_counts_what_has_arrived() -> None:
    def count(*pause: str, pop: str = "spop") -> object:
        machine, _ = run(
            OPERANDS,
            copy_in(10),
            "%7 = vsyncadd [#allocation7], 3",
            *pause,
            "%8 = vsyncmov [#allocation7]",
            f"%s9 = {pop}.sfrf %8",
            "%9 = sst [smem:[#allocation1]] %s9",
        )
        return machine.memory[place(1)]

    assert count() == 3
    assert count("%8 = vdelay 200") == 13
    assert count(pop="vpop") == 3


def test_semaphores_are_told_apart() -> None:
    flag = "%s3 = scalar_lea.sflag [#allocation7], %s4"
    indirect = "%6 = dma.done.wait %s3, 10"
    found = simulated(OPERANDS, copy_in(10), "%s4 = smov.u32 0", flag, indirect)
    assert found.stalls[0].end == 111.0
    with pytest.raises(NotUnderstood, match="never sends"):
        simulated(OPERANDS, copy_in(10), "%s4 = smov.u32 1", flag, indirect)


def test_a_guarded_dma_may_not_happen() -> None:
    guarded = copy_in(10).replace("[thread:$0]  ", "[thread:$0]  (!%p0), ")
    assert simulated(f"{OPERANDS} ;; %p0 = pmov true", guarded).bytes == 0
    assert simulated(f"{OPERANDS} ;; %p0 = pmov false", guarded).bytes == 320


def test_where_a_dma_leads_from_is_told_by_its_address() -> None:
    found = simulated(
        OPERANDS,
        "%s3 = scalar_lea.hbm %s0, 8 ;; %s4 = scalar_lea.hbm %s1, 8",
        "%s3 = sshll.u32 %s3, 4 ;; %s4 = sand.u32 2147483647, %s4",
        copy_in(1, of="%s3"),
        copy_in(1, of="%s4"),
    )
    assert [transfer.operand for transfer in found.transfers] == ["x", "o"]


@pytest.mark.parametrize("of", ["%s2", "%s9"])
def test_an_address_belongs_to_an_operand(of: str) -> None:
    why = "belongs to no operand" if of == "%s2" else "a register that was not written"
    with pytest.raises(NotUnderstood, match=why):
        simulated(OPERANDS, copy_in(1, of=of))


def test_operands_without_a_name_have_a_number() -> None:
    third = "%s3 = inlined_call_operand.hbm [shape: f32[8], index: 12, kind: input]"
    found = simulated(OPERANDS, third, copy_in(1, of="%s3"))
    assert found.transfers[0].operand == "input 12"


def test_scalar_prefetch_brings_what_is_known() -> None:
    machine, _ = run(
        OPERANDS,
        copy_in(1, to="smem"),
        "%s3 = sld [smem:[#allocation5 + $0x2]] ;; %s4 = sld [smem:[#allocation5 + $0x3]]",
        "%9 = sst [smem:[#allocation1]] %s3",
        "%9 = sst [smem:[#allocation2]] %s4",
        words={INPUT: [10, 20, 30]},
    )
    assert machine.memory[place(1)] == 30
    missing = machine.memory[place(2)]
    assert isinstance(missing, Unknown)
    assert missing.why == "the contents of x"
    assert place(5, 8) not in machine.memory  # a granule has eight words


def test_a_dma_to_smem_may_begin_within_the_operand() -> None:
    machine, _ = run(
        OPERANDS,
        "%s3 = scalar_lea.hbm %s0, 1",
        copy_in(1, of="%s3", to="smem"),
        words={INPUT: list(range(16))},
    )
    assert [machine.memory[place(5, n)] for n in range(8)] == list(range(8, 16))


def test_a_dma_to_smem_from_before_the_operand_brings_nothing_known() -> None:
    machine, _ = run(
        OPERANDS,
        "%s3 = scalar_lea.hbm %s0, 4294967295",
        copy_in(1, of="%s3", to="smem"),
        words={INPUT: list(range(16))},
    )
    assert all(isinstance(machine.memory[place(5, n)], Unknown) for n in range(8))


@pytest.mark.parametrize("source", ["vmem", "smem"])
def test_what_the_chip_computed_is_not_known_in_smem(source: str) -> None:
    text = copy_in(1, of="%s2", to="smem").replace("hbm", source)
    machine, _ = run(OPERANDS, text, wait(1), words={INPUT: list(range(16))})
    assert isinstance(machine.memory[place(5)], Unknown)
    assert machine.now == 101.0 + 1  # within the chip a DMA takes the latency alone


def test_scalars_that_the_compiler_keeps_in_hbm_come_back() -> None:
    out = (
        "%5 = dma.smem_to_hbm /*smem=*/%s6, /*size_in_granules=*/1, /*hbm=*/%s4, "
        "/*dst_syncflagno=*/[#allocation7]"
    )
    back = (
        "%5 = dma.hbm_to_smem /*hbm=*/%s4, /*size_in_granules=*/1, /*smem=*/%s8, "
        "/*dst_syncflagno=*/[#allocation7]"
    )
    machine, _ = run(
        # As libtpu lists it: the register gets another name in the bundle that writes it.
        f"{X} ;; %s4 = smov [#allocation4_spill] ;; %s6 = smov [#allocation6_spill]"
        " ;; %s4 = smov %s4",
        "%9 = sst [smem:[#allocation6_spill]] %s0",
        "%9 = sst [smem:[#allocation6_spill + $0x1]] %s6",
        f"{out} ;; %s8 = smov [#allocation9_spill]",
        wait(1),
        take(1),
        back,
        wait(1),
        "%s1 = sld [smem:[#allocation9_spill]] ;; %s2 = sld [smem:[#allocation9_spill + $0x1]]",
        "%9 = sst [smem:[#allocation1]] %s1",
        "%9 = sst [smem:[#allocation2]] %s2",
    )
    operand = machine.memory[place(1)]
    assert isinstance(operand, Address)
    assert operand.source == INPUT
    assert machine.memory[place(2)] == place(6)
    assert machine.moved == {("scalar spills", False): 32, ("scalar spills", True): 32}


def test_smem_may_be_written_out() -> None:
    found = simulated(OPERANDS, copy_out(2, of="smem"), wait(2, 8))
    assert found.moved == (OperandDmas("o", False, 64, 101.0, 1),)


def test_a_general_dma_with_strides() -> None:
    found = simulated(OPERANDS, general("%s0", "%s2", 64, "/* hbm-to-vmem */"), wait(64))
    assert found.moved == (OperandDmas("x", True, 2048, 163.0, 1),)
    found = simulated(OPERANDS, general("%s2", "%s1", 64, "/* bounds: (3, 1) */"), wait(64))
    assert found.moved == (OperandDmas("o", False, 2048, 163.0, 1),)


def test_what_a_general_dma_brings_is_in_an_order_unknown() -> None:
    machine, _ = run(
        OPERANDS, general("%s0", "%s2", 1, "/* hbm-to-smem */"), words={INPUT: list(range(16))}
    )
    kept = machine.memory[place(5)]
    assert isinstance(kept, Unknown)
    assert kept.why == "data that a DMA brought into SMEM"


@pytest.mark.parametrize("note", ["/* hbm-to-hbm */", ""])
def test_within_hbm_bytes_are_read_and_written_and_the_time_is_a_lower_bound(note: str) -> None:
    found = simulated(OPERANDS, general("%s0", "%s1", 64, note), wait(64))
    # Issued at 1; 64 granules are read until 65 and written until 129, and arrive at 229.
    assert found.moved == (
        OperandDmas("x", True, 2048, 0.0, 1),
        OperandDmas("o", False, 2048, 227.0, 1),
    )
    assert found.stalls == (Stall("o", False, 2.0, 229.0),)
    assert found.least == "a DMA from HBM to HBM: its speed was never measured"
    assert simulated(OPERANDS, copy_in(64), wait(64)).least == ""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (copy_in(4).replace("vmem", "cmem"), "a DMA from HBM to CMEM"),
        (general("%s0", "%s2", 4, flag="%s3"), "a DMA to another chip"),
        (copy_in("%s4"), "a DMA of negative size"),
        (copy_in("%s9"), "an address depends on a register"),
        (copy_in(4).replace("/*vmem=*/", ""), "the instruction dma.hbm_to_vmem"),
        ("%5 = dma.strange", "the instruction dma.strange"),
    ],
)
def test_dmas_that_are_refused(text: str, why: str) -> None:
    other_chip = "%s3 = smov.u32 [#allocation7] ;; %s4 = smov.u32 4294967295"
    with pytest.raises(NotUnderstood, match=f"^{why}"):
        run(OPERANDS, other_chip, "%s3 = sor.u32 16384, %s3", text)


def test_only_so_many_events_are_kept() -> None:
    texts = (OPERANDS, copy_in(10), wait(10), copy_in(10), wait(20), copy_in(10), wait(30))
    found = simulated(*texts, most_events=2)
    everything = simulated(*texts)
    assert (found.transfers, found.stalls) == (everything.transfers[:2], everything.stalls[:2])
    assert (found.moved, found.cycles) == (everything.moved, everything.cycles)
    assert (len(everything.transfers), len(everything.stalls)) == (3, 3)


def test_events_are_kept_where_asked_for() -> None:
    text = listing(OPERANDS, copy_in(10), wait(10))
    found = simulate(text, CHIP, {}, {})
    assert (found.transfers, found.stalls, found.turns) == ((), (), ())
    assert found.moved == (OperandDmas("input 0", True, 320, 109.0, 1),)


def test_turns_are_events_too() -> None:
    loop = (
        "%s0 = smov.u32 0",
        "LB: > %s0 = sadd.s32 1, %s0",
        "> %p0 = scmp.lt.s32.totalorder %s0, 9",
        "> %5 = sbr.rel (%p0) target bundleno = 1 (0x1), region = 3",
        "> ",
        "> ",
    )
    assert simulated(*loop).turns == tuple(1.0 + 5 * n for n in range(9))
    assert simulated(*loop, most_events=2).turns == (1.0, 6.0)


def test_names_are_for_the_reader_only() -> None:
    assert INPUT != OUTPUT
    machine, _ = run(OPERANDS, copy_in(1), copy_out(1))
    assert set(machine.moved) == {("x", True), ("o", False)}
