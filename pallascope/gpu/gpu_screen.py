"""The compiler's numbers for a GPU kernel, on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from pallascope.gpu.gpu_compile_errors import GpuRefusal, GpuRefusalKind
from pallascope.gpu.gpu_compiler import Compiled, GpuKernel
from pallascope.gpu.gpu_resources import Extent, SharedBuffer
from pallascope.gpu.gpus import GpuChip, named, peaks_of
from pallascope.model import GpuTimes

_KIB = 1 << 10


def screen(
    name: str, case: str, answer: Compiled, buffers: Sequence[SharedBuffer] = ()
) -> RenderableType:
    """The whole result; `buffers` are listed if there is too little shared memory."""
    head = [Text(f"{name} compiled for a GPU {answer.chip}", "bold"), Text(f"{case}\n", "dim")]
    return Group(*head, *kernels_of(answer, [(str(buffer), buffer.size) for buffer in buffers]))


def kernels_of(answer: Compiled, buffers: Sequence[tuple[str, int]] = ()) -> list[RenderableType]:
    """Each kernel of a result, or the refusal; `buffers` are names with their bytes."""
    chip = named(answer.chip)
    body: list[RenderableType] = [_kernel(kernel, chip) for kernel in answer.kernels]
    if answer.failure:
        body.append(_failure(answer.failure, buffers))
    elif not body:
        body.append(Text("It launches no plgpu.kernel, or doesn't use the results of any."))
    return body


def measured(times: GpuTimes, moved: int, operations: int) -> list[RenderableType]:
    """Times of a launch and of the solution's, each with its share of the GPU's peaks.

    `moved` is the bytes of inputs and results, each once, and `operations` is the number that the
    tensor cores can do, 0 for none.
    """
    if times.wrong or not times.own.runs:
        return [Text(f"Not timed: {times.wrong or times.why_not}.")]
    peaks = peaks_of(times.device)
    table = Table(title=f"timed in turns on {times.device}", title_justify="left", box=None)
    table.add_column("")
    for head in ("µs", "lowest to highest", "samples", "of HBM's bandwidth", "of peak FLOP/s"):
        table.add_column(head, justify="right")
    for title, one in (("yours", times.own), ("par", times.par)):
        ends = f"{1e6 * one.lowest:.1f} to {1e6 * one.highest:.1f}"
        shares = ("–", "–")
        if peaks:
            band, peak = moved / peaks.bandwidth, operations / peaks.operations
            shares = (_share(band / one.median), _share(peak / one.median))
        table.add_row(title, f"{1e6 * one.median:.1f}", ends, str(one.runs), *shares)
    ratio = Text(f"yours / par: {times.own.median / times.par.median:.2f}")
    return [table, ratio, *([Text(f"But {times.why_not}.")] if times.why_not else [])]


def _share(of: float) -> str:
    return f"{of:.0%}" if of else "–"


def _failure(failure: GpuRefusal, buffers: Sequence[tuple[str, int]]) -> Text:
    text = Text.assemble(("✘ ", "red"), failure.message, failure.line)
    if failure.kind is GpuRefusalKind.SHARED_MEMORY and buffers:
        width = max(len(name) for name, _ in buffers)
        text.append("\n  allocations")
        for name, size in buffers:
            text.append(f"\n    {name:<{width}}  {_size(size)}")
    return text


def _kernel(kernel: GpuKernel, chip: GpuChip) -> Table:
    table = Table(title=f"kernel {kernel.name}", title_justify="left", show_header=False, box=None)
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for label, text in (*_launched(kernel, chip), *_used(kernel), *_held(kernel), *_mix(kernel)):
        table.add_row(label, text)
    return table


def _launched(kernel: GpuKernel, chip: GpuChip) -> Iterable[tuple[str, str]]:
    if not (launch := kernel.launch):
        yield "launch", "unknown: Mosaic GPU wrote no module that could be read"
        return
    threads = launch.threads_of_block
    yield "grid", f"{_extent(launch.grid)} blocks, for {chip.multiprocessors} multiprocessors"
    if launch.cluster != (1, 1, 1):
        yield "cluster", f"{_extent(launch.cluster)} blocks"
    yield "threads", f"{threads:,} per block: {_count(threads // 128, 'warpgroup')}"
    limit = chip.shared_of_block
    yield (
        "shared memory",
        f"{_size(kernel.shared)} of a block's {_size(limit)} ({kernel.shared / limit:.0%})",
    )


def _used(kernel: GpuKernel) -> Iterable[tuple[str, str]]:
    if not (used := kernel.resources):
        yield "registers", "unknown: ptxas printed nothing that could be read"
        return
    yield "registers", f"{used.registers} per thread"
    if used.spills:
        spilled = f"{used.spill_stores:,} bytes stored and {used.spill_loads:,} bytes loaded"
        yield "spills", f"{spilled} by each thread, through local memory"
    else:
        yield "spills", "none"
    yield from (("ptxas says", remark) for remark in used.told)


def _held(kernel: GpuKernel) -> Iterable[tuple[str, str]]:
    if held := kernel.occupancy:
        what = f"{_count(held.blocks, 'block')} on a multiprocessor, {held.share:.0%} of its warps"
        yield "occupancy", f"{what}; bound by {held.bound}"


def _mix(kernel: GpuKernel) -> Iterable[tuple[str, str]]:
    if not (mix := kernel.mix):
        yield "instructions", "unknown: nvdisasm is missing, or its listing could not be read"
        return
    families = ", ".join(f"{count:,} {family}" for family, count in mix.families)
    yield "instructions", f"{mix.instructions:,}, among them {families or 'none of those counted'}"


def _extent(extent: Extent) -> str:
    sizes = list(extent)
    while len(sizes) > 1 and sizes[-1] == 1:
        sizes.pop()
    return " × ".join(f"{size:,}" for size in sizes)


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    return f"{size:,} bytes" if size < _KIB else f"{size / _KIB:,.4g} KiB"
