"""What a session's grades add to the ledger. Nothing that goes wrong here costs a grade."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grader.exercise.catalog import Kata
from grader.exercise.catalog import katas as all_katas
from grader.exercise.keys import KeyProblem
from grader.model import Check, Conditions, Grade, Mode, State
from grader.record import ledger
from grader.record.ledger import LEDGER, Pass
from grader.tools.versions import versions
from grader.tpu.chips import with_cores


@dataclass(frozen=True, slots=True)
class NewPasses:
    """The passes that were new to the ledger; `trouble` says why they are not in it now.

    `warnings` are those of the ledger's own lines. `first` are the ids of the katas that it knew no
    pass of.
    """

    passes: tuple[Pass, ...] = ()
    trouble: str = ""
    warnings: tuple[str, ...] = ()
    first: tuple[str, ...] = ()


#: What judged, as the ledger names it, and the package that it is.
_JUDGES = {"grader": "pallas-katas", "jax": "jax", "libtpu": "libtpu"}


def record_session(root: Path, grades: Sequence[Grade], conditions: Conditions) -> NewPasses:
    """Record the passes among a whole session's grades."""
    if not any(grade.state is State.PASSED for grade in grades):
        return NewPasses()
    installed = versions()
    judges = {name: installed[package] for name, package in _JUDGES.items()}
    today = datetime.date.today()
    solved = solved_passes(all_katas(root), grades, today, judges, conditions)
    graded = {grade.kata for grade in grades}  # of others the keys need not be read
    in_any_mode = {kata.id for kata in all_katas(root) if kata.id in graded and _for_gpus(kata)}
    return record_passes(root, solved, conditions.device.mode, in_any_mode)


def solved_passes(
    katas: Iterable[Kata],
    grades: Sequence[Grade],
    day: datetime.date,
    judges: Mapping[str, str | None],
    conditions: Conditions,
) -> tuple[Pass, ...]:
    """One for each kata of which every hidden case ran and passed, all on the same content, and
    none with an accident.

    `judges` are what judged, by name, each with its version. Of the chips of the session, the one
    on which the kata's cost is judged counts, and of a kata for GPUs the GPU that it is for. libtpu
    counts as missing where it was not asked; `unjudged` names the first rung that could not be.
    """
    recorded = []
    for kata in katas:
        of_kata = [grade for grade in grades if grade.kata == kata.id]
        if not of_kata or not _solved(kata, of_kata):
            continue
        used = {**judges, "chip": _chip(kata, conditions)}
        if kata.key.gpu:
            used["libtpu"] = None
        if rungs := {grade.not_judged.check for grade in of_kata if grade.not_judged}:
            first = min(rungs, key=list(Check).index)
            used["libtpu"] = None if Check.COMPILES in rungs else used["libtpu"]
            used["unjudged"] = first.value
        named = tuple((name, version or "-") for name, version in used.items())
        stars = min(grade.stars for grade in of_kata)
        recorded.append(Pass(kata.id, of_kata[0].blob, stars, day, named))
    return tuple(recorded)


def _chip(kata: Kata, conditions: Conditions) -> str:
    if kata.key.gpu:
        return kata.key.gpu.only_on or conditions.gpu
    return with_cores(kata.key.cores, conditions.chips)[0]


def _for_gpus(kata: Kata) -> bool:
    try:
        return kata.key.gpu is not None
    except KeyProblem:
        return False


def _solved(kata: Kata, grades: Sequence[Grade]) -> bool:
    try:
        every = set(range(kata.key.total))
    except KeyProblem:
        return False
    blobs = {grade.blob for grade in grades}
    passed = all(grade.state is State.PASSED for grade in grades)
    if any(grade.accident for grade in grades):
        return False  # another run may give more stars
    if any(grade.not_judged and not grade.stars for grade in grades):
        return False  # nothing was judged, and nothing is known
    return passed and {grade.case for grade in grades} == every and len(blobs) == 1 and all(blobs)


def record_passes(
    root: Path, solved: Iterable[Pass], mode: Mode, in_any_mode: Collection[str] = ()
) -> NewPasses:
    """Append the passes that the ledger does not have yet.

    `in_any_mode` are the ids of katas that are run in the same way whatever the session's mode is.
    """
    known = ledger.read_ledger(root)
    new = tuple(passed for passed in solved if known.lacks(passed))
    if not new:
        return NewPasses()
    if mode is not Mode.STRICT:
        if not (kept := tuple(passed for passed in new if passed.kata in in_any_mode)):
            return NewPasses(new, f"--kata-mode {mode.value} forgives too much; strict records")
        new = kept
    try:
        ledger.append_passes(root, new)
    except OSError as error:
        return NewPasses(new, f"{LEDGER} is not writable ({error.strerror})")
    first = tuple(passed.kata for passed in new if known.last(passed.kata) is None)
    return NewPasses(new, "", known.warnings, first)
