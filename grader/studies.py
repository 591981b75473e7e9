"""What a kata's launch would cost on a TPU, at any size: asked of worker processes, made ready to
be drawn. The values are not looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grader import devices
from grader.cases import draw
from grader.catalog import Kata
from grader.checks import blocks, compiles, lowers, runs
from grader.grading import BrokenKata, Grader
from grader.keys import DTYPES
from grader.model import Accident, Case, Finding, Mode, Problem, Stage
from grader.sandbox.bench import Bench
from grader.sandbox.launcher import SandboxError
from grader.tpu import OnChip
from grader.tpu.asking import size
from grader.tpu.screen import Launch, Side, Tried

#: Seconds for one launch: the largest kernels take the compiler about a minute.
PATIENCE = 300.0
DTYPE = "dtype"
NO_KERNEL = "no pallas_call"
_CLAIM = "The values are right"  # begins a finding of the ladder's; here nobody has looked


class NoStudy(ValueError):
    """The case can't be had, or nothing can be compared with: the text says why."""


@contextlib.contextmanager
def studio(chip: str) -> Iterator[Grader]:
    """A grader to study with, for one chip. Raises NoStudy where no process starts."""
    bench = Bench(devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False)))
    try:
        yield Grader(bench, (chip,))
    except (BrokenKata, SandboxError) as error:
        raise NoStudy(str(error)) from None
    finally:
        bench.close()


# ---- the case ----


def case_of(kata: Kata, index: int, seed: int, given: Mapping[str, str]) -> Case:
    """A hidden case of the kata's with other sizes, or another dtype, where they are given.

    Sizes that the key computes from others follow these. Raises NoStudy for an unknown name, a
    value that is none, or a case that is not there.
    """
    for name in given:
        if name not in (*kata.key.choices, DTYPE):
            raise NoStudy(f"{kata.name} has no size {name!r}, but {names_of(kata)}")
    sizes = {name: size(name, text) for name, text in given.items() if name != DTYPE}
    if not kata.key.kernel:
        raise NoStudy(f"{kata.name} is plain jax.numpy, without a kernel: nothing to predict")
    cases = draw(kata.id, kata.key, seed, sizes)
    if index not in range(len(cases)):
        raise NoStudy(f"{kata.name} has cases 0 to {len(cases) - 1}, not {index}")
    dtype = given.get(DTYPE, cases[index].dtype)
    if dtype not in DTYPES:
        raise NoStudy(f"no dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    return dataclasses.replace(cases[index], dtype=dtype)


def names_of(kata: Kata) -> str:
    """What may be given another value: "bm, M, dtype"."""
    return ", ".join((*kata.key.choices, DTYPE))


def common(sizes: Sequence[int]) -> int:
    """A size that stands for several in what is computed from it: each divides it, if it may be."""
    multiple, largest = math.lcm(*sizes), max(sizes)
    return multiple if multiple <= 16 * largest else largest


# ---- one launch, or many ----


def study(grader: Grader, kata: Kata, case: Case, chip: str, events: int = 0) -> Launch:
    """The learner's launch in one case, beside par and XLA. Raises BrokenKata, SandboxError."""
    reference = grader.inputs(kata, case)
    way = grader.way(kata, case, reference, PATIENCE, events)
    file, _ = kata.where()
    return Launch(
        name=kata.name,
        drawn=str(case),
        chip=chip,
        own=side_of("yours", way.own, chip, file),
        par=_par(way.par, chip),
        xla=grader.xla(kata, case, reference),
        notes=(
            f"right or wrong is not asked here: pytest -k {kata.name}",
            f"at other sizes: kata cost {kata.name} NAME=VALUE …, with {names_of(kata)}",
        ),
    )


def sweep(
    grader: Grader, kata: Kata, case: Case, chip: str, sizes: Iterable[dict[str, int]]
) -> Iterator[tuple[Tried, bool]]:
    """The launch with each of these sizes in place of the case's; True where it is par's.

    That of a kata that is still a stub is par's. Raises BrokenKata, SandboxError.
    """
    file, _ = kata.where()
    for chosen in sizes:
        other = dataclasses.replace(case, sizes={**case.sizes, **chosen})
        reference = grader.inputs(kata, other)
        found = grader.own(kata, other, reference, PATIENCE)
        todo = isinstance(found, OnChip) and bool(found.problem and found.problem.todo)
        if todo:
            found = grader.par(kata, other, reference)
        trouble = trouble_of(found, file)
        phrase = trouble.phrase if trouble else ""
        kernels = found.on(chip) if isinstance(found, OnChip) else ()
        yield Tried(chosen, kernels, phrase or ("" if kernels else NO_KERNEL)), todo


def side_of(title: str, found: OnChip | Accident, chip: str, file: str) -> Side:
    """One launch for the screen, with what keeps it from the chip in full."""
    if isinstance(found, OnChip) and found.problem and found.problem.todo:
        return Side(title, trouble="Still to do. This is what par takes:", todo=True)
    if trouble := trouble_of(found, file):
        return Side(title, trouble=_text(trouble))
    assert isinstance(found, OnChip)
    kernels = found.on(chip)
    if not kernels:
        return Side(title, trouble=f"The launch has {NO_KERNEL}: nothing of it is a kernel.")
    refused = [_text(compiles.finding_for([k], file)) if k.failure else "" for k in kernels]
    return Side(title, kernels, refusals=tuple(refused))


def _par(found: OnChip | Accident, chip: str) -> Side:
    """Par for the screen; what keeps it from the chip in short."""
    if trouble := trouble_of(found, ""):
        return Side("par", trouble=trouble.phrase)
    assert isinstance(found, OnChip)
    kernels = found.on(chip)
    if refused := [k for k in kernels if k.failure]:
        return Side("par", trouble=compiles.finding_for(refused, "").phrase)
    return Side("par", kernels)


def trouble_of(found: OnChip | Accident, file: str) -> Finding | None:
    """What keeps a launch from having any prediction."""
    if isinstance(found, Accident):
        return runs.ended(found, file)
    return refusal_of(found.problem, file) if found.problem else None


def refusal_of(problem: Problem, file: str) -> Finding:
    """Explain what was raised on the way to the chip: blocks first, they are told best."""
    if problem.call and (finding := blocks.finding_for([problem.call])):
        return finding
    if problem.kind == "NotLowered":
        return lowers.finding_for(problem, file)
    stage = Stage.TRACE if problem.stage is Stage.LOWER else problem.stage
    return runs.raised(dataclasses.replace(problem, stage=stage), file)


def _text(finding: Finding) -> str:
    head, _, rest = finding.message.partition("\n")
    if head.startswith(_CLAIM):
        head = f"{finding.phrase[0].upper()}{finding.phrase[1:]}."
    return f"{head}\n{rest}"
