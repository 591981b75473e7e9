"""Versions of a kernel under test as texts, and which of them a hidden case tries."""

from __future__ import annotations

import random

from grader.exercise.keys import Key, Planted
from grader.model import Case

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
