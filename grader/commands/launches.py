"""What `kata cost`, `kata trace` and `kata view` share: which launch, and where to write."""

from __future__ import annotations

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from grader.commands.arguments import completed, one_kata
from grader.exercise import repository
from grader.exercise.catalog import Kata
from grader.exercise.keys import DTYPES, GPUS
from grader.exercise.repository import find_root
from grader.grading import studies
from grader.model import Case
from grader.sandbox.asking import Asking
from grader.tpu.arguments import assignments
from grader.tpu.chips import CHIPS, DEFAULT

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
        raise studies.NoStudy(
            f"{kata.name} is for GPUs, and this shows what a TPU would do: kata cost {kata.name}"
        )
    given = assignments(options.sizes)
    case = studies.case_of(kata, options.case, options.seed, given)
    with studies.studio(options.chip, getattr(options, "gpu", GPUS[0])) as asking:
        if given:
            studies.fits(asking, kata, case)
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
        key = repository.one(find_root(Path.cwd()), parsed_args.name).key
    except (ValueError, OSError):
        return {}
    choices = {**key.choices, "dtype": tuple(dict.fromkeys(key.dtypes))}
    name, given, _value = prefix.partition("=")
    if not given:
        return {f"{name}=": ", ".join(map(str, values)) for name, values in choices.items()}
    values = DTYPES if name == "dtype" else choices.get(name, ())
    return {f"{name}={value}": "" for value in values if isinstance(value, int) or name == "dtype"}
