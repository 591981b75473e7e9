"""Known mistakes, and versions of a kernel under test, as texts.

Known mistakes as texts: the solution with one of them made, and which is likeliest meant.

Versions of a kernel under test as texts, and which of them a hidden case tries.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

from grader.exercise.answer_key import Key, Mistake
from grader.exercise.key_tables import Planted
from grader.exercise.regions import RegionError, regions
from grader.verdict import Case

_TOKEN = re.compile(r"\w+|[^\w\s]")


def wrong_version(solution: str, mistake: Mistake) -> str:
    """The solution's text with the mistake made, inside its regions.

    Raises ValueError where `old` does not stand there exactly once.
    """
    lines = solution.splitlines(keepends=True)
    parts = ["".join(lines[region.begin : region.end - 1]) for region in regions(solution)]
    times = sum(part.count(mistake.old) for part in parts)
    if times != 1:
        raise ValueError(
            f"`old` of the mistake {mistake.title!r} stands {times} times in the solution's regions"
        )
    part = next(part for part in parts if mistake.old in part)
    return solution.replace(part, part.replace(mistake.old, mistake.new))


def likeliest(
    written: str, solution: str, mistakes: Sequence[Mistake]
) -> tuple[tuple[Mistake, str], ...]:
    """Mistakes and their wrong versions, the one first to which the text `written` comes nearest.

    What a mistake adds to the solution and the text holds too counts for it, and so does what it
    takes away and the text lacks. Those whose `old` cannot be found are left out.
    """
    right, present = _pieces(solution), _pieces(written)
    more, less = present - right, right - present

    def fits(version: str) -> tuple[float, int]:
        """Which part of what it changes is changed in the text too, and how much that is."""
        made = _pieces(version)
        added, removed = made - right, right - made
        same = (added & more).total() + (removed & less).total()
        return same / ((added + removed).total() or 1), same

    found: list[tuple[Mistake, str]] = []
    for mistake in mistakes:
        try:
            found.append((mistake, wrong_version(solution, mistake)))
        except ValueError:
            continue
    return tuple(sorted(found, key=lambda pair: fits(pair[1]), reverse=True))


def _pieces(text: str) -> Counter[tuple[str, ...]]:
    """All runs of three tokens in a text's solution regions; in all of it where it has none.

    And all lines: of two that exchange a few tokens, the runs stay what they were.
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


#: The kernel under test as it stands in the file.
AS_GIVEN = Planted("stands in the file", "", "", right=True)


def dealt(key: Key, case: Case) -> tuple[Planted, ...]:
    """The kernels that a case shows to a test, in an order that says nothing of them.

    All cases of a session together show every planted one, each once, and each case the one that
    is given.
    """
    assert key.tested
    deck = random.Random(f"{case.kata}/{case.session_seed}")
    wrong = [one for one in key.tested.planted if not one.right]
    right = [one for one in key.tested.planted if one.right]
    deck.shuffle(wrong)
    deck.shuffle(right)
    hand = [*wrong[case.index :: key.count], *right[case.index :: key.count], AS_GIVEN]
    random.Random(case.seed).shuffle(hand)
    return tuple(hand)


def version(solution: str, planted: Planted) -> str:
    """The solution's text with a planted kernel in place of the one under test.

    Raises ValueError where `old` does not stand there exactly once.
    """
    if planted == AS_GIVEN:
        return solution
    if (times := solution.count(planted.old)) != 1:
        raise ValueError(
            f"`old` of the planted kernel {planted.title!r} stands {times} times in the solution"
        )
    return solution.replace(planted.old, planted.new)
