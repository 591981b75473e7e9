"""Messages about refusals of jax and of a GPU's compiler.

Why jax, or a GPU's compiler, refuses a kernel, and what to try.

What jax refuses of a launch for GPUs already while it is traced, in words.
"""

from __future__ import annotations

from grader.checks.phrasing import at, paragraph
from grader.verdict import Check, Finding
from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind, read_text
from pallascope.model import OnGpu, Problem
from pallascope.tpu.units import bytes_of

#: Why each kind of refusal is one, and what to do instead.
ADVICE: dict[GpuRefusalKind, tuple[str, str]] = {
    GpuRefusalKind.SHARED_MEMORY: (
        "All scratch of a block lies in its multiprocessor's shared memory at once, with a copy of "
        "each buffer for each slot of a pipeline.",
        "Smaller tiles, or fewer slots: two are enough to copy one while the other is used.",
    ),
    GpuRefusalKind.PRIMITIVE: (
        "Mosaic GPU writes each jax operation for a warpgroup, and not all have been written.",
        "Say it with operations that it has: arithmetic, comparisons, jnp.where, reductions.",
    ),
    GpuRefusalKind.WGMMA: (
        "wgmma multiplies tiles that lie in shared memory as the tensor cores read them: 64 rows a "
        "warpgroup, and rows of at most 128 bytes, swizzled.",
        "Give both operands' SMEM plgpu.TilingTransform((8, n)) and plgpu.SwizzleTransform(bytes), "
        "n elements being as long as the swizzle; 64 rows, or a multiple, in the accumulator.",
    ),
    GpuRefusalKind.TMA: (
        "The TMA engine copies boxes: at most 256 elements along each axis, rows of a multiple of "
        "16 bytes.",
        "Copy a larger box in parts, and pad short rows.",
    ),
    GpuRefusalKind.SHAPES: (
        "A copy moves a box as it is, so both sides have one shape. A Ref in global memory is the "
        "whole array until it is cut.",
        "Name the block's own box: x_gmem.at[rows, columns], each a pl.ds(start, size) with the "
        "size that the buffer in shared memory has.",
    ),
    GpuRefusalKind.TENSOR_MEMORY: (
        "Tensor memory belongs to a Blackwell's tensor cores: plgpu.tcgen05_mma adds to it, and "
        "arrives at a barrier that is made for that. Threads only load from it, and TMA knows "
        "nothing of it.",
        "plgpu.tcgen05_mma(acc, a, b, barrier) with a plgpu.Barrier(orders_tensor_core=True), and "
        "a wait on it. Then plgpu.async_load_tmem(acc) is the sums as a value: round it, store it "
        "to shared memory, and copy it out from there.",
    ),
    GpuRefusalKind.LAYOUT: (
        "A swizzle reorders pieces of 16 bytes within rows as long as itself, so a tile has "
        "to be that wide; and the 128 threads of a warpgroup share out an array evenly.",
        "With plgpu.SwizzleTransform(128), tiles of (8, 128 // itemsize): (8, 64) of float16, "
        "(8, 32) of float32. Use the same for all operands of one wgmma.",
    ),
    GpuRefusalKind.THREADS: (
        "A block has at most 1,024 threads: 8 warpgroups of 128.",
        "Launch fewer warpgroups a block, and more blocks.",
    ),
    GpuRefusalKind.CHIP: (
        "Each generation has matrix instructions of its own: Hopper wgmma, Blackwell tcgen05 and "
        "tensor memory.",
        "Compile for the other one (--kata-gpu), or use this one's.",
    ),
    GpuRefusalKind.TRITON: (
        "Pallas' Triton backend is deprecated, and no kernel of this track is for it.",
        "Launch with plgpu.kernel.",
    ),
}


def refused_finding(failure: GpuRefusal, on_gpu: OnGpu, check: Check) -> Finding:
    """Explain a refusal of jax's (LOWERS) or of the compiler's (COMPILES)."""
    chip = on_gpu.chip
    who = "jax does not lower it" if check is Check.LOWERS else "The compiler refuses it"
    parts = [f"{who} for {chip}: {failure.message.rstrip('.')}."]
    if failure.kind is GpuRefusalKind.SHARED_MEMORY:
        parts.append(paragraph("memory", _memory(on_gpu, failure)))
    if failure.line:
        parts.append(failure.line.strip("\n"))
    why, advice = ADVICE.get(failure.kind, ("", ""))
    if why:
        parts += [paragraph("why", why), paragraph("try", advice)]
    else:
        parts.append(paragraph("error", _first(failure.full)))
    return Finding(check, f"{chip} refuses it: {failure.message}", "\n".join(parts), failure.full)


def _memory(on_gpu: OnGpu, failure: GpuRefusal) -> str:
    needs = f"it needs {bytes_of(failure.wanted)}, a block may have {bytes_of(failure.limit)}"
    if not on_gpu.buffers:
        return needs
    width = max(len(name) for name, _ in on_gpu.buffers)
    rows = [f"  {name:<{width}}  {bytes_of(size):>8}" for name, size in on_gpu.buffers]
    return "\n".join([f"{needs}:", *rows])


def _first(text: str) -> str:
    """The first lines of a text, as far as they fit on a screen."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(line[:200] for line in lines[:4])


def trace_finding(problem: Problem, file: str) -> Finding | None:
    """What Mosaic GPU refuses already while a launch is traced; None of all else."""
    said, kind = refused_while_traced(problem)
    if not said:
        return None
    why, advice = ADVICE.get(GpuRefusalKind(kind), ("", ""))
    parts = [f"The launch cannot be traced: {said}."]
    if place := problem.within or problem.place:
        parts.append(paragraph("line", at(file, place)))
    if why:
        parts += [paragraph("why", why), paragraph("try", advice)]
    return Finding(Check.RUNS, said, "\n".join(parts), problem.traceback)


def refused_while_traced(problem: Problem) -> tuple[str, str]:
    """A phrase and what it means, where Mosaic GPU refuses a launch as it is traced; else ""."""
    if failure := read_text(problem.message):
        return failure.message, failure.kind.value
    lines = [line.strip() for line in problem.traceback.splitlines() if line.strip()]
    asserted = problem.kind == "AssertionError" and not problem.message
    if asserted and any("tiling" in line for line in lines[-4:]):
        return "a tiling that does not divide the last axes of what it is for", "layout"
    return "", ""
