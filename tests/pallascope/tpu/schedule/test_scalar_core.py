"""The scalar core: what each instruction computes, and how a schedule runs."""

from __future__ import annotations

import pytest

from pallascope.tpu.schedule import NotUnderstood
from pallascope.tpu.schedule import scalar_core as running
from pallascope.tpu.schedule.registers import (
    Address,
    OperandSource,
    Unknown,
    select,
    wrapped,
)
from tests.pallascope.support.schedule_listings import INPUT, evaluate, place, run

LOW, HIGH = -(2**31), 2**31 - 1
KEEP = "%9 = sst [smem:[#allocation1]] %s1"


@pytest.mark.parametrize(
    ("instruction", "operands", "result"),
    [
        ("sadd.s32 %s0, %s1", (5, -7), -2),
        ("sadd.s32 %s0, %s1", (HIGH, 1), LOW),
        ("sadd.s32 4294967295, %s0", (5,), 4),
        ("ssub.s32 %s0, %s1", (LOW, 1), HIGH),
        ("ssub.s32 0, %s0", (5,), -5),
        ("smul.u32 %s0, %s1", (65536, 65537), 65536),
        ("smul.u32 %s0, %s1", (-3, 7), -21),
        ("smul.u32 %s0, %s1", (HIGH, 2), -2),
        ("smulhi.u32 2863311531, %s0", (9,), 6),
        ("smulhi.u32 %s0, %s1", (-1, -1), -2),
        ("smulhi.u32 %s0, %s1", (HIGH, 2), 0),
        ("sc.u32 %s0, %s1", (-1, 1), 1),
        ("sc.u32 %s0, %s1", (-2, 1), 0),
        ("sand.u32 %s0, %s1", (-1, 12), 12),
        ("sor.u32 %s0, %s1", (8, 5), 13),
        ("sxor.u32 2147483648, %s0", (1,), LOW + 1),
        ("sshll.u32 %s0, %s1", (3, 30), -(2**30)),
        ("sshll.u32 %s0, %s1", (3, 33), 6),
        ("sshra.s32 %s0, 1", (-3,), -2),
        ("sshra.s32 %s0, %s1", (-8, 33), -4),
        ("sshrl.u32 %s0, 1", (-2,), HIGH),
        ("sshrl.u32 %s0, %s1", (-2, 0), -2),
        ("sshrl.u32 %s0, %s1", (64, 36), 4),
        ("sclz.u32 %s0", (0,), 32),
        ("sclz.u32 %s0", (255,), 24),
        ("sclz.u32 %s0", (-1,), 0),
        ("sclz %s0", (1,), 31),
        ("smin.u32 %s0, %s1", (-1, 3), 3),
        ("smin.s32 %s0, %s1", (-1, 3), -1),
        ("smax.u32 %s0, %s1", (-1, 3), -1),
        ("smax.s32 %s0, %s1", (-1, 3), 3),
        ("smax.s32 %s0, %s1", (4, 3), 4),
        ("smin.u32 %s0, %s1", (2, 3), 2),
        ("scalar_lea.smem %s0, 8 [#allocation3]", (64,), 72),
        ("smov %s0", (7,), 7),
        ("smov.u32 $0x10", (), 16),
        ("scalar_lea.vmem %s0, 8", (64,), 72),
        ("scmp.lt.s32.totalorder %s0, %s1", (-1, 3), 1),
        ("scmp.lt.u32.totalorder %s0, %s1", (-1, 3), 0),
        ("scmp.ge.u32.totalorder %s0, 4294967295", (-1,), 1),
        ("scmp.ge.s32.totalorder %s0, %s1", (3, 3), 1),
        ("scmp.gt.s32.totalorder %s0, 3", (3,), 0),
        ("scmp.gt.u32.totalorder %s0, %s1", (LOW, HIGH), 1),
        ("scmp.le.s32.totalorder %s0, 3", (3,), 1),
        ("scmp.le.u32.totalorder %s0, 3", (-1,), 0),
        ("scmp.eq.s32.totalorder %s0, 3", (3,), 1),
        ("scmp.ne.s32.totalorder %s0, 3", (3,), 0),
    ],
)
def test_arithmetic(instruction: str, operands: tuple[int, ...], result: int) -> None:
    assert evaluate(instruction, *operands) == result


@pytest.mark.parametrize(
    ("instruction", "results"),
    [  # for (no, no), (no, yes), (yes, no), (yes, yes)
        ("por %p0, %p1", (0, 1, 1, 1)),
        ("pand %p0, %p1", (0, 0, 0, 1)),
        ("pxor %p0, %p1", (0, 1, 1, 0)),
        ("pnand %p0, %p1", (1, 1, 1, 0)),
        ("pnor %p0, %p1", (1, 0, 0, 0)),
        ("pneg %p0", (1, 1, 0, 0)),
        ("pmov %p1", (0, 1, 0, 1)),
    ],
)
def test_predicates(instruction: str, results: tuple[int, ...]) -> None:
    found = []
    for number in range(4):
        machine, _ = run(
            f"%p0 = pmov {'true' if number & 2 else 'false'}",
            f"%p1 = pmov {'true' if number & 1 else 'false'}",
            f"%p2 = {instruction}",
            "%s1 = scalar_select /*predicate=*/%p2, /*on_true=*/1, /*on_false=*/0",
            KEEP,
        )
        found.append(machine.memory[place(1)])
    assert tuple(found) == results


def test_divisions_queue_their_results() -> None:
    machine, _ = run(
        "%s0 = smov.u32 17 ;; %s5 = smov.u32 4294967295",
        "%8 = sdivrem.u32 %s0, 5 /* kDivAndRem */",
        "%9 = sdivrem.u32 %s0, 6 /* kRem */",
        "%10 = sdivrem.u32 %s5, %s0 /* kDiv */",
        "%s1 = spop.drf %8",
        "%s2 = spop.drf %8",
        "%s3 = spop.drf %9",
        "%s4 = spop.drf %10",
        *(f"%9 = sst [smem:[#allocation1 + $0x{n}]] %s{n}" for n in range(1, 5)),
    )
    results = [machine.memory[place(1, n)] for n in range(1, 5)]
    assert results == [3, 2, 5, (2**32 - 1) // 17]


def test_a_quotient_may_fill_the_word() -> None:
    machine, _ = run(
        "%s0 = smov.u32 4294967295",
        "%8 = sdivrem.u32 %s0, 1 /* kDiv */",
        "%s1 = spop.drf %8",
        KEEP,
    )
    assert machine.memory[place(1)] == -1


def test_instructions_of_a_bundle_read_before_any_writes() -> None:
    machine, _ = run(
        "%s0 = smov.u32 1 ;; %s1 = smov.u32 2",
        "%s0 = smov.u32 %s1 ;; %s1 = smov.u32 %s0 ;; %9 = sst [smem:[#allocation1]] %s1",
        "%9 = sst [smem:[#allocation2]] %s1",
    )
    assert (machine.memory[place(1)], machine.memory[place(2)]) == (2, 1)


@pytest.mark.parametrize(("said", "negated", "result"), [("true", "", 7), ("true", "!", 3)])
def test_a_guarded_assignment_may_keep_what_was(said: str, negated: str, result: int) -> None:
    machine, _ = run(
        f"%p0 = pmov {said} ;; %s1 = smov.u32 3",
        f"%s1 = smov.u32 ({negated}%p0), 7",
        KEEP,
    )
    assert machine.memory[place(1)] == result


def test_a_guarded_store_may_not_happen() -> None:
    machine, _ = run(
        "%p0 = pmov false ;; %s1 = smov.u32 3",
        "%9 = sst [smem:[#allocation1]] (%p0), %s1",
        "%9 = sst [smem:[#allocation2]] (!%p0), %s1",
    )
    assert place(1) not in machine.memory
    assert machine.memory[place(2)] == 3


def test_a_pointer_is_another_name_for_the_same_register() -> None:
    machine, _ = run(
        "%s1_s1 = sadd.s32 1, 2  ;;  %s2_s1 = int_to_ptr.vmem [resolvable:$true] %s1_s1", KEEP
    )
    assert machine.memory[place(1)] == 3


def test_a_pointer_may_be_in_a_register_of_its_own() -> None:
    machine, _ = run("%s2 = sadd.s32 1, 2", "%s1 = int_to_ptr.vmem [resolvable:$true] %s2", KEEP)
    assert machine.memory[place(1)] == 3


def test_smem_keeps_what_does_not_fit_into_registers() -> None:
    machine, _ = run(
        "%s0 = smov.u32 40 ;; %s2 = smov.u32 2",
        "%9 = sst [smem:[#allocation7_spill]] %s0",
        "%9 = sst [smem:[#allocation5 + %s2]] %s2",
        "%s0 = smov.u32 0 ;; %s3 = scalar_lea.smem [#allocation5], %s2",
        "%s0 = sld [smem:[#allocation7_spill]] ;; %s4 = sld [smem:[%s3]]",
        "%s1 = sadd.s32 %s0, %s4",
        KEEP,
    )
    assert machine.memory[place(1)] == 42
    assert machine.memory[place(5, 2)] == 2


LOOP = (
    "%s0 = smov.u32 0 ;; %s1 = smov.u32 100",
    "LB: > %s0 = sadd.s32 1, %s0 ;; %s0 = sphi %s0, %s0",
    "> %p0 = scmp.lt.s32.totalorder %s0, 3",
    "> %5 = sbr.rel (%p0) target bundleno = 1 (0x1), region = 3",
    "> %s1 = sadd.s32 10, %s1",
    "> ",
    "%s1 = sadd.s32 1000, %s1",
    KEEP,
)


def test_a_branchs_delay_slots_run_whether_it_is_taken_or_not() -> None:
    machine, ran = run(*LOOP)
    assert machine.memory[place(1)] == 1130  # the slot runs on all three turns
    assert ran.counts == (1, 3, 3, 3, 3, 3, 1, 1)
    assert machine.now == 18


def test_the_delay_is_the_chips() -> None:
    machine, ran = run(*LOOP, delay=1)
    assert machine.memory[place(1)] == 1130
    assert ran.counts == (1, 3, 3, 3, 3, 1, 1, 1)


def test_waiting_for_a_predicate_may_take_no_time() -> None:
    """The delay slot after the branch counts, and so does the wait for a register."""
    texts = (
        "%s0 = smov.u32 0",
        "",
        "%p0 = scmp.lt.s32.totalorder %s0, 3",
        "",
        "",
        "%p1 = pneg %p0",
        "%5 = sbr.rel (%p1) target bundleno = 8 (0x8), region = 3",
        "",
        KEEP,
    )
    machine, ran = run(*texts, delay=1)
    assert (machine.now, sum(ran.counts)) == (9, 9)
    machine, ran = run(*texts, delay=1, free_gaps=True)
    assert ran.counts == (1, 1, 1, 0, 0, 1, 1, 1, 1)
    assert machine.now == 7


def test_turns_are_of_the_outermost_loop() -> None:
    nested = (
        "%s0 = smov.u32 0",
        "LB: > %s0 = sadd.s32 1, %s0 ;; %s1 = smov.u32 0",
        "LB: > > %s1 = sadd.s32 1, %s1",
        "> > %p1 = scmp.lt.s32.totalorder %s1, 4",
        "> > %5 = sbr.rel (%p1) target bundleno = 2 (0x2), region = 3",
        "> > ",
        "> > ",
        "> %p0 = scmp.lt.s32.totalorder %s0, 2",
        "> %6 = sbr.rel (%p0) target bundleno = 1 (0x1), region = 2",
        "> ",
        "> ",
    )
    _, ran = run(*nested)
    assert ran.turns == (1.0, 1 + 1 + 4 * 5 + 4)
    assert ran.counts[2] == 8


def test_a_loop_may_be_one_bundle_and_its_delay_slots() -> None:
    _, ran = run(
        "%s0 = smov.u32 0 ;; %p0 = pmov true",
        "LB: > %5 = sbr.rel (%p0) target bundleno = 1 (0x1), region = 3 ;; %s0 = sadd.s32 1, %s0",
        "> %p0 = scmp.lt.s32.totalorder %s0, 3",
        "> ",
    )
    assert ran.turns == (1.0, 4.0, 7.0, 10.0)


def test_of_two_loops_the_turns_are_the_firsts() -> None:
    second = [text.replace("= 1 (0x1)", "= 9 (0x9)") for text in LOOP]
    _, ran = run(*LOOP, *second)
    assert ran.turns == (1.0, 6.0, 11.0)
    assert ran.counts[9] == 3


def test_a_branch_forward_skips() -> None:
    machine, ran = run(
        "%p0 = pmov true ;; %s1 = smov.u32 0",
        "%5 = sbr.rel (!%p0) target bundleno = 6 (0x6), region = 3",
        "",
        "",
        "%6 = sbr.rel target bundleno = 8 (0x8), region = 4",
        "%s1 = sadd.s32 1, %s1",
        "%s1 = sadd.s32 2, %s1",
        "%s1 = sadd.s32 4, %s1",
        KEEP,
    )
    assert machine.memory[place(1)] == 3
    assert ran.counts == (1, 1, 1, 1, 1, 1, 1, 0, 1)


def test_a_branch_past_the_end_ends() -> None:
    machine, ran = run("%5 = sbr.rel target bundleno = 9 (0x9), region = 3", "", "", "", *[""] * 5)
    assert ran.counts == (1, 1, 1, 0, 0, 0, 0, 0, 0)
    assert machine.now == 3


def test_loops_that_do_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "MAX_BLOCKS", 10)
    with pytest.raises(NotUnderstood, match="a run through more than 10 basic blocks"):
        run("LB: > %5 = sbr.rel target bundleno = 0 (0x0), region = 3", "> ", "> ")
    run(*LOOP)


def test_branches_in_delay_slots_are_refused() -> None:
    branch = "%5 = sbr.rel target bundleno = 4 (0x4), region = 3"
    with pytest.raises(NotUnderstood, match="a branch in another branch's delay slots"):
        run(branch, branch, "", "", "")


def test_loop_variables_that_move_are_refused() -> None:
    with pytest.raises(NotUnderstood, match="a loop whose variable moves"):
        run("LB: > %s2 = sphi %s0, %s1")


def test_the_first_allocation_holds_the_cores_number() -> None:
    machine, _ = run("%s1 = sld [smem:[#allocation0]]", KEEP)
    assert machine.memory[place(1)] == 0


# What only a real run can tell.

UNKNOWN = ("%7 = vpush %v1_v1", "%s0 = spop %7", "%p0 = scmp.gt.s32.totalorder %s0, 3")


def test_what_is_unknown_spreads() -> None:
    machine, _ = run(
        *UNKNOWN,
        "%s1 = sadd.s32 1, %s0",
        "%s1 = sshll.u32 %s1, 3",
        "%s1 = scalar_select /*predicate=*/%p0, /*on_true=*/%s1, /*on_false=*/0",
        KEEP,
    )
    kept = machine.memory[place(1)]
    assert isinstance(kept, Unknown)
    assert kept.why == "values that the vector units compute"


@pytest.mark.parametrize(
    "instruction",
    [
        "sadd.s32 4, %s0",
        "ssub.s32 4, %s0",
        "smul.u32 %s0, 4",
        "smulhi.u32 %s0, 4",
        "sor.u32 4, %s0",
        "sxor.u32 %s0, 4",
        "sand.u32 %s0, 4",
        "sshra.s32 %s0, 4",
        "sshrl.u32 4, %s0",
        "sclz.u32 %s0",
        "smin.u32 %s0, 4",
        "smax.s32 %s0, 4",
        "sld [smem:[#allocation3 + %s0]]",
    ],
)
def test_what_is_unknown_spreads_through(instruction: str) -> None:
    machine, _ = run(*UNKNOWN, f"%s1 = {instruction}", KEEP)
    kept = machine.memory[place(1)]
    assert isinstance(kept, Unknown)
    assert kept.why == "values that the vector units compute"


def test_what_is_unknown_may_not_matter() -> None:
    machine, _ = run(
        *UNKNOWN,
        "%p1 = pmov false ;; %p2 = pmov true ;; %s5 = smov.u32 0",
        "%p3 = pand %p0, %p1 ;; %p4 = por %p2, %p0 ;; %s1 = sand.u32 %s0, %s5",
        "%p5 = pnand %p1, %p0",
        "%5 = sbr.rel (%p3) target bundleno = 0 (0x0), region = 3",
        "",
        "",
        "%s1 = sadd.s32 (%p4), 7, %s1",
        "%s1 = sadd.s32 (%p5), 7, %s1",
        KEEP,
    )
    assert machine.memory[place(1)] == 14


def test_a_store_that_may_happen_leaves_an_unknown() -> None:
    machine, _ = run(*UNKNOWN, "%s1 = smov.u32 3", "%9 = sst [smem:[#allocation1]] (%p0), %s1")
    assert isinstance(machine.memory[place(1)], Unknown)


@pytest.mark.parametrize(
    ("texts", "why"),
    [
        (
            (*UNKNOWN, "%5 = sbr.rel (%p0) target bundleno = 0 (0x0), region = 3", "", ""),
            "control flow depends on values that the vector units compute",
        ),
        (
            (*UNKNOWN, "%9 = vsyncadd (%p0), [#allocation3], 1"),
            "control flow depends on values that the vector units compute",
        ),
        (
            (*UNKNOWN, "%9 = sst [smem:[%s0]] %s0"),
            "an address depends on values that the vector units compute",
        ),
        (
            ("%s0 = sld [smem:[#allocation3]]", "%9 = vsyncadd [#allocation4], %s0"),
            "an address depends on scalar memory that was not written before",
        ),
        (
            ("%9 = vsyncadd [#allocation4], %s3",),
            "an address depends on a register that was not written before",
        ),
        (
            (
                "%s0 = sld [smem:[#allocation3]]",
                "%p0 = scmp.gt.f32.partialorder %s0, 1.0",
                "%9 = vsyncadd (%p0), [#allocation3], 1",
            ),
            "control flow depends on scalar memory that was not written before",
        ),
        (
            (
                "%s0 = smov.u32 1065353216",
                "%s0 = smul.f32 2.0, %s0",
                "%s0 = scvt.s32.f32 %s0",
                "%9 = vsyncadd [#allocation3], %s0",
            ),
            "an address depends on arithmetic on a float32 scalar",
        ),
        (
            ("%s0 = smov 1.5", "%9 = vsyncadd [#allocation3], %s0"),
            "an address depends on arithmetic on a float32 scalar",
        ),
        (
            ("%s0 = smagic.u32 3", "%9 = vsyncadd [#allocation3], %s0"),
            "an address depends on the instruction smagic.u32",
        ),
        (
            (
                "%s0 = smov.u32 0",
                "%8 = sdivrem.u32 5, %s0 /* kDiv */",
                "%s1 = spop.drf %8",
                "%9 = vsyncadd [#allocation3], %s1",
            ),
            "an address depends on a division by zero",
        ),
        (
            (
                "%s0 = inlined_call_operand. [shape: s32[], index: 0, kind: input]",
                "%9 = vsyncadd [#allocation3], %s0",
            ),
            "an address depends on the value of x",
        ),
        (
            (
                "%s0 = inlined_call_operand.hbm [shape: s32[8], index: 0, kind: input]",
                "%p0 = scmp.eq.s32.totalorder %s0, 3",
                "%9 = vsyncadd (%p0), [#allocation3], 1",
            ),
            "control flow depends on where in HBM an operand lies",
        ),
        (("%9 = smagic.u32 3",), "the instruction smagic.u32"),
        (("%s1 = smov.u32 3 ;; oddity",), "the instruction oddity"),
        (("%9 = vsyncadd.remote [#allocation3], 3",), "the instruction vsyncadd.remote"),
        (("%9 = vwait.eq [#allocation3], 3",), "the instruction vwait.eq"),
        (("%9 = vsyncadd [#allocation3]",), "vsyncadd with 1 operands"),
        (("%s0 = sadd.s32 3",), "sadd.s32 with 1 operands"),
        (("%s0 = sadd.s32 3, @odd",), "an operand of unknown form: '@odd'"),
        (("%s0 = spop.drf %8",), "a read of drf, which nothing has filled"),
        (("%p0 = pmov true", "%s0 = spop.drf (%p0), %8"), "a guarded spop.drf"),
        (("%9 = sbr.rel %s3",), "a branch to a computed address"),
    ],
)
def test_what_can_not_be_known_is_refused(texts: tuple[str, ...], why: str) -> None:
    with pytest.raises(NotUnderstood, match=f"^{why}"):
        run(*texts)


def test_fences_and_parities_have_no_effect() -> None:
    machine, _ = run(
        "%5 = sfence",
        "%6 = vsyncpa [#allocation4], 1",
        "%7 = vpush %v1_v1",
        "%8 = set.rngseed %v1_v1",
    )
    assert machine.now == 4
    assert not machine.flags


def test_scalars_of_floating_point_do_no_harm() -> None:
    machine, _ = run("%s1 = smul.f32 2.0, %s0", "%s1 = sadd.bf16 %s1, %s1", KEEP)
    assert isinstance(machine.memory[place(1)], Unknown)


def test_a_check_that_fails() -> None:
    check = "%8 = shalt.err (%p0) /* Semaphore 0 is left\nhlo: k */"
    with pytest.raises(
        NotUnderstood, match=r"^the kernel stops with an error: Semaphore 0 is left$"
    ):
        run("%p0 = pmov true", check)
    run("%p0 = pmov false", check)
    run(*UNKNOWN, check)


def test_checks_of_bounds_compare_what_is_made_up_here() -> None:
    run("%p0 = pmov true", "%8 = shalt.err (%p0) /* BoundsCheck 0 [deref of opnd#0]\n */")


def test_scalar_operands_come_by_value() -> None:
    machine, _ = run(
        "%s1 = inlined_call_operand. [shape: s32[], index: 0, kind: input]",
        KEEP,
        words={INPUT: [-5, 0]},
    )
    assert machine.memory[place(1)] == -5


def test_addresses_count_from_their_operand() -> None:
    x = Address(OperandSource("input", 0))
    moved = (x + 3 << 4) + 1 - 2
    assert isinstance(moved, Address)
    assert (moved.source, moved.offset) == (OperandSource("input", 0), 47)
    assert (8 + x & 0x7FFFFFFF).offset == 8
    for made in (x == x, x < x, x ^ 1, 5 - x, x + x, x * 2, x >> 31):
        assert type(made) is Unknown
    unknown = Unknown("this")
    assert (x + unknown).why == (unknown + x).why == "this"


def test_choosing_by_what_is_unknown() -> None:
    assert select(True, 1, 2) == 1
    assert select(False, 1, 2) == 2
    assert isinstance(select(Unknown("this"), 1, 1), Unknown)


@pytest.mark.parametrize(
    ("value", "word"), [(5, 5), (2**31, LOW), (-1, -1), (2**32 + 7, 7), (LOW - 1, HIGH)]
)
def test_words_have_32_bits(value: int, word: int) -> None:
    assert wrapped(value) == word
