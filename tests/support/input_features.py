"""Features of a kata's inputs if a pattern in them decides the results: masks, groups, scores."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from grader.exercise import specs
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata
from grader.verdict import Case
from pallascope.kernels.evaluator import retraced
from pallascope.kernels.jaxprs import primitives
from pallascope.tools.arrays import dtype_of

# ---- masks: which query sees which key ----


@dataclass(frozen=True, slots=True)
class Mask:
    """A mask bool[queries, keys] and its block sizes.

    For a kernel that loops over the queries of each key, the two are swapped.
    """

    sees: np.ndarray[Any, Any]
    bq: int
    bkv: int

    @property
    def active(self) -> Any:
        """bool[I, J]: the blocks in which some query sees some key."""
        return np.any(self._blocks(), (1, 3))

    @property
    def full(self) -> Any:
        """bool[I, J]: the blocks in which every query sees every key."""
        return np.all(self._blocks(), (1, 3))

    @property
    def corners(self) -> Any:
        """int[I, J]: the number of a block's four corners in which the query sees the key."""
        return np.sum(self._blocks()[:, :: self.bq - 1, :, :: self.bkv - 1], (1, 3))

    @property
    def partial(self) -> list[bytes]:
        """The contents of each partial block."""
        blocks = self._blocks().swapaxes(1, 2)
        return [block.tobytes() for block in blocks[self.active & ~self.full]]

    def turns(self) -> Iterator[list[bool]]:
        """For each query, whether it sees a key in each active block of its row of blocks."""
        seen = np.asarray(np.any(self._blocks(), 3))
        for rows, active in zip(seen, self.active, strict=True):
            yield from (row[active].tolist() for row in rows)

    def _blocks(self) -> np.ndarray[Any, Any]:
        rows, columns = self.sees.shape
        return self.sees.reshape(rows // self.bq, self.bq, columns // self.bkv, self.bkv)


MASKS: Mapping[str, Callable[[Mask], bool]] = {
    "a full block": lambda mask: bool(mask.full.any()),
    "a partial block": lambda mask: bool((mask.active & ~mask.full).any()),
    "an empty block": lambda mask: not mask.active.all(),
    "a block of queries that sees no block": lambda mask: not mask.active.any(1).all(),
    # Its scores are all masked: a mask value that is not below the initial maximum counts them.
    "a query without a key in a row of blocks with work": lambda mask: any(
        turns and not any(turns) for turns in mask.turns()
    ),
    "a query whose first block of work has no key for it, and a later one has": lambda mask: any(
        any(turns) and not turns[0] for turns in mask.turns()
    ),
    "a query whose last block of work has no key for it, and an earlier one has": lambda mask: any(
        any(turns) and not turns[-1] for turns in mask.turns()
    ),
}

#: What decides about tables that are made of a mask, beside what it holds.
BLOCKS: Mapping[str, Callable[[Mask], bool]] = {
    "a partial block that sees nothing in its corners": lambda mask: bool(
        (mask.active & (mask.corners == 0)).any()
    ),
    "a partial block that sees everything in its corners": lambda mask: bool(
        (~mask.full & (mask.corners == 4)).any()
    ),
    "two equal partial blocks": lambda mask: len(set(mask.partial)) < len(mask.partial),
    "two partial blocks that differ": lambda mask: len(set(mask.partial)) > 1,
    "an empty block before one with work": lambda mask: bool(
        (~mask.active[:, :-1] & mask.active[:, 1:]).any()
    ),
    "no partial block": lambda mask: not mask.partial,
    "a partial block after a full one": lambda mask: bool(
        (mask.full[:, :-1] & (mask.active & ~mask.full)[:, 1:]).any()
    ),
}

# ---- groups of rows, and the tiles that they lie in ----


@dataclass(frozen=True, slots=True)
class Groups:
    """The offsets of groups of rows, the rows of a tile, and all rows, if some are in no group."""

    offsets: Sequence[int]
    tm: int
    rows: int = 0

    @property
    def sizes(self) -> list[int]:
        return [end - start for start, end in pairwise(self.offsets)]

    @property
    def cuts(self) -> list[int]:
        """The first rows of groups with rows, except row 0."""
        return [o for o, size in zip(self.offsets, self.sizes, strict=False) if o and size]

    def in_tile(self, tile: int) -> int:
        """The number of groups with rows in a tile."""
        first, end = tile * self.tm, (tile + 1) * self.tm
        return sum(max(a, first) < min(b, end) for a, b in pairwise(self.offsets))

    def tiles(self, group: int) -> int:
        """The number of tiles in which a group has rows."""
        start, end = self.offsets[group], self.offsets[group + 1]
        return -(-end // self.tm) - start // self.tm if end > start else 0

    @property
    def most_in_tile(self) -> int:
        return max(map(self.in_tile, range(self.offsets[-1] // self.tm)))

    @property
    def visits(self) -> int:
        return sum(map(self.tiles, range(len(self.sizes))))

    @property
    def room(self) -> int:
        """The largest possible number of visits."""
        return self.offsets[-1] // self.tm + len(self.sizes) - 1


GROUPS: Mapping[str, Callable[[Groups], bool]] = {
    "a first group without rows": lambda groups: not groups.sizes[0],
    "a last group without rows": lambda groups: not groups.sizes[-1],
    "a group without rows between others": lambda groups: any(
        not size and any(groups.sizes[:g]) and any(groups.sizes[g:])
        for g, size in enumerate(groups.sizes)
    ),
    "a group that begins inside a tile": lambda groups: any(o % groups.tm for o in groups.cuts),
    "a group that begins on the edge of a tile": lambda groups: any(
        not o % groups.tm for o in groups.cuts
    ),
    "three groups in one tile": lambda groups: groups.most_in_tile >= 3,
    "a group with rows in three tiles": lambda groups: any(
        groups.tiles(group) >= 3 for group in range(len(groups.sizes))
    ),
    "visits that are not used": lambda groups: groups.visits < groups.room,
}

UNWANTED: Mapping[str, Callable[[Groups], bool]] = {
    "rows after the last group": lambda groups: groups.offsets[-1] < groups.rows,
    "no row after the last group": lambda groups: groups.offsets[-1] == groups.rows,
}

# ---- scores: the operands of a softmax or a log-sum-exp ----


@dataclass(frozen=True, slots=True)
class Scores:
    """The largest and the smallest score of each row; masked scores and their rows are left out."""

    largest: np.ndarray[Any, Any]
    smallest: np.ndarray[Any, Any]


#: A mask value of -100, or a maximum that starts at 0, is wrong only in such rows.
SCORES: Mapping[str, Callable[[Scores], bool]] = {
    "a row of scores below -100": lambda scores: bool((scores.largest < -100).any()),
    "a row of scores that are more than 100 apart": lambda scores: bool(
        (scores.largest - scores.smallest > 100).any()
    ),
}
MASKED_BELOW = -1e30  # scores below are masked


def takes_a_softmax(exercise: Kata, solution: ModuleType) -> bool:
    """Whether the spec has the exponential of scores, of which it takes the maximum."""
    if not hasattr(solution, f"{exercise.name}_spec"):
        return False
    case = draw(exercise.id, exercise.key, 1)[0]
    names = primitives(_traced(exercise, solution, case)[0].jaxpr)
    return {"reduce_max", "exp"} <= set(names)


def _traced(exercise: Kata, solution: ModuleType, case: Case) -> tuple[core.ClosedJaxpr, list[Any]]:
    """The spec's trace, and the inputs of a case."""
    spec, keywords = specs.spec_of(solution, exercise.name, case)
    inputs = specs.drawn_inputs(solution, exercise.name, case)
    return jax.make_jaxpr(lambda *xs: jax.tree.leaves(spec(*xs, **keywords)))(*inputs), inputs


def scores_of(exercise: Kata, solution: ModuleType, case: Case) -> Iterator[Scores]:
    """The rows of which the spec takes the maximum."""
    found: list[Scores] = []

    def note(*extremes: jax.Array) -> None:
        largest, smallest = map(np.asarray, extremes)
        seen = np.isfinite(largest)
        found.append(Scores(largest[seen], smallest[seen]))

    def maximum(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        (x,), axes = inputs, eqn.params["axes"]
        if jnp.issubdtype(x.dtype, jnp.floating):
            seen = jnp.isfinite(x) & (x > MASKED_BELOW)
            largest = jnp.max(jnp.where(seen, x, -jnp.inf), axis=axes)
            jax.debug.callback(note, largest, jnp.min(jnp.where(seen, x, jnp.inf), axis=axes))
        return [jnp.max(x, axis=axes)]

    closed, inputs = _traced(exercise, solution, case)
    program = core.jaxpr_as_fun(retraced(closed, {"reduce_max": maximum}))
    jax.block_until_ready(jax.jit(program)(*inputs))
    jax.effects_barrier()
    yield from found


# ---- what the inputs of a kata hold ----


def inputs_of(exercise: Kata, solution: ModuleType, case: Case) -> Mapping[str, Any]:
    """The inputs of a case, by name, as the kata's own function makes them; with few heads and
    columns, which don't matter here, so that it takes milliseconds."""
    few = {"B": 1, "N": 1, "K": 1, "H": 8} if "H" in case.sizes else dict.fromkeys("KNDF", 8)
    sizes = {name: few.get(name, size) for name, size in case.sizes.items()}
    make = getattr(solution, f"{exercise.name}_inputs")
    asked = [name for name in inspect.signature(make).parameters if name not in ("key", "dtype")]
    key = jax.random.key(case.seed, impl="rbg")
    arrays = make(key, dtype=dtype_of(case.dtype), **{name: sizes[name] for name in asked})
    names = inspect.signature(getattr(solution, f"{exercise.name}_spec")).parameters
    return dict(zip(names, map(np.asarray, arrays), strict=False))


def mask_of(exercise: Kata, solution: ModuleType, case: Case) -> Iterator[Mask]:
    """The masks of queries and keys; one for each sequence of the batch if they differ."""
    sizes, inputs = case.sizes, inputs_of(exercise, solution, case)
    bq, bkv = sizes["bq"], sizes["bkv"]
    if "q_ids" in inputs:
        pairs = zip(inputs["q_ids"], inputs["kv_ids"], strict=True)
        yield from (Mask(q[:, None] == kv[None, :], bq, bkv) for q, kv in pairs)
    elif "first" in inputs:
        keys = np.arange(sizes["S"])
        first, last = inputs["first"][:, None], inputs["last"][:, None]
        yield Mask((first <= keys) & (keys <= last), bq, bkv)
    elif "mask" in inputs:
        yield Mask(inputs["mask"] != 0, bq, bkv)
    else:
        tables = [inputs[n] for n in ("partial_masks", "block_mask", "data_next", "mask_next")]
        by_keys = "T" in inspect.signature(solution.dense_mask).parameters
        others = sizes["T"] if by_keys else sizes["S"] // bkv
        sees = np.asarray(solution.dense_mask(*tables, others))
        yield Mask(sees, bkv, bq) if by_keys else Mask(sees, bq, bkv)


def groups_of(exercise: Kata, solution: ModuleType, case: Case) -> Iterator[Groups]:
    """The groups of rows that the inputs say or, of a router's logits, amount to."""
    inputs = inputs_of(exercise, solution, case)
    if "logits" in inputs:
        chosen = np.argsort(inputs["logits"], axis=1)[:, -case.sizes["top_k"] :]
        sizes = np.bincount(chosen.ravel(), minlength=case.sizes["E"])
    else:
        offsets = inputs.get("group_offsets")
        sizes = inputs["group_sizes"] if offsets is None else np.diff(offsets)
    tm = case.sizes["tm"] if "tm" in case.sizes else case.sizes["bm"]
    yield Groups([0, *np.cumsum(sizes).tolist()], tm, case.sizes.get("M", 0))
