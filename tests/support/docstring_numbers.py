"""The numbers in docstrings, computed: tests/course/numbers/TRACK.toml says how.

python -m tests.support.docstring_numbers NAME …     lists the quantities of these docstrings, and
                                                     computes their entries

A table for each name, without "kata_NN_", because numbers move:

    [decay]
    sizes = "M=8192 bm=256 dtype=float32"   # if not those of production that `kata cost` shows
    "128 MiB" = "M * N * 4"                 # the text in the docstring, and its value
    "takes 164 µs" = "time()"               # with neighbouring words if "164 µs" alone is ambiguous
    "213 µs" = "time('one_slot')"           # a known mistake, by words of its title, or an `other`
    other.one_slot = [["old", "new"]]       # replacements of text in the solution
    quoted = {"0.4 %" = "table 2 of arXiv 2211.05102"}  # somebody else's number, and its source

An entry is about the last quantity in its text, wherever the text occurs. A value is in bytes,
seconds, operations, or without a unit; `Names` has the names that an expression may use.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import importlib
import math
import re
import sys
import time
import tomllib
import types
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.mutants import wrong_version
from grader.exercise.variants import variants_of
from grader.verdict import Case
from pallascope.runs.launch_runs import trace_argument
from pallascope.tools.files import load_source
from pallascope.tools.versions import versions
from pallascope.tpu import chips, compile_process, predictions
from pallascope.tpu.call_arguments import assignments
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.prediction import Prediction
from pallascope.tpu.schedule import Unit
from pallascope.tpu.vmem import limit_of
from tests.support.repositories import ROOT
from tools import roofline_data

FOLDER = ROOT / "tests/course/numbers"
#: Keys of a table that aren't texts of the docstring.
SIZES, OTHER, QUOTED = "sizes", "other", "quoted"
RESERVED = (SIZES, OTHER, QUOTED)
#: The WHICH of a case file's code as a learner gets it.
STUB = "stub"
#: Before the style of a variant of tests/variants.
VARIANT = "variant "

UNITS = {
    **{"ns": 1e-9, "µs": 1e-6, "ms": 1e-3},
    **{"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
    **{"GB/s": 1e9, "TB/s": 1e12, "Gflop/s": 1e9, "Tflop/s": 1e12},
    **{"%": 0.01, "times": 1, "": 1},
}
_FROM_TWO = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven")
WORDS: dict[str, int] = {word: number for number, word in enumerate(_FROM_TWO, 2)}
_NUMBER = (
    rf"(?<![\w.,])(?<!the )(?<!compare )(?P<number>\d[\d,]*(?:\.\d+)?|\b(?:{'|'.join(WORDS)})\b)"
)
#: A number with a unit: each needs an entry. In tables, units may be in the heading: no entry.
QUANTITY = re.compile(
    rf"{_NUMBER} (?P<unit>ns|µs|ms|KiB|MiB|GiB|GB/s|TB/s|Gflop/s|Tflop/s|%|times)(?!\w)"
)
PLAIN = re.compile(rf"{_NUMBER}(?P<unit>)(?!\w)")
#: Before a number: it may be off by 5 %.
ABOUT = re.compile(r"\b(about|nearly|almost|roughly|around|~) ?$")
CALLS = (
    *("time", "moved", "written", "busy", "waiting", "share", "vmem_used", "vmem_limit", "steps"),
    *("xla_time", "xla_estimate", "xla_bytes", "jax_time", "of"),
)

#: These need seconds each, and change with libtpu or jax only: `.ci/full` checks them.
SLOW = re.compile(r"\b(xla|jax)_|\bchip=|\bof\(")


class NumberProblem(ValueError):
    """An entry that can't be evaluated. The text says why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A text of a docstring, and the expression for its last quantity."""

    text: str
    expression: str

    @property
    def predicts(self) -> bool:
        """Whether the expression needs a compiler or a trace."""
        return any(map(_is_call, ast.walk(ast.parse(self.expression.strip(), mode="eval"))))

    @property
    def is_slow(self) -> bool:
        """Whether it asks for XLA's program, a kernel of jax, another chip or another kata."""
        return bool(SLOW.search(self.expression))

    @property
    def quantity(self) -> re.Match[str]:
        """The quantity in the text."""
        found = [*QUANTITY.finditer(self.text)] or [*PLAIN.finditer(self.text)]
        if not found:
            raise NumberProblem(f"{self.text!r} has no number")
        return found[-1]


def _is_call(node: ast.AST) -> bool:
    """Whether a node names a function that predicts, or asks for those of another kata."""
    return isinstance(node, ast.Name) and node.id in CALLS


@dataclasses.dataclass(frozen=True, slots=True)
class Table:
    """What a file of numbers says of one kata."""

    entries: tuple[Entry, ...] = ()
    quoted: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sizes: str = ""
    other: Mapping[str, Sequence[Sequence[str]]] = dataclasses.field(default_factory=dict)


@functools.cache
def tables(track: str) -> dict[str, Table]:
    """The tables of a track by the kata's name."""
    file = FOLDER / f"{track}.toml"
    if not file.is_file():
        return {}
    return {name: table_of(found) for name, found in tomllib.loads(file.read_text("utf-8")).items()}


def table_of(found: Mapping[str, Any]) -> Table:
    """A table of a file, as toml has it."""
    texts = {text: value for text, value in found.items() if text not in RESERVED}
    return Table(
        entries=tuple(Entry(text, str(value)) for text, value in texts.items()),
        quoted=found.get(QUOTED, {}),
        sizes=found.get(SIZES, ""),
        other=found.get(OTHER, {}),
    )


# ---- the docstring ----


def explanation(source: str) -> str:
    """A docstring's Goal and Concept, with single spaces."""
    docstring = ast.get_docstring(ast.parse(source)) or ""
    return " ".join(re.split(r"^Shapes$", docstring, flags=re.MULTILINE)[0].split())


def _places(text: str, within: str) -> Iterator[int]:
    """Where a text occurs, but not as a part of a longer number or word."""
    pattern = rf"(?<![\w.,]){re.escape(text)}(?![\w])(?!\.\d)"
    return (found.start() for found in re.finditer(pattern, within))


def not_covered(words: str, table: Table) -> list[str]:
    """The quantities without an entry, each with some words around it."""
    covered = set()
    for entry in (*table.entries, *(Entry(text, "0") for text in table.quoted)):
        start, end = entry.quantity.span()
        covered |= {(at + start, at + end) for at in _places(entry.text, words)}
    found = [one for one in QUANTITY.finditer(words) if one["number"] != "0"]
    left = [one for one in found if one.span() not in covered]
    return [words[max(0, one.start() - 30) : one.end() + 15] for one in left]


def not_there(words: str, table: Table) -> list[str]:
    """The texts of entries that the docstring doesn't have."""
    texts = (*(entry.text for entry in table.entries), *table.quoted)
    return [text for text in texts if not any(_places(text, words))]


def differs(entry: Entry, value: float, words: str = "") -> str:
    """A sentence if the entry's quantity isn't the value; "" if it is.

    `words` is the docstring: "about" may stand before the text.
    """
    quantity = entry.quantity
    number, unit = quantity["number"], UNITS[quantity["unit"]]
    written = WORDS.get(str(number)) or float(number.replace(",", ""))
    last_digit = 10.0 ** -len(number.partition(".")[2])
    off = abs(value / unit - written)
    before = entry.text[: quantity.start()] or words[: next(_places(entry.text, words), 0)]
    allowed = max(last_digit / 2, min(last_digit, 0.05 * written))
    if not entry.predicts:
        allowed = last_digit / 2
    if ABOUT.search(before):
        allowed = max(allowed, 0.05 * written)
    if off <= allowed * (1 + 1e-6):
        return ""
    return f"{entry.text!r}: {entry.expression} is {value / unit:.6g} {quantity['unit']}"


# ---- the values ----


@dataclasses.dataclass
class Names(Mapping[str, Any]):
    """The names of an expression: sizes of the case, and

    KiB MiB GiB ns µs ms    units
    itemsize                bytes of an element of the case's dtype
    chip(NAME)              a row of pallascope.tpu.chips; its bandwidth, peak, clock, link, vmem
                            and dma_latency also stand alone, for the kata's chip
    given(NAME)             the contents of an input, as a numpy array
    operations()            of the spec, or of its products with products_alone=True
    time(WHICH, **sizes)    predicted seconds of the solution, or of WHICH known mistake or `other`;
                            chip=NAME for another chip
    moved, written          the same for HBM bytes, and those of them that are written;
                            operand=NAME for one operand of all
    busy(…, unit="MXU")     for the seconds of a unit of pallascope.tpu.schedule.Unit
    waiting, share          for the seconds of stalls, and for the used share of HBM's bandwidth
    vmem_used, vmem_limit   for bytes of VMEM; steps for grid steps
    of(NAME)                all of these for another kata: of("row_sum").time(M=8192)
    jax_time(**sizes)       of the kernel in jax that tools/benchmarks/tpu_tracks.py knows
    xla_time, xla_bytes     of the spec, or of that of an `other`, by XLA, at least; xla_estimate is
                            XLA's own, which is rough
    """

    kata: Kata
    table: Table

    def __post_init__(self) -> None:
        self._case = _case(self.kata, assignments(self.table.sizes.split()))
        self._chip = chips.chips_with_cores(self.kata.key.cores, [chips.DEFAULT])[0]
        chip = chips.named(self._chip)
        self._values: dict[str, Any] = {
            **{name: getattr(math, name) for name in ("ceil", "floor", "sqrt", "log2", "prod")},
            **{one.__name__: one for one in (sum, min, max, range, len, abs, round, int)},
            # As Python reads "µs": with another letter that looks the same.
            **{unicodedata.normalize("NFKC", unit): factor for unit, factor in UNITS.items()},
            **{name: getattr(chip, name) for name in _OF_A_CHIP},
            "chip": chips.named,
            "within": self.kata.key.predictions.within if self.kata.key.predictions else 0,
            "itemsize": specs.dtype_of(self._case.dtype).itemsize,
            "given": self._given,
            "of": lambda name: types.SimpleNamespace(**_names_of(name)),
            "jax_time": self._jax_time,
            "operations": self._operations,
            **{name: functools.partial(self._of_kernels, of) for name, of in _OF_KERNELS.items()},
            "xla_time": functools.partial(self._of_xla, lambda found, chip: found.floor(chip)),
            "xla_estimate": functools.partial(
                self._of_xla, lambda found, chip: found.cycles / chip.clock
            ),
            "xla_bytes": functools.partial(self._of_xla, lambda found, _: found.moved),
            **self._case.sizes,
        }

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def value(self, entry: Entry) -> float:
        """The value of an entry's expression. Raises NumberProblem."""
        try:
            return float(eval(entry.expression, {"__builtins__": {}}, {**self}))
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise NumberProblem(f"{entry.text!r}: {entry.expression}: {what}") from error

    def _changed(self, sizes: Mapping[str, Any]) -> Case:
        named = (*self.kata.key.choices, "dtype")
        given = {name: str(size) for name, size in sizes.items() if name in named}
        return _case(self.kata, {**assignments(self.table.sizes.split()), **given})

    def _given(self, name: str) -> Any:
        drawn = specs.reference(self._module(""), self.kata.name, self._case, evaluated=False)
        return np.asarray(trace_argument(drawn.inputs[drawn.names.index(name)]))

    def _operations(self, products_alone: bool = False, **sizes: Any) -> float:
        from pallascope.kernels import flops

        _, spec, inputs = _traced(self._module(""), self.kata.name, self._changed(sizes))
        return flops(spec, inputs, products_alone=products_alone)

    def _of_kernels(
        self,
        of: Callable[..., float],
        which: str = "",
        /,
        chip: str = "",
        unit: str = "",
        operand: str = "",
        **sizes: Any,
    ) -> float:
        case, chip = self._changed(sizes), chip or self._chip
        more = {name: size for name, size in sizes.items() if name not in (*case.sizes, "dtype")}
        kernels = _predicted(self.kata, self._source(which), case, chip, more)
        if operand:
            return _bytes_of(kernels, operand)
        return of(kernels, Unit[unit]) if unit else of(kernels)

    def _jax_time(self, chip: str = "", **sizes: Any) -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            from tools.benchmarks.tpu_tracks import SHIPPED

            case = self._changed(sizes)
            _, _, inputs = _traced(self._module(""), self.kata.name, case)
            function, words = SHIPPED[self.kata.name]
            launch = functools.partial(function, case.sizes)
            found = predictions(launch, *inputs, chip=chip or self._chip)
        return _seconds([kernel for kernel in found if words in kernel.call.name])

    def _of_xla(
        self, of: Callable[..., float], which: str = "", /, chip: str = "", **sizes: Any
    ) -> float:
        case = self._changed(sizes)
        target = chips.named(chip or self._chip)
        asked = (self.kata.name, self._source(which), str(case), target.name, "XLA")
        if asked not in _ESTIMATES:
            _, spec, inputs = _traced(self._module(which), self.kata.name, case)
            _ESTIMATES.clear()
            _ESTIMATES[asked] = compile_process.xla_cycles(spec, inputs, target)
        found = _ESTIMATES[asked]
        if not (value := of(found, target)):
            raise NumberProblem(f"XLA's bytes or its estimate are unknown: {found.missing}")
        return value

    def _module(self, which: str) -> types.ModuleType:
        return _module(self.kata.solution, self._source(which))

    def _source(self, which: str) -> str:
        """The solution's text, or that of a known mistake or an `other`."""
        text = self.kata.solution.read_text("utf-8")
        if not which:
            return text
        if which == STUB:
            return self.kata.stub_text()
        if which.startswith(VARIANT):
            style = which.removeprefix(VARIANT)
            return next(one.text() for one in variants_of(self.kata) if one.style == style)
        edits = self.table.other.get(which)
        if edits is None:
            found = [one for one in self.kata.key.mistakes if which in one.title]
            if len(found) != 1:
                raise NumberProblem(f"{len(found)} known mistakes have {which!r} in their title")
            return wrong_version(text, found[0])
        for old, new in edits:
            if text.count(old) != 1:
                raise NumberProblem(f"{which}: {old!r} occurs {text.count(old)} times")
            text = text.replace(old, new)
        return text


_OF_A_CHIP = ("bandwidth", "peak", "clock", "link", "vmem", "scoped_vmem", "dma_latency")


def _case(kata: Kata, given: Mapping[str, str]) -> Case:
    """The case that the roofline shows, or the first if none is of production size, with some
    sizes given; as for `kata cost`."""
    dtype = {"dtype": given["dtype"]} if "dtype" in given else {}
    sizes = {name: int(size) for name, size in given.items() if name != "dtype"}
    if unknown := sizes.keys() - kata.key.choices.keys():
        raise NumberProblem(f"{kata.name} has no size {', '.join(unknown)}")
    cases = draw(kata.id, kata.key, 0, sizes)
    production = kata.key.production
    case = cases[-1] if production else cases[0]
    if production and "bfloat16" in production.dtypes:
        dtype = {"dtype": "bfloat16", **dtype}
    return dataclasses.replace(case, **dtype)


def same_compiler() -> bool:
    """Whether libtpu is the one of docs/roofline.json: each predicts other times."""
    return versions()["libtpu"] == roofline_data.data()["libtpu"]


@functools.lru_cache(maxsize=4)
def _module(file: Path, text: str) -> types.ModuleType:
    return load_source(str(file), text.encode())


def _traced(
    module: types.ModuleType, name: str, case: Case
) -> tuple[Callable[..., Any], Callable[..., Any], list[Any]]:
    """The launch and the spec with their keywords, and the inputs."""
    reference = specs.reference(module, name, case, evaluated=False)
    spec, keywords = specs.spec_of(module, name, case)
    launch = functools.partial(getattr(module, name), **reference.keywords)
    inputs = [trace_argument(array) for array in reference.inputs]
    return launch, functools.partial(spec, **keywords), inputs


def _names_of(name: str) -> Names:
    kata = next(kata for kata in katas(ROOT, "solutions") if kata.name == name)
    return Names(kata, dataclasses.replace(tables(kata.track).get(name, Table()), sizes=""))


#: XLA's latest.
_ESTIMATES: dict[tuple[str, ...], Estimate] = {}
#: The latest, since several entries may be about one launch: time(), moved(), share().
_LATEST: dict[tuple[str, ...], tuple[Prediction, ...]] = {}


def _predicted(
    kata: Kata, text: str, case: Case, chip: str, more: Mapping[str, Any]
) -> tuple[Prediction, ...]:
    """The kernels of a launch, with `more` keywords than the case has."""
    asked = (kata.name, text, str(case), chip, str(more))
    if asked not in _LATEST:
        launch, _, inputs = _traced(_module(kata.solution, text), kata.name, case)
        found = predictions(launch, *inputs, chip=chip, **more)
        _LATEST.clear()
        _LATEST[asked] = found
    return _LATEST[asked]


def _seconds(kernels: Sequence[Prediction]) -> float:
    for kernel in kernels:
        if kernel.seconds is None:
            raise NumberProblem(str(kernel.failure.message if kernel.failure else kernel.unknown))
    return sum(kernel.seconds or 0.0 for kernel in kernels)


def _bytes(kernels: Sequence[Prediction]) -> float:
    return sum(kernel.bytes for kernel in kernels)


def _bytes_of(kernels: Sequence[Prediction], name: str) -> float:
    operands = [one for kernel in kernels for one in kernel.traffic.operands if one.name == name]
    if not operands:
        raise NumberProblem(f"no operand {name!r}")
    return sum(one.bytes or 0 for one in operands)


def _written(kernels: Sequence[Prediction]) -> float:
    return sum(kernel.traffic.written * kernel.runs.times for kernel in kernels)


def _busy(kernels: Sequence[Prediction], unit: Unit = Unit.MXU) -> float:
    return sum(
        kernel.schedule.busy.get(unit.value, 0) / chips.named(kernel.chip).clock
        for kernel in kernels
        if kernel.schedule
    )


def _waiting(kernels: Sequence[Prediction]) -> float:
    return sum(
        kernel.schedule.stalled / chips.named(kernel.chip).clock
        for kernel in kernels
        if kernel.schedule
    )


def _vmem(kernels: Sequence[Prediction]) -> float:
    return max(kernel.vmem.used if kernel.vmem else kernel.traffic.vmem for kernel in kernels)


def _vmem_limit(kernels: Sequence[Prediction]) -> float:
    return max(limit_of(kernel.call, chips.named(kernel.chip)) for kernel in kernels)


def _steps(kernels: Sequence[Prediction]) -> float:
    return sum(math.prod(size or 0 for size in kernel.call.grid) for kernel in kernels)


def _share(kernels: Sequence[Prediction]) -> float:
    moving = sum(kernel.bytes / kernel.sharing / kernel.bandwidth for kernel in kernels)
    return moving / _seconds(kernels)


_OF_KERNELS: dict[str, Callable[..., float]] = {
    "time": _seconds,
    "moved": _bytes,
    "written": _written,
    "busy": _busy,
    "waiting": _waiting,
    "vmem_used": _vmem,
    "vmem_limit": _vmem_limit,
    "steps": _steps,
    "share": _share,
}


def main(names: Sequence[str]) -> None:
    """Print the quantities and the entries of some katas, or of a track."""
    importlib.import_module("tests.conftest")  # sets the environment of workers: other random bits
    for kata in katas(ROOT, "solutions"):
        if kata.name not in names and kata.track not in names:
            continue
        words = explanation(kata.solution.read_text("utf-8"))
        table = tables(kata.track).get(kata.name, Table())
        print(f"\n{kata.track} {kata.name}: {_case(kata, assignments(table.sizes.split()))}")
        values = Names(kata, table)
        for entry in table.entries:
            begin = time.perf_counter()
            try:
                value = values.value(entry)
                wrong = differs(entry, value, words)
            except NumberProblem as error:
                print(f"  ERROR {error}")
                continue
            unit, taken = entry.quantity["unit"], time.perf_counter() - begin
            right = f"{value / UNITS[unit]:.6g} {unit}"
            print(f"  {'WRONG' if wrong else 'ok   '} {entry.text!r:32} {right:16} {taken:.1f} s")
        for text in not_there(words, table):
            print(f"  NOT THERE {text!r}")
        for text in not_covered(words, table):
            print(f"  no entry: {text}")


if __name__ == "__main__":
    main(sys.argv[1:])
