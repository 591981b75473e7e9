"""Studies for `kata cost`: predicted cost at any size, with par's and XLA's, time limits; and for
`kata measure`: times on this machine's TPU.

A size that the answer key draws only as a multiple of a block size must remain one, and the
solution's launch must reach all of its arrays: at other sizes the solution is wrong too, so its
cost means nothing. This module doesn't check values."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grader.exercise.answer_key import DTYPES, Key, Slack
from grader.exercise.arithmetic import factors
from grader.exercise.cases import draw, hidden_cases
from grader.exercise.catalog import Kata
from grader.exercise.key_tables import KataKind
from grader.exercise.targets import GPUS
from grader.sandbox import devices
from grader.sandbox.client import WorkerClient
from grader.sandbox.gpu_runs import GpuRunner
from grader.sandbox.launch_client import BrokenKata, TpuLaunchClient, WorkerQueues
from grader.sandbox.launcher import SandboxError
from grader.sandbox.messages import Traced
from grader.sandbox.worker_pool import WorkerPool
from grader.verdict import Case
from pallascope.checks.exceptions import NO_KERNEL, in_full, outcome_of, problem_finding
from pallascope.model import (
    Accident,
    Array,
    Collective,
    Measured,
    Mode,
    Operand,
    Reference,
    Role,
)
from pallascope.tools.arrays import drawn_like
from pallascope.tpu import OnChip
from pallascope.tpu.call_arguments import size
from pallascope.tpu.chips import DEFAULT
from pallascope.tpu.launch_screen import Launch, Side
from pallascope.tpu.measure import LocalTpu, MeasuredSide
from pallascope.tpu.pipeline_steps import BlockMotion, LaunchMotion
from pallascope.tpu.sweep import SweepRow


def misfit_reason(client: WorkerClient, kata: Kata, case: Case) -> str:
    """Why the kata's launch doesn't support the sizes of a case, as a sentence; "" if it does.

    Raises SandboxError.
    """
    why = no_multiple(kata.key, case.sizes)
    if why or not kata.key.target.uses_libtpu:  # other kernels have no index maps to look at
        return why
    return unreached_blocks(client, kata, case)


def no_multiple(key: Key, sizes: Mapping[str, int]) -> str:
    """A sentence about a size that isn't the multiple that it must be; "" if all sizes fit."""
    for name, choices in key.choices.items():
        texts = [choice for choice in choices if isinstance(choice, str)]
        if len(texts) < len(choices):
            continue
        common = sorted(frozenset.intersection(*map(factors, texts)))
        unit = math.prod(sizes[factor] for factor in common)
        if common and (sizes[name] % unit or not sizes[name]):
            product = "*".join(common)
            return (
                f"{name} = {sizes[name]} isn't a multiple of {product} = {unit}, but the launch "
                f"needs one. Choose another {name}, or also another {' and '.join(common)}"
            )
    return ""


def unreached_blocks(client: WorkerClient, kata: Kata, case: Case) -> str:
    """Why the solution itself is wrong at the sizes of a case, as a sentence; "" if its index maps
    show no fault. Raises SandboxError."""
    try:
        reference = client.inputs(kata, case)
        followed = client.solution(kata, case, reference, kind=TpuLaunchClient).followed()
    except BrokenKata as broken:
        return f"the solution fails at these sizes: {_last_line(str(broken))}"
    if isinstance(followed, Accident):
        return ""
    if followed.problem:
        told = in_full(problem_finding(followed.problem, "")).splitlines()
        error = next((line for line in told if line.lstrip().startswith("error")), told[0])
        return f"the solution doesn't accept these sizes: {' '.join(error.split()[1:])}"
    return next(_left_out(followed), "")


def _left_out(followed: LaunchMotion) -> Iterator[str]:
    """A sentence for each operand that the blocks don't cover."""
    for motion in followed.kernels:
        if 0 in motion.call.grid:
            grid = "×".join(map(str, motion.call.grid))
            yield f"the solution's grid would be {grid}, which has no steps: a block is too large"
        for position, operand in enumerate(motion.call.operands):
            for axis, (end, extent) in enumerate(_ends(motion, position, operand)):
                block = operand.block[axis] or 1
                # A kernel may leave out whole blocks of an input, but not a part of a block.
                whole = operand.role is Role.OUTPUT and not operand.aliased
                if end < extent and (whole or extent % block):
                    yield (
                        f"the solution's blocks of {block} reach only {end} of the {extent} "
                        f"elements of {operand.name} along dimension {axis}: give a multiple "
                        f"of {block}"
                    )


def _ends(motion: BlockMotion, position: int, operand: Operand) -> list[tuple[int, int]]:
    """For each dimension, the end of the last block, and the size; [] if it is unknown."""
    path = motion.paths[position]
    if path is None or motion.shown < motion.steps or operand.element:
        return []
    sizes = operand.array.shape
    rank = len(sizes)
    return [
        (max((s + (operand.block[axis] or 1) for s in path.starts[axis::rank]), default=0), size)
        for axis, size in enumerate(sizes)
    ]


def _last_line(text: str) -> str:
    return text.strip().splitlines()[-1].strip()


#: Seconds for one launch: the largest kernels take the compiler about a minute.
PATIENCE = 300.0
DTYPE = "dtype"
MISFIT = "does not fit these sizes"
#: Why a kata has no launch to study.
NO_LAUNCH = {
    KataKind.TABLES: "is plain jax.numpy, without a kernel: nothing to predict",
    KataKind.PREDICTIONS: "asks for numbers, without a kernel: kata cost shows XLA's programs",
    KataKind.TEST: "asks for a test, without a kernel of yours: run pytest to grade the test",
}


class NoStudy(ValueError):
    """There is no such case, or no such launch. The text says why."""


@contextlib.contextmanager
def study_client(chip: str | None, gpu: str = GPUS[0]) -> Iterator[WorkerClient]:
    """A client for launches on one chip; None for the chip that a kata is judged on by default.

    Launches for GPUs use `gpu`. Raises NoStudy if no process starts.
    """
    pool = WorkerPool(devices.choose(Mode.STRICT.value, devices.Hardware(tpu=False, gpu=False)))
    try:
        chips, literally = (chip or DEFAULT,), chip is not None
        runners = {"gpu": GpuRunner()}  # looks for a GPU when it gets its first launch
        yield WorkerClient(WorkerQueues(pool), chips, literally=literally, gpu=gpu, runners=runners)
    except (BrokenKata, SandboxError) as error:
        raise NoStudy(str(error)) from None
    finally:
        pool.close()


# ---- the case ----


def case_of(kata: Kata, index: int | None, seed: int, given: Mapping[str, str]) -> Case:
    """A hidden case of the kata, with the sizes and the dtype that are `given`.

    Without an `index`, this is the case of production size, or else the first. Sizes that the key
    computes from others use the given values. Raises NoStudy for an unknown name, an invalid value,
    an index without a case, or a kata without a kernel.
    """
    if kata.key.kind in NO_LAUNCH:
        raise NoStudy(f"{kata.name} {NO_LAUNCH[kata.key.kind]}")
    return any_case_of(kata, index, seed, given)


def any_case_of(kata: Kata, index: int | None, seed: int, given: Mapping[str, str]) -> Case:
    """The same for a kata of any kind. Raises NoStudy."""
    for name in given:
        if name not in (*kata.key.choices, DTYPE):
            raise NoStudy(f"{kata.name} has no size {name!r}, only {names_of(kata)}")
    # Some numbers aren't sizes, such as that of a pattern: 0 is one of their choices.
    sizes = {
        name: 0 if text == "0" and 0 in kata.key.choices[name] else size(name, text)
        for name, text in given.items()
        if name != DTYPE
    }
    cases = draw(kata.id, kata.key, seed, sizes)
    if index is None:
        index = len(cases) - 1 if cases[-1].production else 0
    if index not in range(len(cases)):
        raise NoStudy(f"{kata.name} has cases 0 to {len(cases) - 1}, not {index}")
    dtype = given.get(DTYPE, cases[index].dtype)
    if dtype not in DTYPES:
        raise NoStudy(f"no dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    return dataclasses.replace(cases[index], dtype=dtype)


def fits(client: WorkerClient, kata: Kata, case: Case) -> None:
    """Raise NoStudy if the kata's launch doesn't support these sizes."""
    if why := misfit_reason(client, kata, case):
        raise NoStudy(f"{kata.name} with {case}: {why}")


def names_of(kata: Kata) -> str:
    """The names that may be given a value: "bm, M, dtype"."""
    return ", ".join((*kata.key.choices, DTYPE))


def common(sizes: Sequence[int]) -> int:
    """A size that represents several: a common multiple, or the largest if that is too large."""
    multiple, largest = math.lcm(*sizes), max(sizes)
    return multiple if multiple <= 16 * largest else largest


# ---- one launch, or many ----


def study(client: WorkerClient, kata: Kata, case: Case, events: int = 0) -> Launch:
    """The learner's launch in one case, with par and XLA. Raises BrokenKata, SandboxError."""
    chip = client.chip(kata)
    reference = client.inputs(kata, case)
    own = client.learner(kata, case, reference, PATIENCE, events, TpuLaunchClient)
    par = client.solution(kata, case, reference, events, TpuLaunchClient)
    par.begin_compiling()
    file, _ = kata.location()
    return Launch(
        name=kata.name,
        drawn=str(case),
        chip=chip,
        own=side_of("yours", own.compiled(), chip, file),
        par=_par(par.compiled(), chip),
        xla=client.xla(kata, case, reference),
        notes=(
            _limits(kata.key.slack),
            f"This doesn't check correctness: pytest -k {kata.name}",
            f"at other sizes: kata cost {kata.name} NAME=VALUE …, with {names_of(kata)}",
        ),
    )


def _limits(slack: Slack) -> str:
    return (
        f"★★★ allows at most {slack.bytes:.0%} more HBM bytes than par, and a time that is at most "
        f"{slack.cycles:.0%} longer"
    )


def measure(
    client: WorkerClient, kata: Kata, case: Case, tpu: LocalTpu
) -> tuple[MeasuredSide, ...]:
    """The times of the solution and the learner's launch on this machine's TPU, and predicted.

    All are measured before any is predicted, so that nothing else runs then. `tpu` is closed in
    between. Raises BrokenKata, NoStudy, NoTpu, SandboxError.
    """
    if kata.key.mesh:
        raise NoStudy(f"{kata.name} runs on several TPUs, and kata measure uses only one")
    reference, chip = client.inputs(kata, case), client.chip(kata)
    contents = _contents(client, kata, case, reference)
    launches = {
        "solution": client.solution(kata, case, reference, kind=TpuLaunchClient),
        "yours": client.learner(kata, case, reference, PATIENCE, kind=TpuLaunchClient),
    }
    times = {
        title: tpu.measure(traced.trace, contents)
        for title, launch in launches.items()
        if isinstance(traced := launch.traced, Traced) and not traced.problem
    }
    tpu.close()
    file, _ = kata.location()
    sides: list[MeasuredSide] = []
    for title, launch in launches.items():
        side = side_of(title, launch.compiled(), chip, file)
        if title in times:
            sides.append(MeasuredSide.of(side, times[title]))
        else:
            trouble = "Still to do." if side.todo else side.trouble
            sides.append(MeasuredSide(title, trouble=trouble, todo=side.todo))
    return tuple(sides)


def _contents(
    client: WorkerClient, kata: Kata, case: Case, reference: Reference
) -> tuple[Array, ...]:
    """The inputs; large ones have contents that are drawn from those of a hidden case."""
    if all(own.data for own in reference.inputs):
        return reference.inputs
    hidden = hidden_cases(kata, case.session_seed)[kata.key.count - 1]
    like = client.reference(kata, hidden)  # `inputs` would leave out contents
    return tuple(
        own if own.data else drawn_like(other, own.dtype, case.seed + at)
        for at, (own, other) in enumerate(zip(reference.inputs, like.inputs, strict=True))
    )


def baselines(client: WorkerClient, kata: Kata, case: Case) -> Measured:
    """XLA's costs for the programs that a kata asks about. Raises BrokenKata, NoStudy."""
    found = client.baselines(kata, case)
    if isinstance(found, Accident):
        raise NoStudy(f"{kata.name}: {found.phrase}")
    return found


def sweep(
    client: WorkerClient, kata: Kata, case: Case, sizes: Iterable[dict[str, int]]
) -> Iterator[tuple[SweepRow, bool]]:
    """The launch's costs with each of these sizes instead of the case's, and whether they are
    par's, because the kata is still a stub. Raises BrokenKata, SandboxError."""
    file, _ = kata.location()
    for chosen in sizes:
        other = dataclasses.replace(case, sizes={**case.sizes, **chosen})
        if misfit_reason(client, kata, other):
            yield SweepRow(chosen, (), MISFIT), False
            continue
        reference = client.inputs(kata, other)
        own = client.learner(kata, other, reference, PATIENCE, kind=TpuLaunchClient)
        found = own.compiled()
        todo = _todo(found)
        if todo:
            found = client.solution(kata, other, reference, kind=TpuLaunchClient).compiled()
        told = outcome_of(found, client.chip(kata), file)
        phrase = told.trouble.phrase if told.trouble else ""
        yield SweepRow(chosen, told.kernels, phrase or ("" if told.kernels else NO_KERNEL)), todo


def side_of(title: str, found: OnChip | Accident, chip: str, file: str) -> Side:
    """One launch for the screen; if the chip can't run it, with the whole explanation."""
    if _todo(found):
        return Side(title, trouble="Still to do. The cost of par:", todo=True)
    told = outcome_of(found, chip, file)
    if told.trouble:
        return Side(title, trouble=in_full(told.trouble))
    if not told.kernels:
        return Side(title, trouble=f"The launch has {NO_KERNEL}, so it has no kernel.")
    refusals = tuple(in_full(finding) if finding else "" for finding in told.refusals)
    return Side(title, told.kernels, refusals=refusals, collectives=_around(found))


def faultless(launch: Launch) -> bool:
    """Whether the learner's launch has no known fault."""
    own = launch.own
    return own.todo or not (own.trouble or any(own.refusals))


def _par(found: OnChip | Accident, chip: str) -> Side:
    """Par for the screen; if the chip can't run it, with a short reason."""
    told = outcome_of(found, chip, "")
    faults = [told.trouble, *told.refusals]
    if fault := next((finding for finding in faults if finding), None):
        return Side("par", trouble=fault.phrase)
    return Side("par", told.kernels, collectives=_around(found))


def _around(found: OnChip | Accident) -> tuple[Collective, ...]:
    return found.collectives if isinstance(found, OnChip) else ()


def _todo(found: OnChip | Accident) -> bool:
    return isinstance(found, OnChip) and bool(found.problem and found.problem.todo)
