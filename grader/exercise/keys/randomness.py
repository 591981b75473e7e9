"""[random] of an answer key: whose results are drawn at random, and are judged by their chances."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.keys.table import Table


@dataclass(frozen=True, slots=True)
class Randomness:
    """How a kata's results come about by chance.

    `seed` names the integers among the spec's inputs that all chance follows from. `names` are what
    an element is in its two outcomes ("dropped", "kept"). Results that stand in `same` together
    are drawn by the same bits. Where results are `exact`, each element is one of its outcomes to
    the last bit; otherwise it may be rounded as other results may.
    """

    seed: str
    names: tuple[str, str]
    same: tuple[tuple[int, ...], ...] = ()
    exact: bool = False


def randomness_of(source: Table) -> Randomness | None:
    """[random], or None. Raises KeyProblem."""
    if (table := source.data.get("random")) is None:
        return None
    if not isinstance(table, dict):
        raise source.fail("random", 'needs a table: seed = "seed", names = ["dropped", "kept"]')
    source.known(table, ["seed", "names", "same", "exact"], "random.")
    inner = Table(source.file, table)
    seed, names = table.get("seed"), inner.texts("names", ())
    if not isinstance(seed, str) or not seed.isidentifier():
        raise source.fail("random.seed", "needs the name of the spec's input that holds the seed")
    if len(names) != 2 or not all(name.strip() for name in names):
        raise source.fail("random.names", "needs two texts: what an element is in each outcome")
    exact = table.get("exact", False)
    if not isinstance(exact, bool):
        raise source.fail("random.exact", f"needs true or false, not {exact!r}")
    for name in ("kernel", "predictions", "tested"):
        if name in source.data:
            raise source.fail("random", f"means nothing beside {name}")
    return Randomness(seed, (names[0], names[1]), _same(source, table.get("same", [])), exact)


def _same(source: Table, groups: object) -> tuple[tuple[int, ...], ...]:
    wrong = source.fail("random.same", "needs lists of at least two results, as in [[0, 1]]")
    if not isinstance(groups, list):
        raise wrong
    for group in groups:
        numbers = isinstance(group, list) and all(type(n) is int and n >= 0 for n in group)
        if not numbers or len(set(group)) < 2:
            raise wrong
    return tuple(map(tuple, groups))
