"""★★ Do jax and a GPU's compiler accept the kernel, without spills?

★★ Does jax lower the launch for the GPU? No plugin is needed for that, and no GPU.

★★ Does a GPU's compiler take it, without spills, and does it use what the kata is about?
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.checks.evidence import Evidence
from grader.checks.on_gpu import compiled_of
from grader.checks.on_gpu.gpu_refused import refused_finding
from grader.checks.phrasing import listed, paragraph
from grader.checks.runs import problem_finding
from grader.verdict import Check, Finding, NotJudged
from pallascope.gpu import Compiled, GpuKernel
from pallascope.gpu.gpu_compile_errors import GpuRefusalKind
from pallascope.model import Accident, OnGpu


def check_gpu_lowers(evidence: Evidence) -> Finding | NotJudged | None:
    """Look at what jax says of the launch on its way to the GPU."""
    lowered = evidence.own_on_gpu() if evidence.costs else evidence.lowered_for_gpu()
    if isinstance(lowered, Accident):
        return NotJudged(Check.LOWERS, f"jax did not answer: {lowered.phrase}")
    if lowered.problem:
        return problem_finding(lowered.problem, evidence.file)
    compiled = None if lowered.lowered else compiled_of(lowered)
    if compiled and compiled.failure:
        return refused_finding(compiled.failure, lowered, Check.LOWERS)
    return None


#: What each unit is for, and how one asks for it.
_HOW = {
    "wgmma": "the tensor cores of a Hopper: plgpu.wgmma, into a plgpu.ACC",
    "tcgen05": "the tensor cores of a Blackwell: plgpu.tcgen05_mma, into plgpu.TMEM",
    "tensor memory": "where a Blackwell accumulates: plgpu.TMEM, read by plgpu.async_load_tmem",
    "TMA loads": "the TMA engine's copies in: plgpu.copy_gmem_to_smem, or emit_pipeline",
    "TMA stores": "the TMA engine's copies out: plgpu.copy_smem_to_gmem, or emit_pipeline",
    "mbarrier": "barriers in shared memory: plgpu.Barrier",
    "setmaxnreg": "registers handed from a producer to consumers: plgpu.set_max_registers",
}
#: Refusals that say nothing of the kernel.
_ACCIDENTS = (GpuRefusalKind.TIMEOUT, GpuRefusalKind.ABORT, GpuRefusalKind.INTERNAL)


def check_gpu_compiles(evidence: Evidence) -> Finding | NotJudged | None:
    """Look at what the compiler made of the launch for the session's GPU."""
    own = evidence.own_on_gpu()
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


def _par_compiles(evidence: Evidence) -> bool:
    par = evidence.par_on_gpu()
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
                    "A thread has at most 255 registers. What does not fit goes to local memory, "
                    "which is HBM behind a cache, and comes back each time it is used.",
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


def _unused(own: Compiled, evidence: Evidence) -> Finding | None:
    """A unit that the kata is about, and no kernel of the launch uses."""
    assert evidence.gpu
    mixes = [kernel.mix for kernel in own.kernels]
    if None in mixes:
        return None
    counted = {unit: sum(mix.count(unit) for mix in mixes if mix) for unit in evidence.gpu.units}
    if not (lacking := [unit for unit, count in counted.items() if not count]):
        return None
    parts = [
        f"It does without what this kata is about: {listed(lacking)}.",
        *(paragraph("unit", f"{unit}: {_HOW[unit]}") for unit in lacking),
        paragraph("has", "; ".join(_mix(own.kernels))),
        paragraph("try", "Let the unit do the work that the threads do now."),
    ]
    return Finding(Check.COMPILES, f"no {listed(lacking)} in what is compiled", "\n".join(parts))


def _mix(kernels: tuple[GpuKernel, ...]) -> Iterator[str]:
    for kernel in kernels:
        if kernel.mix:
            told = ", ".join(f"{count:,} {family}" for family, count in kernel.mix.families)
            yield f"{kernel.name}: {told or 'none of the units that are counted'}"
