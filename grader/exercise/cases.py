"""Draws hidden cases from an answer key and the session's seed.

Each name's choices are dealt like cards: shuffled, then handed out case by case, so that a list of
no more values than there are cases is covered whole in every session, whatever the seed. Where a
key has rows of several names, a row is one card.
"""

from __future__ import annotations

import hashlib
import random
import secrets
from collections.abc import Mapping, Sequence
from typing import TypeVar

from grader.exercise.answer_key import Choices, Key, Sizes
from grader.exercise.arithmetic import settle
from grader.exercise.catalog import Kata
from grader.exercise.key_reader import DTYPE, cards
from grader.exercise.key_tables import KeyProblem
from grader.verdict import Case

T = TypeVar("T")

SEED_BITS = 31


def random_seed() -> int:
    """A session seed, for a session that was given none."""
    return secrets.randbits(SEED_BITS)


def draw(
    kata: str, key: Key, session_seed: int, given: Mapping[str, int] | None = None
) -> tuple[Case, ...]:
    """The hidden cases of one kata: a function of its name, its key and the seed alone.

    Sizes that are `given` stand instead of those drawn; what is computed from them follows. The
    case of production size, if the key has one, is the last.
    Raises ValueError where arithmetic of the key gives no size.
    """
    deck = random.Random(_digest(f"{session_seed}/{kata}"))
    in_rows = any(DTYPE in names for names in key.together)
    columns = {**key.choices, DTYPE: key.dtypes} if in_rows else key.choices
    hands = _hands(deck, columns, key.together, key.count)
    dtypes = hands.get(DTYPE) or _deal(deck, key.dtypes, key.count)
    drawn = [
        ({n: hands[n][index] for n in key.choices}, str(dtypes[index]))
        for index in range(key.count)
    ]
    if key.production:
        own_deck = random.Random(_digest(f"{session_seed}/{kata}/production"))
        drawn.append(_one_of(key.production, own_deck))
    return tuple(
        Case(
            kata=kata,
            index=index,
            session_seed=session_seed,
            seed=_digest(f"{session_seed}/{kata}/{index}") % 2**SEED_BITS,
            sizes=settle({**sizes, **(given or {})}),
            dtype=dtype,
            production=index == key.count,
        )
        for index, (sizes, dtype) in enumerate(drawn)
    )


def hidden_cases(kata: Kata, session_seed: int) -> tuple[Case, ...]:
    """The hidden cases of a kata of the catalogue. Raises keys.KeyProblem."""
    try:
        return draw(kata.id, kata.key, session_seed)
    except KeyProblem:
        raise
    except ValueError as error:
        raise KeyProblem(kata.key_path, "cases", str(error)) from None


def _one_of(production: Sizes, deck: random.Random) -> tuple[dict[str, int | str], str]:
    hands = _hands(deck, production.choices, production.together, 1)
    return {name: hands[name][0] for name in production.choices}, deck.choice(production.dtypes)


def _hands(
    deck: random.Random, choices: Choices, together: Sequence[tuple[str, ...]], count: int
) -> dict[str, Sequence[int | str]]:
    """What each name is in each of so many cases."""
    hands: dict[str, Sequence[int | str]] = {}
    for names in sorted(cards(choices, together)):
        rows = list(zip(*(choices[name] for name in names), strict=True))
        dealt = _deal(deck, rows, count)
        hands |= dict(zip(names, zip(*dealt, strict=True), strict=True))
    return hands


def _digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _deal(deck: random.Random, items: Sequence[T], count: int) -> list[T]:
    hand: list[T] = []
    while len(hand) < count:
        hand += deck.sample(items, len(items))
    return hand[:count]
