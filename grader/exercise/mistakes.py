"""Known mistakes as texts: the solution with one of them made, and which is likeliest meant."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from grader.exercise.keys import Mistake
from grader.exercise.regions import RegionError, regions

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
