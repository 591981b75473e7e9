"""What a kata's launch would cost on a TPU, at any size: asked of worker processes, made ready to
be drawn. The values are not looked at."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grader.checks.outcome import NO_KERNEL, in_full, outcome_of
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.exercise.keys import DTYPES, GPUS, Kind, Slack
from grader.grading import fitting
from grader.model import Accident, Case, Collective, Measured, Mode
from grader.sandbox import devices
from grader.sandbox.asking import Asking, BrokenKata, Lines
from grader.sandbox.bench import Bench
from grader.sandbox.launcher import SandboxError
from grader.sandbox.on_hardware import OnHardware
from grader.tpu import OnChip
from grader.tpu.arguments import size
from grader.tpu.chips import DEFAULT
from grader.tpu.screen import Launch, Side, Tried

#: Seconds for one launch: the largest kernels take the compiler about a minute.
PATIENCE = 300.0
DTYPE = "dtype"
MISFIT = "does not fit these sizes"
#: Why there is no launch of the learner's to look at.
NO_LAUNCH = {
    Kind.TABLES: "is plain jax.numpy, without a kernel: nothing to predict",
    Kind.PREDICTIONS: "asks for numbers, without a kernel: kata cost shows XLA's programs",
    Kind.TEST: "asks for a test, without a kernel of yours: pytest says what it finds",
}


class NoStudy(ValueError):
    """The case can't be had, or nothing can be compared with: the text says why."""


@contextlib.contextmanager
def studio(chip: str | None, gpu: str = GPUS[0]) -> Iterator[Asking]:
    """Whom to ask about launches on one chip; None for that on which a kata is judged by default.

    Those for GPUs are asked about on `gpu`.

    Raises NoStudy where no process starts.
    """
    bench = Bench(devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False)))
    try:
        hardware = OnHardware()  # looks for a GPU once it is asked about a launch for one
        chips, literally = (chip or DEFAULT,), chip is not None
        yield Asking(Lines(bench), chips, literally=literally, gpu=gpu, hardware=hardware)
    except (BrokenKata, SandboxError) as error:
        raise NoStudy(str(error)) from None
    finally:
        bench.close()


# ---- the case ----


def case_of(kata: Kata, index: int | None, seed: int, given: Mapping[str, str]) -> Case:
    """A hidden case of the kata's with other sizes, or another dtype, where they are given.

    Without an `index`, it is that of production size, or else the first. Sizes that the key
    computes from others follow those given. Raises NoStudy for an unknown name, a value that is
    none, a case that is not there, or a kata without a kernel.
    """
    if kata.key.kind in NO_LAUNCH:
        raise NoStudy(f"{kata.name} {NO_LAUNCH[kata.key.kind]}")
    return any_case_of(kata, index, seed, given)


def any_case_of(kata: Kata, index: int | None, seed: int, given: Mapping[str, str]) -> Case:
    """The same of a kata of any kind. Raises NoStudy."""
    for name in given:
        if name not in (*kata.key.choices, DTYPE):
            raise NoStudy(f"{kata.name} has no size {name!r}, but {names_of(kata)}")
    sizes = {name: size(name, text) for name, text in given.items() if name != DTYPE}
    cases = draw(kata.id, kata.key, seed, sizes)
    if index is None:
        index = len(cases) - 1 if cases[-1].production else 0
    if index not in range(len(cases)):
        raise NoStudy(f"{kata.name} has cases 0 to {len(cases) - 1}, not {index}")
    dtype = given.get(DTYPE, cases[index].dtype)
    if dtype not in DTYPES:
        raise NoStudy(f"no dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    return dataclasses.replace(cases[index], dtype=dtype)


def fits(asking: Asking, kata: Kata, case: Case) -> None:
    """Raise NoStudy where the kata's launch is not made for these sizes."""
    if why := fitting.misfit(asking, kata, case):
        raise NoStudy(f"{kata.name} with {case}: {why}")


def names_of(kata: Kata) -> str:
    """What may be given another value: "bm, M, dtype"."""
    return ", ".join((*kata.key.choices, DTYPE))


def common(sizes: Sequence[int]) -> int:
    """A size that stands for several in what is computed from it: each divides it, if it may be."""
    multiple, largest = math.lcm(*sizes), max(sizes)
    return multiple if multiple <= 16 * largest else largest


# ---- one launch, or many ----


def study(asking: Asking, kata: Kata, case: Case, events: int = 0) -> Launch:
    """The learner's launch in one case, beside par and XLA. Raises BrokenKata, SandboxError."""
    chip = asking.chip(kata)
    reference = asking.inputs(kata, case)
    asking.begin_par(kata, case, reference, events)
    own = asking.own(kata, case, reference, PATIENCE, events)
    file, _ = kata.where()
    return Launch(
        name=kata.name,
        drawn=str(case),
        chip=chip,
        own=side_of("yours", own, chip, file),
        par=_par(asking.par(kata, case, reference, events), chip),
        xla=asking.xla(kata, case, reference),
        notes=(
            _limits(kata.key.slack),
            f"right or wrong is not asked here: pytest -k {kata.name}",
            f"at other sizes: kata cost {kata.name} NAME=VALUE …, with {names_of(kata)}",
        ),
    )


def _limits(slack: Slack) -> str:
    return (
        f"★★★ allows at most {slack.bytes:.0%} more HBM bytes than par, and a time that is at most "
        f"{slack.cycles:.0%} longer"
    )


def baselines(asking: Asking, kata: Kata, case: Case) -> Measured:
    """What XLA makes of the programs about which a kata asks. Raises BrokenKata, NoStudy."""
    found = asking.baselines(kata, case)
    if isinstance(found, Accident):
        raise NoStudy(f"{kata.name}: {found.phrase}")
    return found


def sweep(
    asking: Asking, kata: Kata, case: Case, sizes: Iterable[dict[str, int]]
) -> Iterator[tuple[Tried, bool]]:
    """The launch with each of these sizes in place of the case's; True where it is par's.

    That of a kata that is still a stub is par's. Raises BrokenKata, SandboxError.
    """
    file, _ = kata.where()
    for chosen in sizes:
        other = dataclasses.replace(case, sizes={**case.sizes, **chosen})
        if fitting.misfit(asking, kata, other):
            yield Tried(chosen, (), MISFIT), False
            continue
        reference = asking.inputs(kata, other)
        found = asking.own(kata, other, reference, PATIENCE)
        todo = _todo(found)
        if todo:
            found = asking.par(kata, other, reference)
        told = outcome_of(found, asking.chip(kata), file)
        phrase = told.trouble.phrase if told.trouble else ""
        yield Tried(chosen, told.kernels, phrase or ("" if told.kernels else NO_KERNEL)), todo


def side_of(title: str, found: OnChip | Accident, chip: str, file: str) -> Side:
    """One launch for the screen, with what keeps it from the chip in full."""
    if _todo(found):
        return Side(title, trouble="Still to do. This is what par takes:", todo=True)
    told = outcome_of(found, chip, file)
    if told.trouble:
        return Side(title, trouble=in_full(told.trouble))
    if not told.kernels:
        return Side(title, trouble=f"The launch has {NO_KERNEL}: nothing of it is a kernel.")
    refusals = tuple(in_full(finding) if finding else "" for finding in told.refusals)
    return Side(title, told.kernels, refusals=refusals, collectives=_around(found))


def faultless(launch: Launch) -> bool:
    """Whether there is no fault in the learner's launch, as far as it could be looked at."""
    own = launch.own
    return own.todo or not (own.trouble or any(own.refusals))


def _par(found: OnChip | Accident, chip: str) -> Side:
    """Par for the screen; what keeps it from the chip in short."""
    told = outcome_of(found, chip, "")
    faults = [told.trouble, *told.refusals]
    if fault := next((finding for finding in faults if finding), None):
        return Side("par", trouble=fault.phrase)
    return Side("par", told.kernels, collectives=_around(found))


def _around(found: OnChip | Accident) -> tuple[Collective, ...]:
    return found.collectives if isinstance(found, OnChip) else ()


def _todo(found: OnChip | Accident) -> bool:
    return isinstance(found, OnChip) and bool(found.problem and found.problem.todo)
