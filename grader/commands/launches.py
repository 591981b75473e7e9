"""`kata cost`, `kata trace`, `kata view`.

What `kata cost`, `kata trace` and `kata view` share: which launch, and where to write.

`kata cost` of a launch for GPUs: what its compiler says that it takes, beside the solution's.
Where such a GPU is here, both are also timed.

`kata cost`: what a launch takes on a TPU, or on a GPU, beside par, and what to try.

`kata trace`: the predicted timeline of a launch, for Perfetto.

`kata view`: writes the picture of a launch, and opens it where there is a screen.
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

from grader.checks.on_gpu import compiled_of, missing
from grader.checks.runs import in_full, problem_finding
from grader.commands.arguments import completed, one_kata
from grader.exercise import repository
from grader.exercise.answer_key import DTYPES
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import GPUS
from grader.exercise.repository import find_root
from grader.grading import cost_studies
from grader.sandbox.client import Asking
from grader.verdict import Case
from grader.view.launch_view import gather, page
from pallascope.gpu.gpu_screen import kernels_of, measured
from pallascope.model import Accident, GpuTimes, OnGpu, Reference
from pallascope.tools.arrays import dtype_of
from pallascope.tools.terminal import say, show
from pallascope.tpu.call_arguments import assignments, choices, combinations
from pallascope.tpu.chips import CHIPS, DEFAULT, named
from pallascope.tpu.launch_screen import Launch, Side, baselines, screen
from pallascope.tpu.perfetto import MOST_EVENTS, shown_until, trace
from pallascope.tpu.sweep_screen import table
from pallascope.tpu.units import time_of

_SIZES = (
    "sizes and dtype to use instead of those drawn, such as M=2048 bm=512 dtype=bfloat16; sizes "
    "that the answer key computes from them change too"
)


def launch_arguments(parser: argparse.ArgumentParser, case: int | None = None) -> None:
    """Add what names one launch: kata, sizes, case, seed and chip.

    `case` is the hidden case where none is named; None is that of production size, or else 0.
    """
    one_kata(parser)
    sizes = parser.add_argument("sizes", nargs="*", metavar="SIZE=VALUE", help=_SIZES)
    completed(sizes, size_names)
    default = "the one of production size, or else 0" if case is None else "%(default)s"
    parser.add_argument(
        "--case",
        type=int,
        default=case,
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
    parser.add_argument(
        "--chip",
        choices=list(CHIPS),
        help=f"which TPU (default: {DEFAULT}, or the first with as many cores as the kata needs)",
    )


@contextlib.contextmanager
def named_launch(
    options: argparse.Namespace, kata: Kata, *, for_gpus: bool = False
) -> Iterator[tuple[Asking, Case]]:
    """Whom to ask about the launch that `launch_arguments` names, and its case.

    Raises NoStudy where there is no such case, the launch is not made for the sizes given, or it is
    for GPUs and nobody has asked for those.
    """
    if kata.key.gpu and not for_gpus:
        raise cost_studies.NoStudy(
            f"{kata.name} is for GPUs, and this shows what a TPU would do: kata cost {kata.name}"
        )
    given = assignments(options.sizes)
    case = cost_studies.case_of(kata, options.case, options.seed, given)
    with cost_studies.studio(options.chip, getattr(options, "gpu", GPUS[0])) as asking:
        if given:
            cost_studies.fits(asking, kata, case)
        yield asking, case


def chip_option(parser: argparse.ArgumentParser) -> None:
    """--chip NAME."""
    parser.add_argument(
        "--chip", choices=list(CHIPS), default=DEFAULT, help="which TPU (default: %(default)s)"
    )


def output_option(parser: argparse.ArgumentParser, ending: str) -> None:
    """--output FILE; without it, a command writes a file called NAME and `ending`."""
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help=f"where to write it, over any file that is there (default: NAME{ending})",
    )


def written(options: argparse.Namespace, name: str, text: str) -> Path:
    """Write the output: where it was asked for, or else under this name in the current folder, or
    in a temporary one where that can't be written to. Raises OSError."""
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
    """SIZE= for each size of the kata that is named before, or SIZE=VALUE once SIZE= is typed."""
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


WITHOUT = (
    "No time is known without a GPU, and none is guessed. With one, both would be timed in turns, "
    "and this would show the median, its spread, and the share of peak FLOP/s and of HBM's "
    "bandwidth."
)


def run_gpu_cost(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """Compile the learner's launch and the solution's; time both on a GPU. Raises NoStudy."""
    if options.sweep:
        raise cost_studies.NoStudy("--sweep predicts for TPUs; no time on a GPU is predicted")
    if lacking := missing():
        raise cost_studies.NoStudy(lacking.why)
    with named_launch(options, kata, for_gpus=True) as (asking, case):
        reference = asking.inputs(kata, case)
        own = asking.own_on_gpu(kata, reference, cost_studies.PATIENCE)
        par = asking.par_on_gpu(kata, reference)
        chip = asking.gpu_of(kata)
        times = asking.timed_on_gpu(kata, case, reference, lambda: own)
        timed = times is not None and times.own.runs > 0
        operations = asking.spec_flops(kata, case) if timed else 0
    file, _ = kata.location()
    told = "and run on the one that is here" if timed else "nothing was run"
    head = Text.assemble(
        (kata.name, "bold"), f" compiled for a GPU {chip}: {told}\n", (f"{case}\n", "dim")
    )
    sides = (_side("yours", own, file), _side("par", par, ""))
    measured = _measured(times, reference, operations)
    asked = f"Right or wrong is not asked here: pytest -k {kata.name}"
    show(Group(head, *sides, *measured, Text(asked, "dim")), console)
    return 0 if _whole(own) else 1


def _measured(
    times: GpuTimes | None, reference: Reference, operations: int
) -> list[RenderableType]:
    if times is None:
        return [Text(WITHOUT, "dim")]
    arrays = [*reference.inputs, *reference.results]
    moved = sum(math.prod(a.shape) * dtype_of(a.dtype).itemsize for a in arrays)
    tensor = all(a.dtype in ("bfloat16", "float16") for a in reference.inputs)
    return [*measured(times, moved, operations if tensor else 0), Text()]


def _whole(side: OnGpu | Accident) -> bool:
    """Whether nothing is wrong with a launch, as far as it could be looked at."""
    if isinstance(side, Accident) or (side.problem and not side.problem.todo):
        return False
    compiled = compiled_of(side)
    return compiled is None or compiled.failure is None


def _side(title: str, side: OnGpu | Accident, file: str) -> RenderableType:
    return Group(Text(title, "bold"), *_told(side, file), Text())


def _told(side: OnGpu | Accident, file: str) -> list[RenderableType]:
    if isinstance(side, Accident):
        return [Text(side.message)]
    if side.problem:
        todo = side.problem.todo
        return [Text("Still to do." if todo else in_full(problem_finding(side.problem, file)))]
    if (compiled := compiled_of(side)) is None:
        lowered = "jax lowers it" if side.lowered else "nothing is known of it"
        return [Text(f"{lowered}; not compiled: {side.not_compiled}")]
    return list(kernels_of(compiled, side.buffers))


def cost_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    parser.add_argument(
        "--gpu",
        choices=GPUS,
        default=GPUS[0],
        help="which GPU, of a launch for those (default: %(default)s)",
    )
    sweep = parser.add_argument(
        "--sweep",
        nargs="+",
        default=[],
        metavar="NAME=VALUE,VALUE",
        help="predict all combinations of these sizes, such as bm=128,256,512 bn=128,256",
    )
    completed(sweep, size_names)


def run_cost(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    if kata.key.predictions:
        return _baselines(options, kata, console)
    if kata.key.gpu:
        # what is for GPUs is imported for these alone

        return run_gpu_cost(options, kata, console)
    if options.sweep:
        return _sweep(options, kata, console)
    with named_launch(options, kata) as (asking, case):
        launch = cost_studies.study(asking, kata, case)
    show(screen(launch), console)
    return 0 if cost_studies.faultless(launch) else 1


def _baselines(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    """What a learner's numbers are compared with, as XLA makes it: not the numbers themselves."""
    if options.sweep:
        raise cost_studies.NoStudy(
            f"{kata.name} has no kernel with sizes to choose: leave --sweep out"
        )
    case = cost_studies.any_case_of(kata, options.case, options.seed, assignments(options.sizes))
    with cost_studies.studio(options.chip) as asking:
        measured, chip = cost_studies.baselines(asking, kata, case), asking.chip(kata)
    show(baselines(measured, kata.name, str(case), chip), console)
    return 0


def _sweep(options: argparse.Namespace, kata: Kata, console: Console) -> int:
    listed, given = choices(options.sweep), assignments(options.sizes)
    if both := sorted(set(listed) & set(given)):
        raise cost_studies.NoStudy(f"{both[0]} is given a value, and swept")
    # A size with one value is none to sweep over: sizes may well stand after --sweep.
    swept = {name: sizes for name, sizes in listed.items() if len(sizes) > 1} or listed
    standing = {name: str(cost_studies.common(sizes)) for name, sizes in listed.items()}
    case = cost_studies.case_of(kata, options.case, options.seed, {**standing, **given})
    tries = combinations(swept)
    with cost_studies.studio(options.chip) as asking:
        found = cost_studies.sweep(asking, kata, case, tries)
        err, chip = Console(stderr=True), asking.chip(kata)
        progress = track(found, "predicting", len(tries), console=err, transient=True)
        results = list(progress if err.is_terminal else found)
    tried = [one for one, _ in results]
    show(Group(_heading(kata, case, chip, swept, results[0][1]), table(tried)), console)
    return 0 if any(one.seconds is not None or one.bytes for one in tried) else 1


def _heading(kata: Kata, case: Case, chip: str, swept: Collection[str], par: bool) -> Text:
    kept = [f"{name}={size}" for name, size in case.sizes.items() if name not in swept]
    return Text.assemble(
        (kata.name, "bold"),
        f" on a TPU {chip}, predicted: nothing was run\n",
        (", ".join([*kept, f"dtype={case.dtype}"]), "dim"),
        ("\nstill to do, so these are par's times" if par else "", "yellow"),
        "\n",
    )


TRACE_ENDING = ".trace.json"
WHERE = "https://ui.perfetto.dev (Open trace file), or chrome://tracing"


def trace_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser)
    output_option(parser, TRACE_ENDING)


def run_trace(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    with named_launch(options, kata) as (asking, case):
        launch = cost_studies.study(asking, kata, case, MOST_EVENTS)
    if not cost_studies.faultless(launch):
        show(screen(launch), console)
        return 1
    sides = [side for side in (launch.own, launch.par) if side and side.seconds is not None]
    if not sides or (sides[0] is not launch.own and not launch.own.todo):
        raise cost_studies.NoStudy(f"no timeline: {_unknown(launch)}")
    text = trace((side.title, side.kernels) for side in sides)
    file = written(options, f"{kata.name}{TRACE_ENDING}", text)
    titles = " and ".join(side.title for side in sides)
    still = ", since it is still to do" if launch.own.todo else ""
    say(console, f"wrote {file}: the timeline of {titles}{still}")
    for side in sides:
        if cut := _cut(side):
            say(console, f"{side.title}: {cut}")
    say(console, f"open it at {WHERE}")
    return 0


def _cut(side: Side) -> str:
    """How much of a long run a trace shows; nothing where it shows all."""
    for kernel in side.kernels:
        if kernel.schedule and (shown := shown_until(kernel.schedule)) < kernel.schedule.cycles:
            clock = named(kernel.chip).clock
            whole = time_of(kernel.schedule.cycles / clock)
            return f"only the first {time_of(shown / clock)} of {whole} in detail"
    return ""


def _unknown(launch: Launch) -> str:
    """Why a launch that the compiler may well take has no schedule."""
    sides = [side for side in (launch.own, launch.par) if side]
    reasons = (k.unknown for side in sides for k in side.kernels if k.unknown)
    return next(reasons, launch.par.trouble if launch.par else "no kernel")


VIEW_ENDING = ".view.html"


def view_arguments(parser: argparse.ArgumentParser) -> None:
    launch_arguments(parser, case=0)
    output_option(parser, VIEW_ENDING)
    parser.add_argument(
        "--no-open", action="store_true", help="write the file without opening a browser"
    )


def run_view(options: argparse.Namespace, root: Path, console: Console) -> int:
    kata = repository.single_kata(root, options.name)
    with named_launch(options, kata) as (asking, case):
        document = gather(asking, kata, case, drawn=not options.sizes)
    file = written(options, f"{kata.name}{VIEW_ENDING}", page(document))
    whose = "the solution's launch, since yours is still to do"
    told = whose if document.whose == "par" else "your launch"
    verdict = "" if document.whose == "par" else f": {document.verdict.words}"
    say(console, f"wrote {file}: {told}{verdict}")
    address = file.resolve().as_uri()
    why = "" if options.no_open else screenless(os.environ, sys.platform)
    if options.no_open or why or not webbrowser.open(address):
        where = why or "open it in a browser"
        say(console, f"{where}: {address}")
    else:
        say(console, f"opened {address}")
    return 0


def screenless(environ: Mapping[str, str], platform: str) -> str:
    """Why no browser is opened here; nothing where one may be."""
    if environ.get("BROWSER"):
        return ""
    if environ.get("SSH_CONNECTION"):
        return "this is a remote shell; copy the file to where a browser is"
    if platform == "linux" and not (environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")):
        return "no display here; open it where a browser is"
    return ""
