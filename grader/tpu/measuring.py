"""What a jax.numpy program takes on a chip at best, and what XLA makes of it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from grader.model import Baseline, Program
from grader.tpu.chips import Chip
from grader.tpu.hlo import estimated_cycles
from grader.tpu.libtpu import CompilerUnavailable, compiled, dump, lower
from grader.tpu.tiling import dtype_bits
from grader.tpu.xla_traffic import steps_of


def program_of(
    name: str, function: Callable[..., Any], args: Sequence[Any], chip: Chip, ask_xla: bool
) -> Program:
    """A program at the sizes of `args`, which are ShapeDtypeStructs, on one TensorCore of a chip.

    Bytes and operations are those of the program as it is written. The chip's bandwidth and peaks
    are those that `pltpu.get_tpu_info()` gives. Raises what tracing raises.
    """
    import jax
    from jax.experimental.pallas import tpu as pltpu

    from grader.kernels import flops, for_chip

    with for_chip(chip.kind, chip.cores):
        info = pltpu.get_tpu_info()
        results = jax.tree.leaves(jax.eval_shape(function, *args))
        operations = flops(function, args)
        products = flops(function, args, products_alone=True)
    peaks = (info.bf16_ops_per_second, info.int8_ops_per_second or info.bf16_ops_per_second)
    eight_bits = any(array.dtype == "int8" for array in args)
    return Program(
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


def computing(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> float:
    """Seconds that the operations of a program take on all cores of a chip at the least: products
    at the peak of the MXUs, and meanwhile all others at that of the VPUs.

    A loop of unknown length counts as one turn. Raises what tracing raises.
    """
    from grader.kernels import flops_by_dtypes

    products, others = flops_by_dtypes(function, args)
    multiplied = sum(
        count / chip.peak_of(max(map(dtype_bits, dtypes))) for dtypes, count in products.items()
    )
    return max(multiplied, others / chip.vector_peak) / chip.cores


def baseline(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> Baseline:
    """What XLA makes of a program for a chip; why not, where it can't be asked."""
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
