"""Emulates a TPU's random number generator in the interpreter.

Each core of a TPU has a generator. `pltpu.prng_seed` sets its state, and each call of
`prng_random_bits` draws from it and advances it. The chip's bits aren't documented, so the bits
here are different, with the same properties: they depend only on the words of the seed, the number
of draws since, and the requested shape. With the same seed both cores draw the same. A kernel
begins with unseeded generators, and drawing from one raises `NotSeeded`. A launch that is lowered
for a chip keeps the chip's own operations.

`same_seeds` compares the seeds and keys of all grid steps without running the launch, so also at
sizes at which nothing is run.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import io_callback
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.evaluator import Env, EquationBudget, Evaluator, NotKnown, bind
from pallascope.kernels.host_values import ValueReader, computed, known_values
from pallascope.kernels.index_maps import positions_of
from pallascope.kernels.jax_internals import UnsupportedJax
from pallascope.kernels.jaxprs import (
    array_struct,
    called,
    discharged,
    inner_jaxprs,
    loop_carried,
    loop_constants,
    memory_space,
    primitives,
    sites,
    turns,
)
from pallascope.kernels.pallas_params import block_size, body, grid_mapping, is_pallas_call
from pallascope.kernels.source_lines import line_in
from pallascope.model import SameSeeds

WORD = 2**32


class NotSeeded(RuntimeError):
    """A kernel has drawn bits from a core's generator without seeding it."""

    def __init__(self) -> None:
        super().__init__(
            "prng_random_bits was called on a core whose generator this kernel has not seeded"
        )


class Generators:
    """The generators of all cores while one kernel runs; the next kernel begins with none."""

    def __init__(self) -> None:
        self._kernel: object = None
        self._states: dict[tuple[int, int], tuple[tuple[int, ...], int]] = {}

    def seed(self, kernel: object, at: tuple[int, int], words: Sequence[int]) -> None:
        """Seed the generator of core `at` (device, core) with 32-bit words."""
        self._of(kernel)[at] = tuple(word % WORD for word in words), 0

    def draw(self, kernel: object, at: tuple[int, int], shape: tuple[int, ...]) -> np.ndarray:
        """int32 of `shape`: the next bits. Raises NotSeeded."""
        states = self._of(kernel)
        if at not in states:
            raise NotSeeded
        words, drawn = states[at]
        states[at] = words, drawn + 1
        entropy = [len(words), *words, drawn, *shape]
        bits = np.random.Philox(np.random.SeedSequence(entropy))
        count = math.prod(shape)
        return bits.random_raw((count + 1) // 2).view(np.int32)[:count].reshape(shape)

    def _of(self, kernel: object) -> dict[tuple[int, int], tuple[tuple[int, ...], int]]:
        if kernel is not self._kernel:
            self._kernel, self._states = kernel, {}
        return self._states


@dataclass(frozen=True, slots=True)
class _Drawing:
    """Replaces the two operations on a generator while the `interpreter` runs a kernel."""

    interpreter: ModuleType
    usual: Callable[..., Any]
    generators: Generators = field(default_factory=Generators)

    def interpreted(self, jaxpr: core.Jaxpr, *args: Any, ctx: Any, token: Any) -> Any:
        """Interpret a body, with rules for the markers of the two operations."""
        marked = jaxpr.eqns[0] if len(jaxpr.eqns) == 1 else None
        where = ctx.device_id, ctx.local_core_id
        token_type = self.interpreter.TOKEN_SHAPE_DTYPE
        if marked and marked.primitive is _SEED:
            callback = self.interpreter.fail_on_exception(self._seeded)
            return io_callback(callback, token_type, token, *where, *args), []
        if marked and marked.primitive is _DRAW:
            shape, line = marked.params["shape"], marked.source_info.traceback
            failing = self.interpreter.fail_on_exception(self._drawn)
            callback = functools.partial(failing, shape=shape, line=line)
            types = token_type, jax.ShapeDtypeStruct(shape, jnp.int32)
            token, bits = io_callback(callback, types, token, *where)
            return token, [bits]
        return self.usual(jaxpr, *args, ctx=ctx, token=token)

    def _seeded(self, token: Any, device: Any, local: Any, *words: Any) -> Any:
        self.generators.seed(self._kernel(), (int(device), int(local)), list(map(int, words)))
        return token

    def _drawn(
        self, token: Any, device: Any, local: Any, *, shape: tuple[int, ...], line: Any
    ) -> Any:
        at = int(device), int(local)
        try:
            return token, self.generators.draw(self._kernel(), at, shape)
        except NotSeeded as error:
            raise error.with_traceback(line and line.as_python_traceback()) from None

    def _kernel(self) -> object:
        """An object that the interpreter creates for each kernel that it runs."""
        return self.interpreter._get_shared_memory()


@contextlib.contextmanager
def emulated_prng() -> Iterator[None]:
    """Let kernels that the strict interpreter runs in this context draw random bits.

    If jax keeps the replaced functions elsewhere, bits are zeros, as without this context.
    """
    try:
        from pallascope.kernels.jax_internals import tpu_interpreter as interpreter

        rules = _rules()
        drawing = _Drawing(interpreter, interpreter._interpret_jaxpr)
        known = interpreter._interpret_impls
        before = {rule: known.get(rule) for rule in rules}
        _ = interpreter.fail_on_exception, interpreter._get_shared_memory
        _ = interpreter.TOKEN_SHAPE_DTYPE
    except (UnsupportedJax, AttributeError):
        yield
        return
    known.update(rules)
    interpreter._interpret_jaxpr = drawing.interpreted
    try:
        yield
    finally:
        interpreter._interpret_jaxpr = drawing.usual
        for rule, old in before.items():
            known.pop(rule) if old is None else known.update({rule: old})


def _rules() -> dict[core.Primitive, Callable[..., Any]]:
    """The interpreter's rules for operations on random bits.

    Raises UnsupportedJax or AttributeError if jax keeps one of them elsewhere.
    """
    from pallascope.kernels.jax_internals import mosaic_primitives as primitives
    from pallascope.kernels.jax_internals import prng

    return {
        primitives.prng_seed_p: _SEED.bind,
        primitives.prng_random_bits_p: _DRAW.bind,
        primitives.stochastic_round_p: stochastically_rounded,
        prng.random_bits_p: _bits_of_keys,
    }


def _marker(name: str, results: Callable[..., Any], *, multiple: bool) -> core.Primitive:
    """An operation that occurs only in programs made here, so that it is recognised above."""
    primitive = core.Primitive(name)
    primitive.multiple_results = multiple
    primitive.def_abstract_eval(results)
    return primitive


def _no_result(*_words: Any) -> list[Any]:
    return []


def _bits(*, shape: tuple[int, ...]) -> Any:
    return jax.typeof(jax.ShapeDtypeStruct(shape, jnp.int32))


_SEED = _marker("seed_generator", _no_result, multiple=True)
_DRAW = _marker("draw_from_generator", _bits, multiple=False)


def _bits_of_keys(keys: Any, *, bit_width: int, shape: tuple[int, ...]) -> Any:
    """The bits that jax.random draws from keys; for Pallas' own kinds, with the generator."""
    from pallascope.kernels.jax_internals import prng

    words = prng.random_unwrap(keys)
    kind = keys.dtype._impl
    bits = prng.random_bits_impl_base(kind, words, keys.ndim, bit_width=bit_width, shape=shape)
    return bits if bits.dtype != jnp.int32 else lax.bitcast_convert_type(bits, jnp.uint32)


def drawing_line(jaxpr: core.Jaxpr, file: str) -> int | None:
    """The line of `file` on which a trace draws from a generator, 0 if the line is unknown.

    None if it doesn't draw.
    """
    for site in sites(jaxpr):
        if _draws(site.eqn):
            lines = (line_in(eqn, file) for eqn in (site.eqn, *reversed(site.path)))
            return next(filter(None, lines), 0)
    return None


def _draws(eqn: core.JaxprEqn) -> bool:
    if eqn.primitive.name == "random_bits":
        kind: Any = eqn.invars[0].aval
        return "pallas" in kind.dtype._impl.name
    return eqn.primitive.name == "prng_random_bits"


def stochastically_rounded(x: jax.Array, bits: jax.Array, *, target_dtype: Any) -> jax.Array:
    """`pltpu.stochastic_round` of float32: one of the two neighbours in a narrower dtype.

    `bits` are uint32 of the shape of x; as many of the lowest bits as x loses decide.
    """
    info = jnp.finfo(target_dtype)
    lost = 23 - int(info.nmant)
    magnitude = lax.bitcast_convert_type(x, jnp.uint32) & jnp.uint32(0x7FFFFFFF)
    dice = bits & jnp.uint32((1 << lost) - 1)
    cut = (magnitude + dice) & ~jnp.uint32((1 << lost) - 1)
    found = lax.bitcast_convert_type(cut, jnp.float32)
    if info.minexp > jnp.finfo(jnp.float32).minexp:
        step = 2.0 ** (int(info.minexp) - int(info.nmant))
        steps = jnp.abs(x) / step
        whole = jnp.floor(steps)
        up = (steps - whole) * (1 << lost) + dice.astype(jnp.float32) >= (1 << lost)
        found = jnp.where(jnp.abs(x) < 2.0 ** int(info.minexp), (whole + up) * step, found)
    rounded = jnp.where(jnp.isfinite(x), jnp.copysign(found, x), x)
    return rounded.astype(target_dtype)


#: The operations of a generator; by name, as in a trace.
OF_GENERATORS = ("prng_seed", "prng_random_bits", "random_bits", "stochastic_round")


@dataclass(slots=True)
class TracedGenerator:
    """A generator for a kernel's body that is traced as a jax.numpy program.

    Its bits differ from those of the interpreter, and have the same properties. `state` is
    uint32[2]; it may be carried through loops. None if nothing has seeded it.
    """

    state: jax.Array | None = None

    def operation(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        """The results of one of OF_GENERATORS. Raises NotSeeded."""
        params = eqn.params
        match eqn.primitive.name:
            case "prng_seed":
                self._seed(inputs)
                return []
            case "prng_random_bits":
                struct = array_struct(eqn.outvars[0])
                return [lax.bitcast_convert_type(self._drawn(struct.shape), struct.dtype)]
            case "stochastic_round":
                return [stochastically_rounded(*inputs, target_dtype=params["target_dtype"])]
        self._seed(jax.random.key_data(inputs[0]).reshape(-1))
        return [self._drawn(params["shape"]).astype(f"uint{params['bit_width']}")]

    def _seed(self, words: Iterable[Any]) -> None:
        key = jax.random.key(0, impl=_KEYS)
        for word in words:
            key = jax.random.fold_in(key, jnp.asarray(word).astype(jnp.uint32))
        self.state = jax.random.key_data(key)

    def _drawn(self, shape: tuple[int, ...]) -> jax.Array:
        """uint32[shape], and the generator goes on."""
        if self.state is None:
            raise NotSeeded
        key, here = jax.random.split(jax.random.wrap_key_data(self.state, impl=_KEYS))
        self.state = jax.random.key_data(key)
        return jax.random.bits(here, shape, jnp.uint32)


_KEYS = "threefry2x32"


#: The first seeds are compared on all grid steps. Training counts its seeds up.
_ON_ALL_STEPS = 16
#: These are compared on a few steps. Their differences are all numbers up to 16,384.
_ON_FEW_STEPS = np.union1d(np.arange(128), np.arange(0, 16_384 + 1, 128))
_MOST_STEPS = 16_384
#: Of these few steps, this many along each axis.
_FEW = 4
_MOST_EQUATIONS = 5_000


def same_seeds(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct], seed: int, most: int
) -> SameSeeds | None:
    """Two grid steps, or two seeds, for which a launch seeds its generators alike; None if none.

    `args` are the inputs of the trace, and `args[seed]` the integers that determine all randomness.
    Up to `most` results are drawn with the same bits. Keys that jax.random draws from count as
    seeds. None also if a seed depends on data in VMEM, on a loop of unknown length, or on more than
    the seed and the grid step.
    """
    if not any(name in ("prng_seed", "random_bits") for name in primitives(closed.jaxpr)):
        return None
    with contextlib.suppress(NotKnown):
        given = np.asarray(args[seed])
        places = _places(closed, args)
        found = (_compared(closed, seed, given, word, places, most) for word in range(given.size))
        return next(filter(None, found), None)
    return None


@dataclass(frozen=True, slots=True)
class _Place:
    """The steps of a drawing kernel, int32[steps, axes], and a number for each step's blocks.

    `number` is the kernel's among all of the launch, and `outputs` its number of outputs.
    """

    number: int
    steps: np.ndarray
    blocks: np.ndarray
    outputs: int


def _places(
    closed: core.ClosedJaxpr, args: Sequence[ArrayLike | jax.ShapeDtypeStruct]
) -> list[_Place]:
    """The kernels that draw. Raises NotKnown unless all steps of their grids are known."""
    reader = ValueReader()
    jax.eval_shape(lambda: reader.evaluate(closed, [None] * len(args)))
    places = []
    for number, ((kernel, _), values) in enumerate(
        zip(reader.kernels, known_values(closed, args), strict=True)
    ):
        if "random_bits" not in (names := set(primitives(body(kernel)))) and (
            "prng_seed" not in names
        ):
            continue
        positions = positions_of(kernel, values, _MOST_STEPS)
        grid = [size for size in positions.grid if size is not None]
        if len(grid) < len(positions.grid) or math.prod(grid) > _MOST_STEPS:
            raise NotKnown("the grid isn't known, or too large")
        if not is_pallas_call(kernel):
            raise NotKnown("a kernel over a mesh has no grid steps")
        steps = np.indices(grid, np.int32).reshape(len(grid), -1).T
        places.append(_Place(number, steps, *_blocks(kernel, positions.starts, len(steps))))
    return places


def _blocks(
    kernel: core.JaxprEqn, starts: Sequence[np.ndarray | None], steps: int
) -> tuple[np.ndarray, int]:
    """A number for the output blocks of each step, and the number of outputs.

    A step whose blocks are unknown, or those of all steps, counts as having its own.
    """
    mapping = grid_mapping(kernel)
    first = mapping.num_index_operands + mapping.num_inputs
    outputs = starts[first : first + mapping.num_outputs]
    moving = [each for each in outputs if each is not None and len(each) and np.ptp(each, 0).any()]
    if not moving:
        return np.arange(steps), len(outputs)
    _, numbers = np.unique(np.concatenate(moving, 1), axis=0, return_inverse=True)
    return numbers.reshape(-1), len(outputs)


def _compared(
    closed: core.ClosedJaxpr,
    seed: int,
    given: np.ndarray,
    word: int,
    places: Sequence[_Place],
    most: int,
) -> SameSeeds | None:
    """The same for one word of the seed."""
    rows, words = [], []
    for which, place in enumerate(places):
        chosen, seeded = _points(place.steps)
        for executed, reached, turn in _words(closed, seed, given, word, place, chosen, seeded):
            kernel, turns = np.full(len(chosen), which), np.full(len(chosen), turn)
            columns = kernel, chosen, turns, seeded, _code(executed)
            rows.append([column[reached] for column in columns])
            words.append(executed[reached])
    if not rows:
        return None
    table = _Seedings(places, *map(np.concatenate, zip(*rows, strict=True)))
    pair = table.between_steps(most) or table.between_seeds()
    if pair is None:
        return None
    one, other = pair
    return SameSeeds(
        word,
        (table.step(one), table.step(other)),
        (int(table.seeds[one]), int(table.seeds[other])),
        _row(words, one),
    )


def _row(tables: Sequence[np.ndarray], number: int) -> tuple[int, ...]:
    """A row of several tables one below the other."""
    for table in tables:
        if number < len(table):
            return tuple(table[number].tolist())
        number -= len(table)
    raise IndexError(number)


def _points(steps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Positions in `steps` and seeds, as pairs: a few seeds on all steps, many on a few steps."""
    near = np.flatnonzero((steps < _FEW).all(1) & ((steps > 0).sum(1) <= 1))
    few = np.arange(_ON_ALL_STEPS)
    many = _ON_FEW_STEPS[_ON_FEW_STEPS >= _ON_ALL_STEPS]
    return (
        np.concatenate([np.repeat(np.arange(len(steps)), len(few)), np.repeat(near, len(many))]),
        np.concatenate([np.tile(few, len(steps)), np.tile(many, len(near))]),
    )


def _words(
    closed: core.ClosedJaxpr,
    seed: int,
    given: np.ndarray,
    word: int,
    place: _Place,
    chosen: np.ndarray,
    seeded: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray, int]]:
    """For each execution of a seeding: uint32[points, words], whether each point reaches it, and
    the number of the turn of the loops around it.

    Raises NotKnown.
    """
    turns: list[int] = []

    def at(value: jax.Array, step: jax.Array) -> list[tuple[jax.Array, jax.Array]]:
        seed_array = jnp.asarray(given.reshape(-1)).at[word].set(value.astype(given.dtype))
        arguments = [None] * len(closed.jaxpr.invars)
        outside = ValueReader()
        outside.evaluate(
            closed, [*arguments[:seed], seed_array.reshape(given.shape), *arguments[seed + 1 :]]
        )
        kernel, known = outside.kernels[place.number]
        inside = _SeedReader(list(step))
        values = [None if n is None else outside.values[n] for n in known]
        inside.read(kernel, values)
        turns[:] = inside.turns
        return inside.found

    points = seeded, place.steps[chosen]
    jax.eval_shape(jax.vmap(at), *points)  # raises NotKnown
    flat = computed(lambda *points: jax.tree.leaves(jax.vmap(at)(*points)), *points)
    if flat is None:
        raise NotKnown("the seeds can't be computed on the host")
    return [
        (words.reshape(len(seeded), -1), reached.astype(bool), turn)
        for words, reached, turn in zip(flat[::2], flat[1::2], turns, strict=True)
    ]


def _code(words: np.ndarray) -> np.ndarray:
    """uint64[points]: a number for each row of words, practically never the same for two."""
    code = np.full(len(words), words.shape[1], np.uint64)
    for column in words.astype(np.uint64).T:
        code = (code ^ column) * np.uint64(0x9E3779B97F4A7C15)
        code ^= code >> np.uint64(29)
    return code


@dataclass(frozen=True, slots=True)
class _Seedings:
    """All seedings of a launch: the kernel, the position of the grid step, the turn of the loops
    in it, the seed, and a code for the words."""

    places: Sequence[_Place]
    kernels: np.ndarray
    steps: np.ndarray
    turns: np.ndarray
    seeds: np.ndarray
    codes: np.ndarray

    def step(self, row: int) -> tuple[int, ...]:
        return tuple(self.places[self.kernels[row]].steps[self.steps[row]].tolist())

    def between_steps(self, most: int) -> tuple[int, int] | None:
        """Two rows of a kernel with the same seed and words, but different blocks or turns."""
        blocks = np.zeros(len(self.codes), np.int64)
        for which, place in enumerate(self.places):
            own = self.kernels == which
            blocks[own] = place.blocks[self.steps[own]]
        blocks = blocks * (int(self.turns.max()) + 1) + self.turns
        order = np.lexsort((blocks, self.kernels, self.codes, self.seeds))
        columns = [column[order] for column in (self.seeds, self.codes, self.kernels, blocks)]
        new = np.zeros((len(columns), len(order)), bool)  # for each column: differs from before
        new[:, 0] = True
        for at, column in enumerate(columns):
            new[at, 1:] = column[1:] != column[:-1]
        group = np.cumsum(new[:2].any(0)) - 1
        block = new.any(0)
        outputs = np.array([place.outputs for place in self.places])[columns[2]]
        used = np.bincount(group, block * outputs)
        twice = np.flatnonzero(block & ~new[:3].any(0))  # another block of the same kernel
        limit = max(most, int(outputs.max()))
        wrong = twice[used[group[twice]] > limit]
        if not wrong.size:
            return None
        return int(order[wrong[0] - 1]), int(order[wrong[0]])

    def between_seeds(self) -> tuple[int, int] | None:
        """Two rows with the same words, but different seeds; None if chance explains them.

        Words that are mixed well collide as often as random ones.
        """
        order = np.lexsort((self.steps, self.seeds, self.codes))
        codes, seeds = self.codes[order], self.seeds[order]
        again = np.flatnonzero((codes[1:] == codes[:-1]) & (seeds[1:] != seeds[:-1]))
        if len(again) <= 4 * len(codes) ** 2 / 2 / WORD:
            return None
        closest = again[np.argmin(np.abs(seeds[again + 1] - seeds[again]))]
        return int(order[closest]), int(order[closest + 1])


class _SeedReader(Evaluator):
    """Evaluates the scalars of a kernel's body on one grid step, and notes its seeds and keys.

    A value is an array, the contents of a Ref, or None if it is unknown. `found` has the words of
    each seeding, uint32[words], and whether the step reaches it; `turns` has the number of the turn
    of the loops around it, 0 outside of loops.
    """

    def __init__(self, step: list[jax.Array]) -> None:
        self.found: list[tuple[jax.Array, jax.Array]] = []
        self.turns: list[int] = []
        self._step = step
        self._grid: list[Any] = []
        self._place: list[jax.Array] = []
        self._reached: jax.Array = jnp.bool_(True)
        self._turn = 0
        self._budget = EquationBudget(_MOST_EQUATIONS)

    def read(self, kernel: core.JaxprEqn, values: Sequence[Any]) -> None:
        """Read the body; `values` are the kernel's inputs in SMEM. Raises NotKnown."""
        mapping, inner = grid_mapping(kernel), body(kernel)
        sizes = iter(values)
        grid = [n if isinstance(n, int) else next(sizes) for n in mapping.grid]
        rest = list(sizes)
        tables = rest[: mapping.num_index_operands]
        blocks = [
            self._block(spec, value, tables)
            for spec, value in zip(mapping.block_mappings, rest[len(tables) :], strict=False)
        ]
        known = [*tables, *blocks]
        added = mapping.vmapped_dims  # jax.vmap's axes of the grid, which the body doesn't see
        self._grid = [size for axis, size in enumerate(grid) if axis not in added]
        self._place = [at for axis, at in enumerate(self._step) if axis not in added]
        self.evaluate(inner, [*known, *[None] * (len(inner.invars) - len(known))])

    def _block(self, spec: Any, value: Any, tables: Sequence[Any]) -> Any:
        """The block of an array in SMEM on this step; None if it is unknown."""
        if value is None or memory_space(spec.transformed_block_aval) != "smem":
            return None
        index_map = spec.index_map_jaxpr
        refs = index_map.jaxpr.invars[len(self._step) :]
        contents = [
            jnp.zeros(array_struct(ref).shape, array_struct(ref).dtype) if table is None else table
            for ref, table in zip(refs, tables, strict=True)
        ]
        index = core.jaxpr_as_fun(discharged(index_map))(*self._step, *contents)
        sizes = [block_size(dim) for dim in spec.block_shape]
        starts = [at * (size or 1) for at, size in zip(index, sizes, strict=False)]
        part = lax.dynamic_slice(value, starts, [size or 1 for size in sizes])
        return part.reshape([size for size in sizes if size is not None])

    def operation(self, eqn: core.JaxprEqn, inputs: list[Any], env: Env) -> Sequence[Any]:
        self._budget.spend(1)
        name, unknown = eqn.primitive.name, [None] * len(eqn.outvars)
        match name:
            case "prng_seed":
                self._note(inputs)
            case "random_bits" if inputs[0] is None:
                raise NotKnown("a key depends on data")
            case "random_bits":
                self._note([jax.random.key_data(inputs[0])])
            case "program_id":
                return [self._place[eqn.params["axis"]]]
            case "num_programs":
                return [self._grid[eqn.params["axis"]]]
            case "get" if inputs[0] is not None and all(each is not None for each in inputs):
                return [_read(eqn, inputs)]
            case "cond":
                return self._branches(eqn, inputs)
            case "scan" | "while" if _seeds(eqn):
                return self._loop(eqn, inputs)
            case _ if (inner := called(eqn)) is not None:
                return self.evaluate(inner, inputs)
            case _ if _seeds(eqn):
                raise NotKnown(f"a seed in {name}")
            case _ if eqn.effects or inner_jaxprs(eqn) or None in map(_or_none, inputs):
                return unknown
            case _:
                return bind(eqn, inputs)
        return unknown

    def _note(self, words: Sequence[Any]) -> None:
        if any(word is None for word in words):
            raise NotKnown("a seed depends on data")
        parts = [jnp.ravel(jnp.asarray(word)).astype(jnp.uint32) for word in words]
        self.found.append((jnp.concatenate(parts), self._reached))
        self.turns.append(self._turn)

    def _branches(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        """Evaluate all branches of a condition, of which one runs."""
        reached, which, branches = self._reached, inputs[0], inner_jaxprs(eqn)
        results = []
        for number, branch in enumerate(branches):
            chosen = True if which is None else jnp.asarray(which).astype(jnp.int32) == number
            self._reached = reached & chosen
            results.append(self.evaluate(branch, inputs[1:]))
        self._reached = reached
        if which is None:
            return [None] * len(eqn.outvars)
        chosen = jnp.clip(jnp.asarray(which).astype(jnp.int32), 0, len(branches) - 1)
        return [
            None if any(each is None for each in column) else lax.select_n(chosen, *column)
            for column in zip(*results, strict=True)
        ]

    def _loop(self, eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        """Evaluate the turns of a loop one after another. Raises NotKnown."""
        if eqn.primitive.name == "scan":
            (inner,), first, length = inner_jaxprs(eqn), 0, eqn.params["length"]
            constants, carried = loop_constants(eqn), loop_carried(eqn)
        else:
            inner, first, length = eqn.params["body_jaxpr"], eqn.params["cond_nconsts"], turns(eqn)
            constants, carried = eqn.params["body_nconsts"], len(eqn.outvars)
            if length is None:
                raise NotKnown("a seed in a loop of unknown length")
        fixed, rest = inputs[first : first + constants], inputs[first + constants :]
        carry, others = rest[:carried], [None] * (len(rest) - carried)
        outer = self._turn
        for turn in range(int(length)):
            self._turn = outer * int(length) + turn
            carry = self.evaluate(inner, [*fixed, *carry, *others])[: len(carry)]
        self._turn = outer
        return [*carry, *[None] * (len(eqn.outvars) - len(carry))]


def _or_none(value: Any) -> Any:
    return None if value is None else 0


def _seeds(eqn: core.JaxprEqn) -> bool:
    """Whether a jaxpr inside an equation seeds a generator, or draws from a key."""
    names = (name for inner in inner_jaxprs(eqn) for name in primitives(inner))
    return any(name in ("prng_seed", "random_bits") for name in names)


def _read(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Any:
    """A read of one element, or of all, of a Ref of known contents; None for other reads."""
    contents, transforms = inputs[0], jax.tree.unflatten(eqn.params["tree"], inputs[1:])
    if len(transforms) > 1:
        return None
    indices = transforms[0].indices if transforms else ()
    if all(not hasattr(index, "size") or getattr(index, "ndim", 1) == 0 for index in indices):
        return contents[tuple(indices)]
    whole = all(
        getattr(index, "size", None) == size
        for index, size in zip(indices, contents.shape, strict=False)
    )
    return contents if whole else None
