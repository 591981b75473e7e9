"""Makes known mistakes and planted kernels from a solution; finds the mistakes nearest to a text.

It also finds the known mistakes that a learner's text resembles, and assigns the planted kernels
to the hidden cases.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

from grader.exercise.answer_key import Key, Mistake
from grader.exercise.key_tables import Planted
from grader.verdict import Case
from pallascope.tools.regions import RegionError, regions

_TOKEN = re.compile(r"\w+|[^\w\s]")


def wrong_version(solution: str, mistake: Mistake) -> str:
    """The solution's text with a mistake inside its regions.

    Raises ValueError unless `old` occurs there exactly once.
    """
    lines = solution.splitlines(keepends=True)
    parts = ["".join(lines[region.begin : region.end - 1]) for region in regions(solution)]
    times = sum(part.count(mistake.old) for part in parts)
    if times != 1:
        raise ValueError(
            f"`old` of the mistake {mistake.title!r} occurs {times} times in the solution's regions"
        )
    part = next(part for part in parts if mistake.old in part)
    return solution.replace(part, part.replace(mistake.old, mistake.new))


def is_known_mistake(text: str, solution: str, mistakes: Sequence[Mistake]) -> bool:
    """Whether a text is the solution's with one of these mistakes."""
    return any(text == wrong_version(solution, mistake) for mistake in mistakes)


def likeliest_mistakes(
    written: str, solution: str, mistakes: Sequence[Mistake]
) -> tuple[tuple[Mistake, str], ...]:
    """Mistakes and their wrong versions, sorted by similarity to the text `written`.

    The similarity counts the parts that both the mistake and the text add to the solution, or
    remove from it. Mistakes whose `old` can't be found are left out.
    """
    solution_runs, written_runs = _token_runs(solution), _token_runs(written)
    added_runs, removed_runs = written_runs - solution_runs, solution_runs - written_runs

    def similarity(version: str) -> tuple[float, int]:
        """The fraction of the mistake's changes that the text shares, and their number."""
        version_runs = _token_runs(version)
        added, removed = version_runs - solution_runs, solution_runs - version_runs
        same = (added & added_runs).total() + (removed & removed_runs).total()
        return same / ((added + removed).total() or 1), same

    versions: list[tuple[Mistake, str]] = []
    for mistake in mistakes:
        try:
            versions.append((mistake, wrong_version(solution, mistake)))
        except ValueError:
            continue
    return tuple(sorted(versions, key=lambda pair: similarity(pair[1]), reverse=True))


def _token_runs(text: str) -> Counter[tuple[str, ...]]:
    """All runs of three tokens, and all lines, in a text's regions, or in the text if it has none.

    Lines count because swapped tokens may leave the runs unchanged.
    """
    try:
        bodies = [region.body for region in regions(text)] or [text]
    except RegionError:
        bodies = [text]
    pieces: Counter[tuple[str, ...]] = Counter()
    for body in bodies:
        tokens = ["", *_TOKEN.findall(body), ""]
        pieces.update(zip(tokens, tokens[1:], tokens[2:], strict=False))
        pieces.update((line.strip(),) for line in body.splitlines())
    return pieces


#: The kernel under test, unchanged.
AS_GIVEN = Planted("stands in the file", "", "", right=True)


def planted_of_case(key: Key, case: Case) -> tuple[Planted, ...]:
    """The kernels that a case shows to a test, in random order.

    The cases of a session together show every planted kernel once, and each shows the given one.
    """
    assert key.tested
    deck = random.Random(f"{case.kata}/{case.session_seed}")
    wrong = [planted for planted in key.tested.planted if not planted.right]
    right = [planted for planted in key.tested.planted if planted.right]
    deck.shuffle(wrong)
    deck.shuffle(right)
    hand = [*wrong[case.index :: key.count], *right[case.index :: key.count], AS_GIVEN]
    random.Random(case.seed).shuffle(hand)
    return tuple(hand)


def planted_version(solution: str, planted: Planted) -> str:
    """The solution's text with a planted kernel instead of the one under test.

    Raises ValueError unless `old` occurs there exactly once.
    """
    if planted == AS_GIVEN:
        return solution
    if (times := solution.count(planted.old)) != 1:
        raise ValueError(
            f"`old` of the planted kernel {planted.title!r} occurs {times} times in the solution"
        )
    return solution.replace(planted.old, planted.new)
