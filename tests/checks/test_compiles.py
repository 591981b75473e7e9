"""What is said of a kernel that the TPU's compiler refuses."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax.experimental import pallas as pl

from pallascope.checks.compiles import check, libtpu_advice, refused_finding
from pallascope.model import (
    Accident,
    Check,
    Finding,
    KernelCall,
    NotJudged,
    Operand,
    Role,
    SourceLine,
)
from pallascope.tpu import OnChip, Prediction, compiler, predictions
from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind
from pallascope.tpu.traffic import Traffic
from pallascope.tpu.vmem import Allocation, Use, footprint
from tests.pallascope.support.calls import call, operand
from tests.pallascope.support.core_map_kernels import scoped_through_vmem
from tests.pallascope.support.sample_predictions import uncompiled
from tests.support.factories import FILE, OwnAndPar, at_par, attempt, evidence

MIB = 1 << 20


def adding(rows: int, *scratch: Operand) -> KernelCall:
    block = {"moves": True, "axes": (0,)}
    return call(
        operand("x_ref", (8192, 1024), (rows, 1024), **block),
        operand("o_ref", (8192, 1024), (rows, 1024), Role.OUTPUT, **block),
        *scratch,
        grid=(8192 // rows,),
    )


def refused(
    failure: LibtpuRefusal, kernel: KernelCall | None = None, chip: str = "v5e"
) -> Prediction:
    kernel = kernel or adding(8)
    nothing = Traffic(kernel.name, kernel.grid, (), ())
    return Prediction(chip, kernel, (), nothing, (), failure=failure)


def too_large(kernel: KernelCall, wanted: int = 0, *more: Allocation) -> LibtpuRefusal:
    taken = footprint(kernel)
    return LibtpuRefusal(
        LibtpuRefusalKind.VMEM,
        "it needs more VMEM than it may have",
        "Scoped allocation …",
        wanted=wanted or sum(a.size for a in (*taken, *more)),
        limit=16 * MIB,
        allocations=(*taken, *more),
    )


def words(*refusals: Prediction) -> str:
    finding = refused_finding(refusals, FILE)
    assert finding.check is Check.COMPILES
    return f"{finding.phrase}\n" + " ".join(finding.message.split())


def test_vmem_line_by_line() -> None:
    kernel = adding(2048)
    finding = refused_finding([refused(too_large(kernel), kernel)], FILE)
    assert finding.phrase == "needs 32 MiB of VMEM; the limit on v5e is 16 MiB"
    assert finding.full == "Scoped allocation …"
    assert finding.message.splitlines()[:7] == [
        "The kernel needs more VMEM than it may have.",
        "  vmem   double needs 32 MiB of VMEM on v5e; the limit is 16 MiB:",
        "           x_ref  2 × f32[2048, 1024]    16 MiB",
        "           o_ref  2 × f32[2048, 1024]    16 MiB",
        "  why    There are two copies of a block that moves, so that the next block is",
        "         copied in while the kernel uses this one.",
        "  fits   blocks (1024, 1024) of x_ref and o_ref would fit.",
    ]
    assert " ".join(finding.message.split()).endswith(
        "try Use smaller blocks, and a grid with more steps. Or ask for more: a v5e has 128 MiB, "
        "and compiler_params=pltpu.CompilerParams(vmem_limit_bytes=…) sets a kernel's limit."
    )


def test_a_mesh_of_more_cores_than_there_are() -> None:
    two = dataclasses.replace(adding(8), cores=2)
    said = words(refused(LibtpuRefusal(LibtpuRefusalKind.CORES, "its mesh asks for 2", "…"), two))
    assert said.startswith(
        "asks for 2 TensorCores; a v5e has one\nThe chip has fewer cores than the kernel asks for. "
        "cores the mesh of double asks for 2 TensorCores; a v5e has one. try Let the mesh take as "
        "many cores as there are: leave out num_cores."
    )


def test_what_blocks_and_scratch_do_not_explain() -> None:
    kernel = adding(1024)
    spilled = Allocation(Use.SPILL, "", "", 1, 6 * MIB)
    said = words(refused(too_large(kernel, 0, spilled), kernel))
    assert "spills values that no register was free for 6 MiB" in said
    assert "loop over parts" in said
    unknown = words(refused(too_large(kernel, 20 * MIB), kernel))
    assert "values of the kernel's computation 4 MiB" in unknown
    assert "blocks (512, 1024) of x_ref and o_ref would fit" in unknown


def test_the_largest_comes_first() -> None:
    kernel = adding(512, operand("acc_ref", (8192, 640), role=Role.SCRATCH))
    said = words(refused(too_large(kernel), kernel))
    assert said.index("acc_ref f32[8192, 640] 20 MiB") < said.index("x_ref 2 × f32[512, 1024]")
    assert "fits" not in said
    assert "The scratch alone takes most of it" in said


def test_more_than_there_is() -> None:
    """A larger limit is no help where the core has no more, or not enough."""
    kernel = adding(2048)
    assert "Or ask for more" not in words(refused(too_large(kernel), kernel, "v4"))
    assert "Or ask for more" in words(refused(too_large(kernel), kernel, "v5p"))
    assert "Or ask for more" not in words(refused(too_large(kernel, 150 * MIB), kernel))


def test_buffers_of_one_operand_that_take_most() -> None:
    kernel = call(
        operand("x_ref", (256, 1024)),
        operand("w_ref", (16384, 1024), (4096, 1024), moves=True, axes=(0,)),
        operand("o_ref", (256, 1024), role=Role.OUTPUT),
        grid=(4,),
    )
    said = words(refused(too_large(kernel), kernel))
    assert "If the block of w_ref seldom changes, pipeline_mode=pl.Buffered(1)" in said
    assert "saves 16 MiB" in said
    assert "Buffered" not in words(refused(too_large(kernel, 200 * MIB), kernel))


def test_one_buffer_needs_no_explanation() -> None:
    kernel = call(
        operand("x_ref", (4096, 1024)), operand("o_ref", (4096, 1024), role=Role.OUTPUT), grid=()
    )
    said = words(refused(too_large(kernel), kernel))
    assert "is there twice" not in said
    assert "x_ref f32[4096, 1024] 16 MiB" in said
    assert "The kernel has a single grid step, and its blocks are whole arrays." in said
    assert "blocks (1024, 1024) of x_ref and o_ref would fit" in said


def test_scratch_alone_has_no_blocks() -> None:
    """A kernel that copies from HBM itself: a grid would not make it smaller."""
    hbm = (
        dataclasses.replace(operand(name, (4096, 1024)), space="any") for name in ("x_hbm", "o_hbm")
    )
    kernel = call(*hbm, operand("rows", (8192, 1024), role=Role.SCRATCH), grid=())
    said = words(refused(too_large(kernel), kernel))
    assert "rows f32[8192, 1024] 32 MiB" in said
    assert "single grid step" not in said


@pytest.mark.parametrize(
    ("kind", "phrase", "advice"),
    [
        (LibtpuRefusalKind.SMEM, "needs more SMEM than a v5e has", "keep tables in VMEM or HBM"),
        (
            LibtpuRefusalKind.SEMAPHORES,
            "needs more semaphores than a v5e has",
            "used again after a wait",
        ),
        (LibtpuRefusalKind.HBM, "needs more HBM than a v5e has", "smaller arrays"),
    ],
)
def test_other_memories(kind: LibtpuRefusalKind, phrase: str, advice: str) -> None:
    table = Allocation(Use.WINDOW, "n_ref", "s32[400000]", 1, 1_600_000)
    failure = LibtpuRefusal(kind, "…", "…", wanted=3 * MIB, limit=MIB, allocations=(table,))
    said = words(refused(failure))
    assert said.startswith(f"{phrase}\n")
    assert "double needs 3 MiB of " in said
    assert "on v5e, which has 1 MiB." in said
    assert "takes n_ref s32[400000]" in said
    assert advice in said


def unsupported(message: str, operation: str = "", types: str = "") -> LibtpuRefusal:
    return LibtpuRefusal(LibtpuRefusalKind.UNSUPPORTED, message, "the whole text", operation, types)


def test_an_operation_line_by_line() -> None:
    failure = LibtpuRefusal(
        LibtpuRefusalKind.UNSUPPORTED,
        "Not implemented: Only vector<i16> and vector<i32> are supported",
        "the whole text",
        operation="arith.muli",
        types="(vector<32x128xi8>, vector<32x128xi8>) -> vector<32x128xi8>",
        file=f"/somewhere/{FILE}",
        place=SourceLine(7, "o_ref[...] = x_ref[...] * x_ref[...]"),
    )
    finding = refused_finding([refused(failure)], FILE)
    assert finding.phrase == f"v5e refuses it: {failure.message}"
    assert finding.full == "the whole text"
    assert finding.message.splitlines() == [
        "The TPU's compiler refuses the kernel.",
        "  error  on v5e, in a multiplication of int8:",
        "         Not implemented: Only vector<i16> and vector<i32> are supported",
        "         (the whole text: pytest -vv)",
        f"  line   {FILE}:7",
        "             o_ref[...] = x_ref[...] * x_ref[...]",
        "  why    The vector unit adds and compares 32-bit numbers, and few operations",
        "         work on narrower ones: small dtypes are for storage and for the matrix",
        "         unit.",
        "  try    Cast after the load and back before the store:",
        "             o_ref[...] = f(x_ref[...].astype(jnp.int32)).astype(o_ref.dtype)",
    ]


def test_a_line_of_another_file() -> None:
    place = SourceLine(7, "return x")
    failure = LibtpuRefusal(
        LibtpuRefusalKind.UNSUPPORTED, "no", "no", file="/else/where.py", place=place
    )
    assert "line /else/where.py:7 return x" in words(refused(failure))


@pytest.mark.parametrize(
    ("failure", "called", "why", "way"),
    [
        (
            unsupported("Invalid vector type for load", "tpu.load", "(memref<16x128xf16, #t>)"),
            "a load of float16",
            "has no float16",
            "jnp.bfloat16",
        ),
        (
            unsupported(
                "cannot statically prove that index in dimension 1 is …", "tpu.vector_load"
            ),
            "a load",
            "edge of a tile",
            "pl.multiple_of(start, 128)",
        ),
        (
            unsupported(
                "cannot statically prove that index in dimension 2 is a multiple of 2",
                "tpu.vector_store",
                "(vector<1x3x1x128xbf16>, memref<4x3x2x128xbf16>, index) -> ()",
            ),
            "a store of bfloat16",
            "share words of 32 bits",
            "jnp.where(row == position, new, old)",
        ),
        (
            unsupported(
                "infer-vector-layout: unsupported shape cast",
                "tpu.reshape",
                "(vector<256xbf16>) -> vector<256x1xbf16>",
            ),
            "a reshape of bfloat16",
            "into a column",
            "v.astype(jnp.float32)[:, None]",
        ),
        (
            unsupported("Offsets along tiled dimensions must be aligned", "tpu.memref_slice"),
            "a slice of a Ref",
            "share words of 32 bits",
            "pl.multiple_of",
        ),
        (
            unsupported("Bad lhs/rhs type", "tpu.matmul", "(vector<32x128xi32>) -> i32"),
            "a matmul of int32",
            "matrix unit",
            "jnp.dot(",
        ),
        (
            unsupported("Not implemented: Multiple source vregs", "tpu.dynamic_gather"),
            "a gather",
            "within one register",
            "one-hot",
        ),
        (
            unsupported("unsupported shape cast", "tpu.reshape", "(vector<48x128xf32>)"),
            "a reshape of float32",
            "lane",
            "outside the kernel",
        ),
        (
            unsupported("The last dim size is not 128", "tpu.strided_load"),
            "a strided load",
            "can skip rows",
            "second-to-last",
        ),
        (
            unsupported("failed to legalize", "arith.maxsi", "(vector<8x128x2xi16>)"),
            "a maximum of int16",
            "32-bit numbers",
            "jnp.int32",
        ),
        (
            unsupported("failed to legalize", "math.exp", "(vector<8x128x4xf8E5M2>)"),
            "exp of float8_e5m2",
            "32-bit numbers",
            "jnp.float32",
        ),
        (
            unsupported("Invalid vector register cast", "tpu.bitcast_vreg", "(vector<8x128xi1>)"),
            "bitcast_vreg of bool",
            "Masks have their own registers",
            "jnp.where(mask, 1, 0)",
        ),
        (
            unsupported("Invalid input layout", "arith.extsi", "(vector<8xi1>) -> vector<8xi8>"),
            "extsi of bool",
            "Masks have their own registers",
            "jnp.where(mask, 1, 0)",
        ),
        (
            unsupported("Setting seed with more than 2 values is not supported", "tpu.prng"),
            "prng",
            "takes one or two numbers",
            "pltpu.prng_seed(seed, number)",
        ),
        (unsupported("it rains", "tpu.rain"), "rain", "", "outside the kernel"),
        (
            LibtpuRefusal(LibtpuRefusalKind.INTERNAL, "RuntimeError: float16", "…"),
            "",
            "",
            "outside the kernel",
        ),
    ],
)
def test_advice(failure: LibtpuRefusal, called: str, why: str, way: str) -> None:
    advice = libtpu_advice(failure)
    assert advice.called == called
    assert why in advice.why
    assert bool(why) == bool(advice.why)
    assert way in advice.remedy
    said = words(refused(failure))
    assert " ".join(advice.remedy.split()) in said


def test_several_chips() -> None:
    """Alike refusals are explained once; each other one by itself."""
    kernel = adding(2048)
    said = words(
        refused(unsupported("it rains"), chip="v4"),
        refused(too_large(kernel), kernel, chip="v5e"),
        refused(unsupported("it rains"), chip="v6e"),
    )
    assert said.startswith("v4 and v6e refuse it: it rains\n")
    assert said.count("it rains") == 2
    assert "error on v4 and v6e, it rains" in said
    assert "32 MiB of VMEM on v5e" in said


def test_the_full_texts_of_all() -> None:
    refusals = [refused(unsupported("it rains")), refused(too_large(adding(2048)), chip="v6e")]
    assert refused_finding(refusals, FILE).full == "the whole text\n\nScoped allocation …"


# ---- not asked ----


def test_not_compiled_while_par_was_is_a_finding() -> None:
    """Whatever the kata has done to the compiler: its kernel is the one that was not seen."""
    found = check(evidence(attempt(), on_chips=OwnAndPar(uncompiled(), at_par().par)))
    assert isinstance(found, Finding)
    assert found.check is Check.COMPILES
    assert found.phrase == "not compiled, although par was"
    assert "double: no libtpu" in found.message
    assert "  try" in found.message


@pytest.mark.parametrize(
    "par",
    [uncompiled(), OnChip(), Accident("crashed", "It crashed.")],
    ids=["same", "none", "died"],
)
def test_not_compiled_beside_a_par_that_was_not_is_not_judged(
    par: OnChip | Accident,
) -> None:
    found = check(evidence(attempt(), on_chips=OwnAndPar(uncompiled(), par)))
    assert found == NotJudged(Check.COMPILES, "no libtpu")


def test_a_kernel_that_the_grader_does_not_know_is_not_judged() -> None:
    """Though par was compiled: it is nothing that the learner could mend."""
    (own,) = uncompiled().predictions
    strange = dataclasses.replace(
        own, call=dataclasses.replace(own.call, unknown="a SparseCore"), unknown="a SparseCore"
    )
    both = OwnAndPar(OnChip(None, (strange,)), at_par().par)
    assert check(evidence(attempt(), on_chips=both)) == NotJudged(Check.COMPILES, "a SparseCore")


def tiles_a_mask(x_ref: Any, o_ref: Any) -> None:
    mask = jnp.tile(x_ref[0:1] > 0, (8, 1))
    o_ref[...] = jnp.where(mask, x_ref[...], 0)


def chooses_between_masks(x_ref: Any, o_ref: Any) -> None:
    x = x_ref[...]
    o_ref[...] = jnp.where(jnp.where(x > 0, x[0:1] > 0, x[1:2] > 0), x, 0)


@pytest.mark.parametrize("kernel", [tiles_a_mask, chooses_between_masks])
def test_a_mask_of_one_row_that_libtpu_refuses(kernel: Callable[..., None]) -> None:
    pytest.importorskip("libtpu")
    jax.config.update("jax_platforms", "cpu")
    block = jax.ShapeDtypeStruct((8, 128), jnp.float32)
    refusals = predictions(pl.pallas_call(kernel, block), block)
    assert all(one.failure for one in refusals)
    assert "jnp.where(mask, 1, 0)" in words(*refusals)


def test_a_compiler_that_takes_too_long_is_told_as_that() -> None:
    stuck = Accident(
        "no answer after 30 s", "No answer after 30 s.\nUsual reasons: a loop", stuck=True
    )
    found = check(evidence(attempt(), on_chips=OwnAndPar(stuck, at_par().par)))
    assert isinstance(found, Finding)
    assert found.phrase == "the TPU's compiler gave no answer after 30 s"
    assert "No answer after 30 s." in found.message
    assert "Use smaller blocks, jax.lax.fori_loop" in " ".join(found.message.split())
    assert "Usual reasons" not in found.message


@pytest.mark.skipif(bool(compiler.unavailable_reason()), reason="libtpu")
def test_a_buffer_that_is_too_large_is_named() -> None:
    large = jax.ShapeDtypeStruct((8192, 1024), jnp.float32)
    message = refused_finding(predictions(scoped_through_vmem, large), "katas/a.py").message
    assert "run_scoped  u8[33554432]    32 MiB" in message
    assert "hold less of the problem at a time" in " ".join(message.split())
