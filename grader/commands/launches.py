"""`kata cost`, `kata trace`, `kata view`: the predicted cost, timeline and drawing of a launch;
`kata measure`, its time on this machine's TPU; `kata check`, of anybody's kernels.

For a GPU kata, `kata cost` shows the compiler's numbers, and times the launch if there is a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import sys
import tempfile
import webbrowser
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.progress import track
from rich.text import Text

from grader.checks.gpu_compiles import compiled_of
from grader.commands.arguments import one_kata, set_completer
from grader.exercise import repository
from grader.exercise.answer_key import DTYPES
from grader.exercise.catalog import Kata
from grader.exercise.repository import find_root
from grader.exercise.targets import GPUS
from grader.grading import cost_studies
from grader.sandbox.client import WorkerClient
from grader.sandbox.gpu_runs import GpuLaunchClient
from grader.verdict import Case
from grader.view.document import Document
from grader.view.launch_view import case_of_many_steps, gather, gather_without_launch, page
from pallascope.checks.exceptions import in_full, problem_finding
from pallascope.gpu.gpu_screen import kernels_of, measured
from pallascope.model import Accident, GpuTimes, OnGpu, Reference
from pallascope.testing.command import check
from pallascope.testing.command import check_arguments as check_arguments
from pallascope.tools.arrays import dtype_of
from pallascope.tools.text import format_time, print_line, show
from pallascope.tpu.call_arguments import assignments, choices, combinations
from pallascope.tpu.chips import CHIPS, DEFAULT, named
from pallascope.tpu.launch_screen import Launch, Side, baselines_screen, screen
from pallascope.tpu.measure import (
    LocalTpu,
    MeasuredLaunch,
    NoTpu,
    append_rows,
    chip_of_kind,
    measured_screen,
)
from pallascope.tpu.perfetto import MAX_EVENTS, last_complete_cycle, trace
from pallascope.tpu.sweep import table

_SIZES = (
    "sizes and dtype to use instead of those drawn, such as M=2048 bm=512 dtype=bfloat16; sizes "
    "that the answer key computes from them change too"
)


def launch_arguments(
    parser: argparse.ArgumentParser,
    chip: bool = True,
    default: str = "the one of production size, or else 0",
) -> None:
    """Add the arguments that select one launch: kata, sizes, case, seed and, if `chip`, chip.

    `default` describes the case without --case.
    """
    one_kata(parser)
    sizes = parser.add_argument("sizes", nargs="*", metavar="SIZE=VALUE", help=_SIZES)
    set_completer(sizes, size_names)
    parser.add_argument(
        "--case",
        type=int,
        metavar="N",
        help=f"which hidden case (default: {default})",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=0,
        metavar="S",
        help="the seed that pytest printed for the hidden cases (default: %(default)s)",
    )
    if chip:
        parser.add_argument(
            "--chip",
            choices=list(CHIPS),
            help=f"which TPU (default: {DEFAULT}, or the first with as many cores as the kata "
            "needs)",
        )


@contextlib.contextmanager
def named_launch(
    options: argparse.Namespace, kata: Kata, *, any_target: bool = False
) -> Iterator[tuple[WorkerClient, Case]]:
    """A client of workers, and the case that the options of `launch_arguments` select.

    Raises NoStudy if there is no such case, the launch doesn't accept the sizes, or nothing
    predicts its run (unless `any_target`).
    """
    target = kata.key.target
    if not (any_target or target.uses_libtpu):
        raise cost_studies.NoStudy(
            f"kata measure, trace and view are for TPU launches, and {kata.name} is for "
            f"{target.title}: "
            f"try kata cost {kata.name}"
        )
    given = assignments(options.sizes)
    case = cost_studies.case_of(kata, options.case, options.seed, given)
    with cost_studies.study_client(options.chip, getattr(options, "gpu", GPUS[0])) as client:
        if given:
            cost_studies.fits(client, kata, case)
        yield client, case


def chip_option(parser: argparse.ArgumentParser) -> None:
    """--chip NAME."""
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="which TPU (default: %(default)s)"
    )


def output_option(parser: argparse.ArgumentParser, ending: str) -> None:
    """--output FILE, by default NAME and `ending`."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"where to write it, replacing any existing file (default: NAME{ending})",
    )


def write_output(options: argparse.Namespace, name: str, text: str) -> Path:
    """Write to --output, else to `name` in the current folder, or in a temporary folder if that
    isn't writable. Raises OSError."""
    file = options.output or Path(name)
    try:
        file.write_text(text, encoding="utf-8")
    except OSError:
        if options.output:
            raise
        file = Path(tempfile.mkdtemp(prefix="kata-"), name)
        file.write_text(text, encoding="utf-8")
    return file


def size_names(prefix: str, parsed_args: argparse.Namespace, **_: object) -> dict[str, str]:
    """Completions: SIZE= for each size of the typed kata, then SIZE=VALUE."""
    try:
        key = repository.single_kata(find_root(Path.cwd()), parsed_args.name).key
    except (ValueError, OSError):
        return {}
    choices = {**key.choices, "dtype": tuple(dict.fromkeys(key.dtypes))}
    name, given, _value = prefix.partition("=")
    if not given:
        return {f"{name}=": ", ".join(map(str, values)) for name, values in choices.items()}
    values = DTYPES if name == "dtype" else choices.get(name, ())
    return {f"{name}={value}": "" for value in values if isinstance(value, int) or name == "dtype"}


NO_GPU_NOTE = (
    "Without a GPU, times are neither measured nor guessed. With one, this times both in turns and "
    "shows the median, its spread, and the share of peak FLOP/s and of HBM bandwidth."
)


def run_gpu_cost(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Compile the learner's launch and the solution's; time both on a GPU. Raises NoStudy."""
    if options.sweep:
        raise cost_studies.NoStudy("--sweep predicts times on TPUs only, not on GPUs")
    if not_judged := kata.key.target.missing():
        raise cost_studies.NoStudy(not_judged.why)
    with named_launch(options, kata, any_target=True) as (client, case):
        reference = client.inputs(kata, case)
        launch = client.learner(kata, case, reference, cost_studies.PATIENCE, kind=GpuLaunchClient)
        solution = client.solution(kata, case, reference, kind=GpuLaunchClient)
        own, par, chip = launch.compiled(), solution.compiled(), client.chip(kata)
        times = launch.timed(solution)
        timed = times is not None and times.own.runs > 0
        operations = client.spec_flops(kata, case) if timed else 0
    file, _ = kata.location()
    status = "and run on this machine's GPU" if timed else "nothing was run"
    head = Text.assemble(
        (kata.name, "bold"), f" compiled for a GPU {chip}: {status}\n", (f"{case}\n", "dim")
    )
    sides = (_side_group("yours", own, file), _side_group("par", par, ""))
    measured = _measured_lines(times, reference, operations)
    hint = f"This doesn't check correctness: pytest -k {kata.name} does"
    show(Group(head, *sides, *measured, Text(hint, "dim")), console)
    return 0 if _is_faultless(own) else 1


def _measured_lines(
    times: GpuTimes | None, reference: Reference, operations: int
) -> list[RenderableType]:
    if times is None:
        return [Text(NO_GPU_NOTE, "dim")]
    arrays = [*reference.inputs, *reference.results]
    moved = sum(math.prod(a.shape) * dtype_of(a.dtype).itemsize for a in arrays)
    tensor = all(a.dtype in ("bfloat16", "float16") for a in reference.inputs)
    return [*measured(times, moved, operations if tensor else 0), Text()]


def _is_faultless(side: OnGpu | Accident) -> bool:
    """Whether the launch has no known fault."""
    if isinstance(side, Accident) or (side.problem and not side.problem.todo):
        return False
    compiled = compiled_of(side)
    return compiled is None or compiled.failure is None


def _side_group(title: str, side: OnGpu | Accident, file: str) -> RenderableType:
    return Group(Text(title, "bold"), *_side_lines(side, file), Text())


def _side_lines(side: OnGpu | Accident, file: str) -> list[RenderableType]:
    if isinstance(side, Accident):
        return [Text(side.message)]
    if side.problem:
        todo = side.problem.todo
        return [Text("Still to do." if todo else in_full(problem_finding(side.problem, file)))]
    if (compiled := compiled_of(side)) is None:
        lowered = "jax lowers it" if side.lowered else "nothing is known about it"
        return [Text(f"{lowered}; not compiled: {side.not_compiled}")]
    return list(kernels_of(compiled, side.buffers))


def cost_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    parser.add_argument(
        "--gpu",
        choices=GPUS,
        default=GPUS[0],
        help="which GPU, for a GPU kata (default: %(default)s)",
    )
    sweep = parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="predict all combinations of these sizes, such as bm=128,256,512 bn=128,256",
    )
    set_completer(sweep, size_names)


def run_cost(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    if kata.key.predictions:
        return _baselines(options, kata, console)
    return COST_REPORTS[kata.key.target.name](options, kata, console)


def run_tpu_cost(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Predict the cost of the learner's launch and of the solution's. Raises NoStudy."""
    if options.sweep:
        return _sweep(options, kata, console)
    with named_launch(options, kata) as (client, case):
        launch = cost_studies.study(client, kata, case)
    show(screen(launch), console)
    return 0 if cost_studies.faultless(launch) else 1


#: By target: `kata cost` of a kernel.
COST_REPORTS = {"tpu": run_tpu_cost, "gpu": run_gpu_cost}


def _baselines(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Show XLA's programs, with which the learner's numbers are compared."""
    if options.sweep:
        raise cost_studies.NoStudy(f"{kata.name} has no kernel with sizes to choose: omit --sweep")
    case = cost_studies.any_case_of(kata, options.case, options.seed, assignments(options.sizes))
    with cost_studies.study_client(options.chip) as client:
        measured, chip = cost_studies.baselines(client, kata, case), client.chip(kata)
    show(baselines_screen(measured, kata.name, str(case), chip), console)
    return 0


def _sweep(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    listed, given = choices(options.sweep), assignments(options.sizes)
    if conflicts := sorted(set(listed) & set(given)):
        raise cost_studies.NoStudy(f"{conflicts[0]} is both given a value and swept")
    # Sizes with a single value aren't swept: they may be SIZE=VALUE arguments after --sweep.
    swept = {name: sizes for name, sizes in listed.items() if len(sizes) > 1} or listed
    defaults = {name: str(cost_studies.common(sizes)) for name, sizes in listed.items()}
    case = cost_studies.case_of(kata, options.case, options.seed, {**defaults, **given})
    tries = combinations(swept)
    with cost_studies.study_client(options.chip) as client:
        predictions = cost_studies.sweep(client, kata, case, tries)
        err, chip = Console(stderr=True), client.chip(kata)
        progress = track(predictions, "predicting", len(tries), console=err, transient=True)
        results = list(progress if err.is_terminal else predictions)
    candidates = [one for one, _ in results]
    show(Group(_heading(kata, case, chip, swept, results[0][1]), table(candidates)), console)
    return 0 if any(one.seconds is not None or one.bytes for one in candidates) else 1


def _heading(kata: Kata, case: Case, chip: str, swept: Collection[str], par: bool) -> Text:
    fixed = [f"{name}={size}" for name, size in case.sizes.items() if name not in swept]
    return Text.assemble(
        (kata.name, "bold"),
        f" on a TPU {chip}, predicted: nothing was run\n",
        (", ".join([*fixed, f"dtype={case.dtype}"]), "dim"),
        ("\nstill to do, so these are par's times" if par else "", "yellow"),
        "\n",
    )


TRACE_ENDING = ".trace.json"
TRACE_VIEWERS = "https://ui.perfetto.dev (Open trace file), or chrome://tracing"


def trace_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    output_option(parser, TRACE_ENDING)


def run_trace(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    with named_launch(options, kata) as (client, case):
        launch = cost_studies.study(client, kata, case, MAX_EVENTS)
    if not cost_studies.faultless(launch):
        show(screen(launch), console)
        return 1
    sides = [side for side in (launch.own, launch.par) if side and side.seconds is not None]
    if not sides or (sides[0] is not launch.own and not launch.own.todo):
        raise cost_studies.NoStudy(f"no timeline: {_no_schedule_reason(launch)}")
    text = trace((side.title, side.kernels) for side in sides)
    file = write_output(options, f"{kata.name}{TRACE_ENDING}", text)
    titles = " and ".join(side.title for side in sides)
    todo_note = ", since it is still to do" if launch.own.todo else ""
    print_line(console, f"wrote {file}: the timeline of {titles}{todo_note}")
    for side in sides:
        if cut := _truncation_note(side):
            print_line(console, f"{side.title}: {cut}")
    print_line(console, f"open it at {TRACE_VIEWERS}")
    return 0


def _truncation_note(side: Side) -> str:
    """The part of a long run that the trace shows; "" if it shows all."""
    for kernel in side.kernels:
        if (
            kernel.schedule
            and (shown := last_complete_cycle(kernel.schedule)) < kernel.schedule.cycles
        ):
            clock = named(kernel.chip).clock
            whole = format_time(kernel.schedule.cycles / clock)
            return f"only the first {format_time(shown / clock)} of {whole} in detail"
    return ""


def _no_schedule_reason(launch: Launch) -> str:
    """Why a launch has no schedule."""
    sides = [side for side in (launch.own, launch.par) if side]
    reasons = (k.unknown for side in sides for k in side.kernels if k.unknown)
    return next(reasons, launch.par.trouble if launch.par else "no kernel")


def measure_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser, chip=False)
    parser.add_argument(
        "--rows", type=Path, metavar="FILE", help="append the measured times to FILE, as JSON lines"
    )


def run_measure(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    with LocalTpu() as tpu:
        try:
            kind = tpu.kind
        except NoTpu as error:
            needed = "kata measure needs a TPU, and jax can't use one here"
            remedy = f"kata cost {kata.name} predicts the time without one"
            raise cost_studies.NoStudy(f"{needed}; {remedy} ({error})") from None
        options.chip = chip_of_kind(kind).name
        with named_launch(options, kata) as (client, case):
            sides = cost_studies.measure(client, kata, case, tpu)
    note = f"This doesn't check correctness: pytest -k {kata.name} does"
    launch = MeasuredLaunch(kata.name, str(case), kind, sides, note)
    show(measured_screen(launch), console)
    if options.rows:
        append_rows(options.rows, launch)
    return 0 if all(side.times or side.todo for side in sides) else 1


VIEW_ENDING = ".view.html"


def view_arguments(parser: argparse.ArgumentParser) -> None:
    default = "the first with two steps or more on each axis of the grid, or four turns of a loop"
    launch_arguments(parser, default=default)
    output_option(parser, VIEW_ENDING)
    parser.add_argument(
        "--no-open", action="store_true", help="write the file without opening a browser"
    )


def run_view(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    if not kata.key.target.uses_libtpu:
        raise cost_studies.NoStudy(
            f"kata view draws TPU launches only. For this GPU kata, kata cost {kata.name} shows "
            "the kernel's blocks, shared memory and registers"
        )
    chosen, document = _viewed(options, kata)
    file = write_output(options, f"{kata.name}{VIEW_ENDING}", page(document))
    print_line(console, f"wrote {file}: {_view_in_words(document)}")
    if chosen:
        print_line(console, chosen)
    address = file.resolve().as_uri()
    reason = "" if options.no_open else why_no_browser(os.environ, sys.platform)
    if options.no_open or reason or not webbrowser.open(address):
        advice = reason or "open it in a browser"
        print_line(console, f"{advice}: {address}")
    else:
        print_line(console, f"opened {address}")
    return 0


def _viewed(options: argparse.Namespace, kata: Kata) -> tuple[str, Document]:
    """A line on the case, if it isn't the first one, and the page's document. Raises NoStudy."""
    if kata.key.kind in cost_studies.NO_LAUNCH:
        given = assignments(options.sizes)
        case = cost_studies.any_case_of(kata, options.case or 0, options.seed, given)
        with cost_studies.study_client(options.chip) as client:
            return "", gather_without_launch(client, kata, case)
    free = options.case is None and not options.sizes
    options.case = options.case or 0
    with named_launch(options, kata) as (client, case):
        first = case
        if free:
            case = case_of_many_steps(client, kata, options.seed)
        line = "" if case == first else f"case: --seed {case.session_seed} --case {case.index}"
        return line, gather(client, kata, case, drawn=not options.sizes)


def _view_in_words(document: Document) -> str:
    par = document.whose == "par"
    if document.about:
        return document.about if par else f"{document.about}: {document.verdict.words}"
    if par:
        return "the solution's launch, since yours is still to do"
    return f"your launch: {document.verdict.words}"


def why_no_browser(environ: Mapping[str, str], platform: str) -> str:
    """Why no browser can be opened here; "" if one can."""
    if environ.get("BROWSER"):
        return ""
    if environ.get("SSH_CONNECTION"):
        return "this is a remote shell; copy the file to a machine with a browser"
    if platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return "no display here; open it on a machine with a browser"
    return ""


def run_check(options: argparse.Namespace, _root: Path, _console: Console) -> int:
    return check(options)
