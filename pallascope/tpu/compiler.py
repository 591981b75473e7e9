"""Compiles with libtpu in this process: options, memory overflow by cause; XLA's cost.

The TPU's compiler, libtpu, runs in this process and needs no TPU. If libtpu aborts, this process
ends; `compile_process` does the same in a child process.

`build` compiles a single kernel and returns the compiler's schedule and VMEM use, or the reason
for its refusal. `xla_cycles` returns XLA's estimate for a plain jax.numpy function. `baseline`
returns the least time for a jax.numpy program on a chip, and the bytes of XLA's program.

jax and libtpu are imported on first use, if `unavailable_reason` is empty.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pallascope.model import Baseline, KernelCall, MeasuredProgram
from pallascope.tpu.block_rules import dtype_bits
from pallascope.tpu.chips import Chip
from pallascope.tpu.hlo import estimated_cycles, has_loops, kernel_instructions, steps_of
from pallascope.tpu.libtpu import (
    LISTING,
    CompilerUnavailable,
    compiled,
    dump,
    lower,
    lower_for_mesh,
    unavailable_reason,
    version_mismatch,
)
from pallascope.tpu.libtpu_errors import (
    LibtpuRefusal,
    LibtpuRefusalKind,
    read_lowering_error,
    read_refusal,
    windows_too_large,
)
from pallascope.tpu.vmem import (
    Vmem,
    footprint,
    limit_of,
    min_window_bytes,
    read_report,
)

if TYPE_CHECKING:
    from pallascope.kernels.lowering import TracedKernel


def program_of(
    name: str, function: Callable[..., Any], args: Sequence[Any], chip: Chip, ask_xla: bool
) -> MeasuredProgram:
    """A program for `args`, which are ShapeDtypeStructs, on one TensorCore of a chip.

    Bytes and operations are those of the program as written. The chip's bandwidth and peaks are
    those of `pltpu.get_tpu_info()`. Propagates exceptions from tracing.
    """
    import jax
    from jax.experimental.pallas import tpu as pltpu

    from pallascope.kernels import flops, for_chip

    with for_chip(chip.kind, chip.cores):
        info = pltpu.get_tpu_info()
        results = jax.tree.leaves(jax.eval_shape(function, *args))
        operations = flops(function, args)
        products = flops(function, args, products_alone=True)
    peaks = (info.bf16_ops_per_second, info.int8_ops_per_second or info.bf16_ops_per_second)
    eight_bits = any(array.dtype == "int8" for array in args)
    return MeasuredProgram(
        name=name,
        read=_bytes(args),
        written=_bytes(results),
        elements=sum(math.prod(array.shape) for array in (*args, *results)),
        flops=operations,
        bandwidth=float(info.mem_bw_bytes_per_second),
        peak=float(peaks[eight_bits]),
        other_peak=float(peaks[not eight_bits]),
        baseline=baseline(function, args, chip) if ask_xla else None,
        products=products,
    )


def min_compute_seconds(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> float:
    """The least seconds for a program's operations on all cores of a chip: products at the MXUs'
    peak, and at the same time all other operations at the VPUs' peak.

    A loop of unknown length counts as one iteration. Propagates exceptions from tracing.
    """
    from pallascope.kernels import flops_by_dtypes

    products, others = flops_by_dtypes(function, args)
    multiplied = sum(
        count / chip.peak_of(max(map(dtype_bits, dtypes))) for dtypes, count in products.items()
    )
    return max(multiplied, others / chip.vector_peak) / chip.cores


def baseline(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> Baseline:
    """XLA's program for a chip, or the reason if there is none."""
    try:
        lowered = lower(function, args, chip)
        with dump():
            hlo = compiled(lowered)
    except CompilerUnavailable as error:
        return Baseline(missing=str(error))
    except Exception as error:
        return Baseline(missing=f"XLA can't compile it: {str(error).partition(chr(10))[0]}")
    cycles, _ = estimated_cycles(hlo)
    return Baseline(steps_of(hlo), cycles / chip.clock)


def _bytes(arrays: Sequence[Any]) -> int:
    return sum(math.prod(array.shape) * array.dtype.itemsize for array in arrays)


__all__ = [
    "Build",
    "CompilerUnavailable",
    "Estimate",
    "build",
    "compile_lowered",
    "estimate_lowered",
    "no_estimate",
    "unavailable_reason",
    "version_mismatch",
    "xla_cycles",
]


@dataclass(frozen=True, slots=True)
class Build:
    """The result of compiling one kernel for one chip.

    `bundles` is the listing of VLIW bundles. `missing` is the reason if there is no listing
    although `failure` is None.
    """

    chip: str
    bundles: str = ""
    vmem: Vmem | None = None
    failure: LibtpuRefusal | None = None
    missing: str = ""


@dataclass(frozen=True, slots=True)
class Estimate:
    """XLA's estimate for a program in cycles; 0 if it has none, and `missing` is the reason.

    `moved` are the bytes that the program reads from HBM and writes to it; 0 if unknown because it
    has loops. `computing` is the time of its operations at the chip's peaks, in seconds.
    """

    cycles: int
    missing: str = ""
    moved: int = 0
    computing: float = 0.0

    def floor(self, chip: Chip) -> float:
        """The least seconds for the program; 0 if its bytes are unknown."""
        moving = self.moved / (chip.bandwidth * chip.cores)
        return max(moving, self.computing) if self.moved else 0.0


def build(kernel: TracedKernel, chip: Chip) -> Build:
    """Compile one kernel, alone, for one TensorCore; for several if it communicates.

    Raises CompilerUnavailable; errors of the kernel are in the Build.
    """

    def lowered() -> Any:
        if kernel.axes:
            return lower_for_mesh(kernel.function, kernel.arguments, chip, kernel.axes)
        return lower(kernel.function, kernel.arguments, chip)

    return compile_lowered(lowered, kernel.call, chip)


def compile_lowered(lowered: Callable[[], Any], call: KernelCall, chip: Chip) -> Build:
    """Compile the program that `lowered` returns, which has one kernel. May call it twice."""
    try:
        program = lowered()
    except CompilerUnavailable:
        raise
    except Exception as error:
        return Build(chip.name, failure=read_lowering_error(error))
    limit = limit_of(call, chip)
    if min_window_bytes(call) > limit:  # libtpu would take minutes to find out
        return Build(chip.name, failure=windows_too_large(call, limit))
    with dump() as folder:
        try:
            hlo = compiled(program)
        except Exception as error:
            failure = read_refusal(error, call)
        else:
            return _read(folder, hlo, call, chip, limit)
    if failure.kind is LibtpuRefusalKind.VMEM:
        failure = _with_allocations(failure, lowered, call, chip, limit)
    return Build(chip.name, failure=failure)


def xla_cycles(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, **keywords: Any
) -> Estimate:
    """XLA's estimate for `function(*args, **keywords)` without Pallas; arguments are in HBM.

    `args` are arrays or ShapeDtypeStructs. Raises CompilerUnavailable.
    """

    def program(*arrays: Any) -> Any:
        return function(*arrays, **keywords)

    try:
        compute_seconds = min_compute_seconds(program, args, chip)
    except Exception as error:
        return no_estimate(error)
    estimate = estimate_lowered(lambda: lower(program, args, chip))
    return dataclasses.replace(estimate, computing=compute_seconds)


def estimate_lowered(lowered: Callable[[], Any]) -> Estimate:
    """XLA's estimate for the program that `lowered` returns."""
    try:
        program = lowered()
    except CompilerUnavailable:
        raise
    except Exception as error:
        return no_estimate(error)
    with dump():
        try:
            hlo = compiled(program)
        except Exception as error:
            return Estimate(0, f"XLA can't compile it: {str(error).partition(chr(10))[0]}")
    cycles, missing = estimated_cycles(hlo)
    moved = 0 if has_loops(hlo) else sum(step.bytes for step in steps_of(hlo))
    if missing:
        return Estimate(0, f"XLA has no estimate for {', '.join(missing)}", moved)
    return Estimate(cycles, moved=moved)


def no_estimate(error: Exception) -> Estimate:
    """The missing estimate for a function that jax can't trace or lower."""
    return Estimate(0, f"jax can't lower it for a TPU: {read_lowering_error(error).message}")


def _read(folder: Path, hlo: str, call: KernelCall, chip: Chip, limit: int) -> Build:
    """The listing and the report of the one kernel in a program."""
    names = kernel_instructions(hlo)
    files = sorted(path.name for path in folder.iterdir())
    if len(names) != 1:
        return Build(chip.name, missing=f"the program holds {len(names)} kernels, not one")
    if not files:
        return Build(
            chip.name,
            missing="libtpu was loaded before, by another part of this process, and configured to "
            "write no listings: set JAX_PLATFORMS=cpu before jax is first used",
        )
    listings = [file for file in files if _is_listing(file, names[0])]
    if len(listings) != 1:
        what = "no listing" if not listings else f"{len(listings)} listings"
        return Build(chip.name, missing=f"libtpu wrote {what} of {names[0]}")
    reports = [file for file in files if file.endswith("vmem_report.html")]
    report = _text(folder / reports[0]) if reports else ""
    vmem = read_report(report, names[0], call, limit)
    return Build(chip.name, _text(folder / listings[0]), vmem)


def _is_listing(file: str, instruction: str) -> bool:
    """Whether libtpu named a file after an instruction; it cuts long names and adds a hash."""
    found = re.fullmatch(rf"\d+-(.+?)(-\d{{10,}})?-\d+-{LISTING}\.txt", file)
    if not found:
        return False
    return instruction.startswith(found[1]) if found[2] else found[1] == instruction


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def _with_allocations(
    failure: LibtpuRefusal, lowered: Callable[[], Any], call: KernelCall, chip: Chip, limit: int
) -> LibtpuRefusal:
    """The failure with its allocations: the blocks, if these explain nearly all of it.

    Otherwise the allocations in the report for a limit of the core's whole VMEM, if that compiles.
    """
    blocks = footprint(call)
    block_bytes = sum(a.size for a in blocks)
    wanted = max(failure.wanted, block_bytes)
    itemized = dataclasses.replace(failure, wanted=wanted, limit=limit, allocations=blocks)
    if block_bytes < 0.98 * wanted <= chip.vmem:
        program = lowered()
        with dump() as folder, contextlib.suppress(Exception):
            hlo = compiled(program, xla_tpu_scoped_vmem_limit_kib=chip.vmem >> 10)
            if vmem := _read(folder, hlo, call, chip, limit).vmem:
                return dataclasses.replace(itemized, allocations=vmem.allocations)
    return itemized
