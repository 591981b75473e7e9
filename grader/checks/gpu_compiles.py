"""★★ Do jax and a GPU's compiler accept the kernel, without spills? Messages about refusals.

No GPU is needed. A rung each asks whether jax traces the launch, whether jax lowers it, and whether
the compiler accepts it, without spills and with the units that the kata is about.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.checks.evidence import GpuEvidence
from pallascope.checks import exceptions
from pallascope.checks.phrasing import at, listed, paragraph
from pallascope.gpu import Compiled, GpuKernel
from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind, read_text
from pallascope.model import Accident, Check, Finding, NotJudged, OnGpu, Problem, Stage
from pallascope.tools import codec
from pallascope.tools.text import format_bytes


def compiled_of(on_gpu: OnGpu) -> Compiled | None:
    """The kernels of a launch, or why they are refused; None if it was not compiled."""
    return codec.unpack(Compiled, on_gpu.compiled) if on_gpu.compiled else None


def check_gpu_traced(evidence: GpuEvidence) -> Finding | None:
    """Reject a launch that can't be traced, first for the reasons that only Mosaic GPU has."""
    problem, found = evidence.problem, None
    if problem and problem.stage is Stage.TRACE:
        found = trace_finding(problem, evidence.file)
    return found or exceptions.check(evidence)


def check_gpu_lowers(evidence: GpuEvidence) -> Finding | NotJudged | None:
    """Check jax's lowering of the launch for the GPU."""
    lowered = evidence.compiled() if evidence.costs else evidence.lowered()
    if isinstance(lowered, Accident):
        return NotJudged(Check.LOWERS, f"jax did not answer: {lowered.phrase}")
    if lowered.problem:
        return exceptions.problem_finding(lowered.problem, evidence.file)
    compiled = None if lowered.lowered else compiled_of(lowered)
    if compiled and compiled.failure:
        return refused_finding(compiled.failure, lowered, Check.LOWERS)
    return None


#: The purpose of each unit, and how to use it.
_HOW = {
    "wgmma": "the tensor cores of a Hopper: plgpu.wgmma, into a plgpu.ACC",
    "tcgen05": "the tensor cores of a Blackwell: plgpu.tcgen05_mma, into plgpu.TMEM",
    "tensor memory": "where a Blackwell accumulates: plgpu.TMEM, read by plgpu.async_load_tmem",
    "TMA loads": "the TMA engine's copies in: plgpu.copy_gmem_to_smem, or emit_pipeline",
    "TMA stores": "the TMA engine's copies out: plgpu.copy_smem_to_gmem, or emit_pipeline",
    "mbarrier": "barriers in shared memory: plgpu.Barrier",
    "setmaxnreg": "registers handed from a producer to consumers: plgpu.set_max_registers",
}
#: Refusals that say nothing about the kernel.
_ACCIDENTS = (GpuRefusalKind.TIMEOUT, GpuRefusalKind.ABORT, GpuRefusalKind.INTERNAL)


def check_gpu_compiles(evidence: GpuEvidence) -> Finding | NotJudged | None:
    """Check the compiler's result for the session's GPU."""
    own = evidence.compiled()
    if isinstance(own, Accident):
        return NotJudged(Check.COMPILES, f"the compiler did not answer: {own.phrase}")
    if (compiled := compiled_of(own)) is None:
        return NotJudged(Check.COMPILES, own.not_compiled or "nothing was compiled")
    failure = compiled.failure
    if failure and failure.kind in _ACCIDENTS and not _par_compiles(evidence):
        return NotJudged(
            Check.COMPILES, f"the compiler fails on the solution too: {failure.message}"
        )
    if failure:
        return refused_finding(failure, own, Check.COMPILES)
    if not compiled.kernels:
        return NotJudged(Check.COMPILES, "the compiler has made no kernel of it")
    return _spills(compiled) or _unused(compiled, evidence)


def _par_compiles(evidence: GpuEvidence) -> bool:
    par = evidence.par_compiled()
    made = compiled_of(par) if isinstance(par, OnGpu) else None
    return made is not None and not made.failure


def _spills(own: Compiled) -> Finding | None:
    for kernel in own.kernels:
        used = kernel.resources
        if used and used.spills:
            moved = f"{used.spill_stores:,} bytes stored and {used.spill_loads:,} bytes loaded"
            parts = [
                f"The kernel needs more registers than a thread has on {own.chip}, and spills.",
                paragraph("spills", f"{kernel.name}: {used.registers} registers, {moved} a thread"),
                paragraph(
                    "why",
                    "A thread has at most 255 registers. The rest goes to local memory, which is "
                    "HBM behind a cache, and is loaded again for each use.",
                ),
                paragraph(
                    "try",
                    "Hold less in one warpgroup: a smaller tile, several warpgroups that share it, "
                    "or a loop over parts of it.",
                ),
            ]
            phrase = f"spills registers on {own.chip}: {moved}"
            return Finding(Check.COMPILES, phrase, "\n".join(parts))
    return None


def _unused(own: Compiled, evidence: GpuEvidence) -> Finding | None:
    """A unit that the kata is about and that no kernel of the launch uses."""
    mixes = [kernel.mix for kernel in own.kernels]
    if None in mixes:
        return None
    counted = {unit: sum(mix.count(unit) for mix in mixes if mix) for unit in evidence.target.units}
    if not (lacking := [unit for unit, count in counted.items() if not count]):
        return None
    parts = [
        f"It doesn't use {listed(lacking)}, which this kata is about.",
        *(paragraph("unit", f"{unit}: {_HOW[unit]}") for unit in lacking),
        paragraph("has", "; ".join(_mix(own.kernels))),
        paragraph("try", "Let the unit do the work that the threads do now."),
    ]
    return Finding(Check.COMPILES, f"no {listed(lacking)} in the compiled code", "\n".join(parts))


def _mix(kernels: tuple[GpuKernel, ...]) -> Iterator[str]:
    for kernel in kernels:
        if kernel.mix:
            told = ", ".join(f"{count:,} {family}" for family, count in kernel.mix.families)
            yield f"{kernel.name}: {told or 'none of the units that are counted'}"


#: Why each kind of refusal is one, and what to do instead.
ADVICE: dict[GpuRefusalKind, tuple[str, str]] = {
    GpuRefusalKind.SHARED_MEMORY: (
        "All scratch of a block lies in its multiprocessor's shared memory at once, with a copy of "
        "each buffer for each slot of a pipeline.",
        "Smaller tiles, or fewer slots: two are enough to copy one while the other is used.",
    ),
    GpuRefusalKind.PRIMITIVE: (
        "Mosaic GPU implements each jax operation for a warpgroup, and some are missing.",
        "Use operations that it has: arithmetic, comparisons, jnp.where, reductions. Functions "
        "with their own derivative, custom_jvp_call, are missing: for jax.nn.relu(x), write "
        "jnp.maximum(x, 0), and for jax.nn.silu(x), x / (1 + jnp.exp(-x)).",
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
        "A copy moves a box as it is, so both sides have the same shape. A Ref in global memory is "
        "the whole array until you slice it.",
        "Name the block's own box: x_gmem.at[rows, columns], each a pl.ds(start, size) with the "
        "size that the buffer in shared memory has.",
    ),
    GpuRefusalKind.TENSOR_MEMORY: (
        "Tensor memory belongs to a Blackwell's tensor cores: plgpu.tcgen05_mma adds to it, and "
        "arrives at a barrier that is made for that. Threads only load from it, and TMA can't "
        "reach it.",
        "plgpu.tcgen05_mma(acc, a, b, barrier) with a plgpu.Barrier(orders_tensor_core=True), and "
        "a wait on it. Then plgpu.async_load_tmem(acc) returns the sums as a value: round it, "
        "store it to shared memory, and copy it out from there.",
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
        "Each generation has its own matrix instructions: Hopper wgmma, Blackwell tcgen05 and "
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
    needs = (
        f"it needs {format_bytes(failure.wanted)}, a block may have {format_bytes(failure.limit)}"
    )
    if not on_gpu.buffers:
        return needs
    width = max(len(name) for name, _ in on_gpu.buffers)
    rows = [f"  {name:<{width}}  {format_bytes(size):>8}" for name, size in on_gpu.buffers]
    return "\n".join([f"{needs}:", *rows])


def _first(text: str) -> str:
    """The first lines of a text, as far as they fit on a screen."""
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return "\n".join(line[:200] for line in lines[:4])


def trace_finding(problem: Problem, file: str) -> Finding | None:
    """Explain a refusal of Mosaic GPU while a launch is traced; None for other problems."""
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
    """A phrase and the kind of refusal, if Mosaic GPU refuses a launch while it is traced; else
    ""."""
    if failure := read_text(problem.message):
        return failure.message, failure.kind.value
    lines = [line.strip() for line in problem.traceback.splitlines() if line.strip()]
    asserted = problem.kind == "AssertionError" and not problem.message
    if asserted and any("tiling" in line for line in lines[-4:]):
        return "a tiling that doesn't divide the last axes of its array", "layout"
    return "", ""
