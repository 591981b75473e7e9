"""The command that checks one function: strict runs, refusals of the compiler, predicted cost.

    python -m pallascope.testing kernels.py:matmul --case 'bf16[512,512] bf16[512,512] bm=128'

`kata check` is the same command.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from pallascope.model import ArrayType
from pallascope.tools.text import format_bytes, format_time
from pallascope.tpu.call_arguments import (
    CallArguments,
    accepted_keywords,
    call_of,
    function_for,
    require_known_keywords,
)
from pallascope.tpu.chips import CHIPS

INTEGERS = (0, 100)  # the bounds of random integers
DESCRIPTION = (
    "Check the Pallas kernels of a function: run them in a strict interpreter, compare the "
    "results, and compile them for a TPU. Needs no TPU."
)
#: The exit codes, as pytest has them.
FINE, FAULT, MISUSED, NOT_JUDGED = 0, 1, 2, 3


def check_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "function", metavar="FUNCTION", help="FILE.py:NAME or MODULE:NAME; it launches the kernels"
    )
    parser.add_argument(
        "--case",
        required=True,
        metavar="ARGUMENTS",
        help="its arguments as one string: arrays as dtype[shape], then keywords as NAME=VALUE, "
        "such as 'bf16[512,512] bf16[512,512] bm=128'. Arrays are random, integers from 0 to 99; "
        "give the contents of index tables: i32[4]=3,1,0,2",
    )
    parser.add_argument(
        "--against", metavar="FUNCTION", help="a reference with the same arguments, in jax.numpy"
    )
    parser.add_argument(
        "--chip",
        nargs="+",
        choices=list(CHIPS),
        default=["v5e"],
        help="the TPUs to compile for; the kernel is run as on the first (default: v5e)",
    )
    parser.add_argument("--rtol", type=float, metavar="X", help="relative tolerance")
    parser.add_argument("--atol", type=float, metavar="X", help="absolute tolerance")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="of the random arrays")
    parser.add_argument(
        "--big",
        metavar="ARGUMENTS",
        help="the arguments of production size, for the compiler and the cost (default: --case)",
    )


def check(options: argparse.Namespace) -> int:
    """Run the command. Returns the exit code. Raises ValueError."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from pallascope.testing.kernel_tests import KernelFault, KernelNotJudged, Pallas

    case, big = call_of(options.case), call_of(options.big or options.case)
    function = function_for(options.function, options.chip[0])
    require_known_keywords(function, case)
    require_known_keywords(function, big)
    expected = function_for(options.against, options.chip[0]) if options.against else None
    if expected:
        expected = partial(expected, **accepted_keywords(expected, case))
    pallas = Pallas(Path.cwd(), options.chip[0], options.seed)
    code = FINE
    try:
        tolerances = {"rtol": options.rtol, "atol": options.atol}
        bound = partial(function, **case.keywords)
        pallas.check(bound, *_drawn(pallas, case), expected=expected, **tolerances)
        right = "right, and nothing else found" if expected else "nothing found; not compared"
        print(f"strict interpreter: {right}")
    except KernelNotJudged as error:
        print(f"strict interpreter: not judged: {error}")
        code = NOT_JUDGED
    except KernelFault as fault:
        print(fault)
        code = FAULT
    for chip in options.chip:
        try:
            cost = pallas.cost(partial(function, **big.keywords), *big.arrays(), chip=chip)
            print(f"{chip}: accepted, {_described(cost)}")
        except KernelNotJudged as error:
            print(f"{chip}: not judged: {error}")
            code = code or NOT_JUDGED
        except KernelFault as fault:
            print(f"{chip}: {fault}")
            code = FAULT
    return code


def _drawn(pallas: Any, case: CallArguments) -> Sequence[Any]:
    """The arrays of a case, random where it gives no contents."""

    def array(kind: ArrayType, given: Any) -> Any:
        if not hasattr(given, "sharding"):  # not a ShapeDtypeStruct
            return given
        if "float" in kind.dtype:
            return pallas.normal(kind.shape, kind.dtype)
        low, high = (0, 2) if kind.dtype == "bool" else INTEGERS
        return pallas.integers(low, high, kind.shape, kind.dtype)

    return [array(*pair) for pair in zip(case.types, case.arrays(), strict=True)]


def _described(cost: Any) -> str:
    time = "no predicted time" if cost.seconds is None else f"{format_time(cost.seconds)} predicted"
    parts = [time]
    if cost.bytes is not None:
        parts.append(f"{format_bytes(cost.bytes)} from and to HBM")
    if cost.vmem is not None:
        parts.append(f"{format_bytes(cost.vmem)} of VMEM")
    return ", ".join(parts) + (f" ({cost.unknown})" if cost.unknown else "")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 fine, 1 a fault, 2 misused, 3 not judged."""
    from pallascope.tools.files import exit_code

    parser = argparse.ArgumentParser(prog="python -m pallascope.testing", description=DESCRIPTION)
    check_arguments(parser)
    return exit_code(lambda: check(parser.parse_args(arguments)), "pallascope.testing")
