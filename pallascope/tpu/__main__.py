"""Predicts the cost on a TPU of a function's Pallas kernels; with --measure, also measures it.

    python -m pallascope.tpu matmul.py:matmul --case 'bf16[4096,4096] bf16[4096,4096] bm=512'

The function's file is imported into this process and traced. Nothing is run on any device, except
with --measure: then a child process runs the trace on the TPU of this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group
from rich.progress import track
from rich.text import Text

from pallascope.tools.files import Function, exit_code, user_line
from pallascope.tools.text import show
from pallascope.tools.versions import install_hint, untested_jax
from pallascope.tpu import compile_process, compiler
from pallascope.tpu.block_rules import block_paragraphs, refused_blocks, refused_blocks_phrase
from pallascope.tpu.call_arguments import (
    CallArguments,
    accepted_keywords,
    call_of,
    choices,
    combinations,
    function_for,
    require_known_keywords,
)
from pallascope.tpu.chips import CHIPS, DEFAULT, named
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.launch_screen import Launch, Side, screen
from pallascope.tpu.measure import (
    LocalTpu,
    MeasuredLaunch,
    MeasuredSide,
    MeasuredTimes,
    MeasureFailure,
    NoTpu,
    append_rows,
    chip_of_kind,
    contents_of,
    measured_screen,
)
from pallascope.tpu.perfetto import MAX_EVENTS, trace
from pallascope.tpu.predict import predictions
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.sweep import SweepRow, table


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns the exit code: 0 done, 1 nothing to predict, 2 wrong usage."""
    return exit_code(lambda: _run(arguments), "pallascope.tpu")


def _run(arguments: Sequence[str] | None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.measure and (options.sweep or options.trace):
        parser.error("--measure can't be combined with --sweep or --trace")
    if options.rows and not options.measure:
        parser.error("--rows needs --measure: it writes measured times")
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    console = Console(highlight=False)
    if untested := untested_jax():
        print(f"pallascope.tpu: {untested}", file=sys.stderr)
    if options.measure:
        return _run_measured(options, console)
    return _run_sweep(options, console) if options.sweep else _run_case(options, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pallascope.tpu",
        description="Predict the time and the traffic of a function's Pallas kernels on a TPU. "
        "Needs no TPU and runs nothing, except with --measure. "
        f"Predicted times need libtpu ({install_hint('tpu')}).",
        epilog="FUNCTION is FILE.py:NAME or MODULE:NAME. If an integer array's contents decide "
        "which blocks move, as in scalar prefetch, give them: i32[4]=3,1,0,2.",
    )
    parser.add_argument("function", metavar="FUNCTION", help="launches the kernels")
    parser.add_argument(
        "--case",
        required=True,
        metavar="ARGUMENTS",
        help="its arguments as one string: arrays as dtype[shape], then keywords as NAME=VALUE, "
        "such as 'bf16[4096,4096] bf16[4096,4096] bm=512'",
    )
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="the TPU (default: %(default)s)"
    )
    parser.add_argument(
        "--against",
        metavar="FUNCTION",
        help="a function with the same arguments, for comparison; if it has no kernels, the least "
        "time for XLA's program",
    )
    parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="predict every combination of these keywords, such as bm=128,256 bn=128,256",
    )
    parser.add_argument(
        "--trace", type=Path, metavar="FILE", help="also write the timeline to FILE, for Perfetto"
    )
    parser.add_argument(
        "--measure",
        action="store_true",
        help="run the kernels on this machine's TPU, and show their times next to those predicted "
        "for that TPU, whatever --chip says; arrays without contents are random, integers 0",
    )
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="append the measured times to FILE, as JSON lines"
    )
    return parser


# ---- one case, or many ----


def _run_case(options: argparse.Namespace, console: Console) -> int:
    case = call_of(options.case)
    events = MAX_EVENTS if options.trace else 0
    function = function_for(options.function, options.chip)
    require_known_keywords(function, case)
    own = _side("yours", function, case, options.chip, events)
    par, xla = None, None
    if options.against:
        other = function_for(options.against, options.chip)
        par = _side("other", other, case, options.chip, events)
        if not par.kernels and not par.trouble:
            par, xla = None, _xla(other, case, options.chip)
    if not own.kernels and not own.trouble:
        own = Side(
            "yours",
            trouble="It launches no pallas_call and no pl.kernel, or doesn't use the results of "
            "any, so no kernel would run.",
        )
    name = options.function.rpartition(":")[2]
    show(screen(Launch(name, options.case, options.chip, own, par, xla)), console)
    if options.trace:
        sides = [side for side in (own, par) if side and side.seconds is not None]
        text = trace((side.title, side.kernels) for side in sides)
        options.trace.write_text(text, encoding="utf-8")
        console.print(f"wrote {options.trace}: open it at https://ui.perfetto.dev", markup=False)
    return 0 if own.kernels and not any(k.failure for k in own.kernels) else 1


def _run_sweep(options: argparse.Namespace, console: Console) -> int:
    case, function = call_of(options.case), function_for(options.function, options.chip)
    tries = combinations(choices(options.sweep))
    require_known_keywords(function, case.with_keywords(tries[0]))
    err = Console(stderr=True)
    steps = track(tries, "predicting", console=err, transient=True) if err.is_terminal else tries
    tried = [
        _sweep_row(function, case.with_keywords(sizes), options.chip, sizes) for sizes in steps
    ]
    title = f"{options.function.rpartition(':')[2]} on a TPU {options.chip}, predicted"
    show(Group(Text(title, "bold"), Text(f"{options.case}\n", "dim"), table(tried)), console)
    return 0 if any(one.seconds is not None or one.bytes for one in tried) else 1


def _run_measured(options: argparse.Namespace, console: Console) -> int:
    case = call_of(options.case)
    with LocalTpu() as tpu:
        try:
            kind = tpu.kind
        except NoTpu as error:
            needed = "--measure needs a TPU, and jax can't use one here"
            raise ValueError(
                f"{needed}; without --measure, times are predicted ({error})"
            ) from None
        chip = chip_of_kind(kind).name
        places = {"yours": options.function, "other": options.against}
        functions = {title: function_for(at, chip) for title, at in places.items() if at}
        require_known_keywords(functions["yours"], case)
        found = {title: _times(function, case, chip, tpu) for title, function in functions.items()}
    sides = [
        MeasuredSide.of(_side(title, function, case, chip, 0), found[title])
        for title, function in functions.items()
    ]
    name = options.function.rpartition(":")[2]
    launch = MeasuredLaunch(name, options.case, kind, tuple(sides))
    show(measured_screen(launch), console)
    if options.rows:
        append_rows(options.rows, launch)
    return 0 if all(side.times for side in sides) else 1


def _times(
    function: Function, case: CallArguments, chip: str, tpu: LocalTpu
) -> MeasuredTimes | MeasureFailure:
    """The measured times of a function, traced for the chip."""
    from pallascope.kernels import TracedLaunch, for_chip

    arrays, target = case.arrays(), named(chip)
    try:
        with for_chip(target.kind, target.cores):
            traced = TracedLaunch.of(function, arrays, accepted_keywords(function, case))
            trace = traced.dumped()
    except Exception as error:
        return MeasureFailure(_trouble(error))
    return tpu.measure(trace, contents_of(arrays))


def _sweep_row(
    function: Function, case: CallArguments, chip: str, sizes: dict[str, int]
) -> SweepRow:
    try:
        return SweepRow(sizes, _predicted(function, case, chip))
    except Exception as error:
        return SweepRow(sizes, trouble=_phrase(error))


def _side(title: str, function: Function, case: CallArguments, chip: str, events: int) -> Side:
    try:
        return Side(title, _predicted(function, case, chip, events))
    except Exception as error:
        return Side(title, trouble=_trouble(error))


def _predicted(
    function: Function, case: CallArguments, chip: str, events: int = 0
) -> tuple[Prediction, ...]:
    keywords = accepted_keywords(function, case)
    return predictions(function, *case.arrays(), chip=chip, events=events, **keywords)


def _xla(function: Function, case: CallArguments, chip: str) -> Estimate | None:
    try:
        keywords = accepted_keywords(function, case)
        return compile_process.xla_cycles(function, case.arrays(), named(chip), **keywords)
    except compiler.CompilerUnavailable:
        return None


# ---- errors that the function raises ----


def _trouble(error: Exception) -> str:
    return f"{_phrase(error)}{_rules(error)}{user_line(error)}"


def _phrase(error: Exception) -> str:
    call = getattr(error, "call", None)
    if call and (blocks := refused_blocks_phrase(call)):
        return blocks
    lines = str(error).strip().splitlines() or [""]
    refused = type(error).__name__ == "NotLowered"
    return f"Mosaic refuses it: {lines[0]}" if refused else f"{type(error).__name__}: {lines[0]}"


def _rules(error: Exception) -> str:
    """The blocks that a TPU refuses, with the reasons; "" if that isn't the problem."""
    call = getattr(error, "call", None)
    refused = refused_blocks(call) if call else ()
    parts = list(block_paragraphs(refused))
    return "".join(f"\n  {label:<6} {text}" for label, text in parts)


if __name__ == "__main__":
    sys.exit(main())
