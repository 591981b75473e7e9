"""Why kernels are refused: the exceptions are jax's own, raised by it alone, without the extra."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import pytest
from jax.experimental.pallas import mosaic_gpu as plgpu

from pallascope.gpu.gpu_compile_errors import (
    GpuRefusal,
    GpuRefusalKind,
    read_refusal,
    read_text,
    timed_out,
)
from pallascope.gpu.gpu_resources import buffers_of
from pallascope.gpu.gpus import GpuChip, named, program_of
from tests.pallascope.support import gpu_launches as launches
from tests.pallascope.support.gpu_launches import struct, tiled

H100 = named("h100")
NEWER = jax.__version_info__ >= (0, 11)
X = struct("float32", 256, 128)
A = struct("float16", 64, 64)


def refusal(
    launch: Callable[..., Any], *args: Any, chip: GpuChip = H100, **keywords: Any
) -> GpuRefusal:
    try:
        program_of(functools.partial(launch, **keywords), args, chip)
    except Exception as error:
        return read_refusal(error)
    raise AssertionError("it was lowered")


def test_too_much_shared_memory_and_what_takes_it() -> None:
    found = refusal(launches.two_large_buffers, X)
    assert found.kind is GpuRefusalKind.SHARED_MEMORY
    assert (found.wanted, found.limit) == (262152, H100.shared_of_block)
    assert found.message == "it needs 262,152 bytes of shared memory, and a block may have 232,448"
    taken = buffers_of(launches.two_large_buffers, [X])
    assert [each.size for each in taken] == [131072, 131072, 8]
    assert [str(each) for each in taken] == [
        *("first  float32[256,128]", "second  float32[256,128]"),
        f"here  {taken[2].dtype}[{'' if NEWER else 1}]",
    ]
    assert sum(each.size for each in taken) == found.wanted


def test_an_operation_that_mosaic_gpu_lacks() -> None:
    found = refusal(launches.sorts, X)
    assert (found.kind, found.message) == (GpuRefusalKind.PRIMITIVE, "Mosaic GPU can't do sort")


def test_a_function_with_its_own_derivative() -> None:
    found = refusal(launches.keeps_the_positive, X)
    assert found.kind is GpuRefusalKind.PRIMITIVE
    assert found.message == "Mosaic GPU can't do custom_jvp_call"


def test_an_array_that_128_threads_cannot_share() -> None:
    found = refusal(launches.adds_one, struct("float32", 100))
    assert found.kind is GpuRefusalKind.LAYOUT
    assert ("no layouts fit" if NEWER else "100 isn't a multiple of 128") in found.message


def reads_by_index(acc: Any, _box: Any, _here: Any, o_gmem: Any) -> None:
    o_gmem[...] = acc[...]


def multiplies_as_on_a_hopper(acc: Any, box: Any, _here: Any, _o_gmem: Any) -> None:
    plgpu.wgmma(acc, box, box)


def sends(acc: Any, _box: Any, _here: Any, o_gmem: Any) -> None:
    plgpu.copy_smem_to_gmem(acc, o_gmem)


def names_a_barrier_for_copies(acc: Any, box: Any, here: Any, _o_gmem: Any) -> None:
    plgpu.tcgen05_mma(acc, box, box, here, accumulate=False)


@pytest.mark.parametrize(
    ("use", "words"),
    [
        (reads_by_index, "can't be indexed"),
        (multiplies_as_on_a_hopper, "wgmma's accumulator is in registers"),
        (sends, "TMA copies out of shared memory"),
        (names_a_barrier_for_copies, "it has no orders_tensor_core=True"),
    ],
)
def test_tensor_memory_that_is_used_as_other_memory(use: Callable[..., Any], words: str) -> None:
    found = refusal(launches.misuses_tensor_memory, A, chip=named("b200"), use=use)
    assert found.kind is GpuRefusalKind.TENSOR_MEMORY
    assert words in found.message


@pytest.mark.parametrize(
    ("shape", "rows", "columns", "words"),
    [
        ((256, 128), 256, 3, "multiples of 16 bytes along the last axis, not 96 bits"),
        ((512, 64), 512, 64, "at most 256 elements along each axis: (512, 64)"),
        ((64, 3), 64, 3, "a multiple of 16 bytes long"),
    ],
)
def test_a_copy_that_tma_cannot_do(
    shape: tuple[int, ...], rows: int, columns: int, words: str
) -> None:
    x = struct("float32", *shape)
    found = refusal(launches.part_by_tma, x, rows=rows, columns=columns)
    assert found.kind is GpuRefusalKind.TMA
    assert words in found.message


def test_a_copy_between_two_shapes() -> None:
    found = refusal(launches.whole_into_part, struct("float32", 128, 64))
    assert found.kind is GpuRefusalKind.SHAPES
    assert found.message == (
        "a copy between (128, 64) in global memory and (64, 64) in shared memory"
    )


def test_rows_that_are_spread_by_an_index() -> None:
    found = read_text("Tiling ((64, 8), (16, 8), (8, 8), (2,)) does not apply to shape (64, 1)")
    assert found
    assert found.kind is GpuRefusalKind.LAYOUT
    assert "lax.broadcast_in_dim" in found.message


def test_too_few_rows_for_wgmma() -> None:
    found = refusal(launches.one_wgmma, struct("float16", 32, 64), A)
    assert found.kind is GpuRefusalKind.WGMMA
    assert "multiple" in found.message
    assert "32" in found.message


def test_an_order_of_float32_that_wgmma_does_not_take() -> None:
    a = struct("float32", 64, 64)
    both = tiled(32, 128)
    found = refusal(launches.one_wgmma, a, a, a_transforms=both, b_transforms=both)
    assert found.kind is GpuRefusalKind.WGMMA
    assert "K as the last axis" in found.message


def test_a_swizzle_that_does_not_fit_the_tiling() -> None:
    found = refusal(launches.one_wgmma, A, A, a_transforms=tiled(64, 64))
    assert found.kind is GpuRefusalKind.LAYOUT
    assert found.message == "a swizzle of 64 bytes needs a tiling whose last size is 32"
    assert "gpu_launches.py" in found.line


def test_a_tiling_that_does_not_divide_is_asserted_without_a_word() -> None:
    found = refusal(launches.one_wgmma, A, struct("float16", 64, 20))
    assert found.kind is GpuRefusalKind.LAYOUT
    assert "a tiling that doesn't divide the last axes" in found.message


def test_operands_with_two_swizzles() -> None:
    found = refusal(launches.one_wgmma, A, A, b_transforms=tiled(32, 64))
    assert found.kind is (GpuRefusalKind.LAYOUT if NEWER else GpuRefusalKind.WGMMA)
    assert "swizzles" in found.message


@pytest.mark.skipif(NEWER, reason="lays operands out by itself")
def test_an_operand_without_transforms() -> None:
    found = refusal(launches.one_wgmma, A, A, a_transforms=(), b_transforms=())
    assert found.kind is GpuRefusalKind.WGMMA
    assert "wgmma's lhs needs plgpu.TilingTransform" in found.message


@pytest.mark.skipif(not NEWER, reason="lowers it: what was compiled is looked at instead")
def test_more_warpgroups_than_a_block_may_have() -> None:
    found = refusal(launches.sixteen_warpgroups, struct("float32", 2048))
    assert found.kind is GpuRefusalKind.THREADS


@pytest.mark.skipif(not NEWER, reason="sends pallas_call to Mosaic GPU")
@pytest.mark.filterwarnings("ignore:The Pallas Triton backend:DeprecationWarning")
def test_a_pallas_call_is_of_triton() -> None:
    found = refusal(launches.by_pallas_call, X)
    assert found.kind is GpuRefusalKind.TRITON
    assert "plgpu.kernel" in found.message


def test_what_the_function_itself_raises_keeps_its_line() -> None:
    found = refusal(launches.name_error, X)
    assert found.kind is GpuRefusalKind.PYTHON
    assert found.message == "NameError: name 'undefined' is not defined"
    assert "block + undefined" in found.line


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        (
            "loc(\"/home/me/mm.py\":59:21 to :46): error: 'nvvm.tcgen05.alloc' op is not supported "
            "on sm_90a",
            GpuRefusalKind.CHIP,
            "sm_90a has no such instruction (nvvm.tcgen05.alloc)",
        ),
        (
            "ptxas /tmp/x, line 45; error   : Instruction 'tcgen05.alloc' not supported on .target "
            "'sm_90a'\nptxas fatal   : Ptx assembly aborted due to errors",
            GpuRefusalKind.CHIP,
            "sm_90a has no such instruction (tcgen05.alloc)",
        ),
        (
            "ptxas fatal   : Ptx assembly aborted due to errors",
            GpuRefusalKind.PTXAS,
            "ptxas: Ptx assembly aborted due to errors",
        ),
    ],
)
def test_what_the_compiler_prints(text: str, kind: GpuRefusalKind, message: str) -> None:
    found = read_text(text)
    assert found
    assert (found.kind, found.message) == (kind, message)


def test_the_compilers_place_is_told() -> None:
    found = read_text("loc(\"/home/me/mm.py\":59:21): error: 'a.b' op is not supported on sm_90a")
    assert found
    assert "/home/me/mm.py:59" in found.line


def test_a_text_that_no_row_knows() -> None:
    assert read_text("something else") is None
    found = read_refusal(RuntimeError("something else"))
    assert (found.kind, found.message) == (GpuRefusalKind.PYTHON, "RuntimeError: something else")


def test_time_is_up() -> None:
    assert timed_out(2.5).message == "the compiler has not finished after 2.5 s"
