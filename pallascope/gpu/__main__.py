"""Compiles the Mosaic GPU kernels of a function, and prints their resources.

    python -m pallascope.gpu matmul.py:matmul --case 'f16[4096,4096] f16[4096,4096]' --chip h100

The function's file is imported into this process, traced and lowered; nothing is run on any device.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import inspect
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from pallascope.gpu.gpu_compile_errors import GpuRefusalKind
from pallascope.gpu.gpu_compile_process import PATIENCE, compiled_for
from pallascope.gpu.gpu_resources import SharedBuffer, buffers_of
from pallascope.gpu.gpu_screen import screen
from pallascope.gpu.gpus import CHIPS, DEFAULT, named, traced_for
from pallascope.gpu.toolchain import NotInstalled
from pallascope.tools.files import Function, exit_code, function_at
from pallascope.tools.text import show
from pallascope.tools.versions import install_hint, untested_jax
from pallascope.tpu.call_arguments import CallArguments, call_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 compiled, 1 refused or no kernel, 2 wrong usage."""
    return exit_code(lambda: _run(arguments), "pallascope.gpu")


def _run(arguments: Sequence[str] | None) -> int:
    options = _parser().parse_args(arguments)
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    if untested := untested_jax():
        print(f"pallascope.gpu: {untested}", file=sys.stderr)
    try:
        return _compiled(options, Console(highlight=False))
    except NotInstalled as error:
        print(
            f"pallascope.gpu: jax lowers it for the {options.chip}; not checked: whether it "
            f"compiles, and its resources there. {error}",
            file=sys.stderr,
        )
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pallascope.gpu",
        description="Compile the Mosaic GPU kernels that a function launches, and print their "
        "registers, spills, shared memory, occupancy and instructions. Needs no GPU and runs "
        f"nothing; the compiler: {install_hint('gpu')}.",
        epilog="FUNCTION is FILE.py:NAME or MODULE:NAME.",
    )
    parser.add_argument("function", metavar="FUNCTION", help="launches the kernels")
    parser.add_argument(
        "--case",
        required=True,
        metavar="ARGUMENTS",
        help="its arguments as one string: arrays as dtype[shape], then keywords as NAME=VALUE, "
        "such as 'f16[4096,4096] f16[4096,4096] tile=128'",
    )
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="the GPU (default: %(default)s)"
    )
    parser.add_argument(
        "--timeout",
        type=_seconds,
        default=PATIENCE,
        metavar="SECONDS",
        help="stop the compiler after this time (default: %(default)g)",
    )
    return parser


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} isn't a number of seconds above 0")
    return seconds


def _compiled(options: argparse.Namespace, console: Console) -> int:
    case, chip = call_of(options.case), named(options.chip)
    _load_jax()
    with traced_for(chip):
        function = _bound(function_at(options.function), case)
    answer = compiled_for(function, case.arrays(), chip, options.timeout)
    buffers: tuple[SharedBuffer, ...] = ()
    if answer.failure and answer.failure.kind is GpuRefusalKind.SHARED_MEMORY:
        with contextlib.suppress(Exception):  # the refusal itself is printed in any case
            buffers = buffers_of(function, case.arrays())
    name = options.function.rpartition(":")[2]
    show(screen(name, options.case, answer, buffers), console)
    return 0 if answer.kernels and not answer.failure else 1


def _bound(function: Function, case: CallArguments) -> Function:
    """The function with the case's keywords. Raises ValueError for one that it doesn't have."""
    parameters = inspect.signature(function).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    unknown = [] if anything else [name for name in case.keywords if name not in parameters]
    if unknown:
        name, takes = getattr(function, "__name__", "the function"), ", ".join(parameters)
        raise ValueError(f"{name} has no argument {unknown[0]}: it takes {takes or 'none'}")
    return functools.partial(function, **case.keywords)


def _load_jax() -> None:
    """Import jax without its CUDA plugin's message that there is no driver."""
    with open(os.devnull, "wb") as nowhere:
        before = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            import jax

            jax.devices()
        finally:
            os.dup2(before, 2)
            os.close(before)


if __name__ == "__main__":
    sys.exit(main())
