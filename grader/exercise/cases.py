"""Deals an answer key's sizes and dtypes to hidden cases, by the session's seed.

Each name's choices are shuffled, then assigned case by case. So a list with at most as many values
as cases is covered completely in every session. A row of several names counts as one choice.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
import secrets
from collections.abc import Mapping, Sequence
from typing import TypeVar

from grader.exercise.answer_key import Choices, Key, Sizes
from grader.exercise.arithmetic import resolve_sizes
from grader.exercise.catalog import Kata
from grader.exercise.key_reader import DTYPE, name_groups
from grader.exercise.key_tables import KeyProblem
from grader.verdict import Case

T = TypeVar("T")

SEED_BITS = 31


def random_seed() -> int:
    """A random seed for a session."""
    return secrets.randbits(SEED_BITS)


def draw(
    kata: str, key: Key, session_seed: int, overrides: Mapping[str, int] | None = None
) -> tuple[Case, ...]:
    """The hidden cases of one kata, which depend only on its name, its key and the seed.

    Sizes in `overrides` replace the drawn ones, also in arithmetic over them. The case of
    production size, if the key has one, is the last. Raises ValueError if the key's arithmetic
    gives no valid size.
    """
    deck = random.Random(_digest(f"{session_seed}/{kata}"))
    dtype_in_rows = any(DTYPE in names for names in key.together)
    columns = {**key.choices, DTYPE: key.dtypes} if dtype_in_rows else key.choices
    hands = _draw_names(deck, columns, key.together, key.count)
    dtypes = hands.get(DTYPE) or _deal(deck, key.dtypes, key.count)
    drawn = [
        ({n: hands[n][index] for n in key.choices}, str(dtypes[index]))
        for index in range(key.count)
    ]
    if key.production:
        drawn.append(_draw_large(key.production, kata, session_seed))
    return tuple(
        Case(
            kata=kata,
            index=index,
            session_seed=session_seed,
            seed=_digest(f"{session_seed}/{kata}/{index}") % 2**SEED_BITS,
            sizes=resolve_sizes({**sizes, **(overrides or {})}),
            dtype=dtype,
            production=index == key.count,
        )
        for index, (sizes, dtype) in enumerate(drawn)
    )


def hidden_cases(kata: Kata, session_seed: int) -> tuple[Case, ...]:
    """The hidden cases of a kata. Raises KeyProblem."""
    try:
        return draw(kata.id, kata.key, session_seed)
    except KeyProblem:
        raise
    except ValueError as error:
        raise KeyProblem(kata.key_path, "cases", str(error)) from None


def case_of_values(kata: Kata, case: Case) -> Case:
    """The case whose values stand for those of a case of production size: usually the same one."""
    if not kata.key.values:
        return case
    sizes, dtype = _draw_large(kata.key.values, kata.id, case.session_seed)
    return dataclasses.replace(case, sizes=resolve_sizes(sizes), dtype=dtype)


def _draw_large(large: Sizes, kata: str, session_seed: int) -> tuple[dict[str, int | str], str]:
    """The sizes and the dtype of a case of production size."""
    deck = random.Random(_digest(f"{session_seed}/{kata}/production"))
    hands = _draw_names(deck, large.choices, large.together, 1)
    return {name: hands[name][0] for name in large.choices}, deck.choice(large.dtypes)


def _draw_names(
    deck: random.Random, choices: Choices, together: Sequence[tuple[str, ...]], count: int
) -> dict[str, Sequence[int | str]]:
    """The value of each name in each of `count` cases."""
    values: dict[str, Sequence[int | str]] = {}
    for names in sorted(name_groups(choices, together)):
        rows = list(zip(*(choices[name] for name in names), strict=True))
        drawn = _deal(deck, rows, count)
        values |= dict(zip(names, zip(*drawn, strict=True), strict=True))
    return values


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _deal(deck: random.Random, items: Sequence[T], count: int) -> list[T]:
    hand: list[T] = []
    while len(hand) < count:
        hand += deck.sample(items, len(items))
    return hand[:count]
