"""A TPU's random bits in the strict interpreter: what they follow from; stochastic rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.prng_emulation import Generators, NotSeeded, stochastically_rounded
from pallascope.model import Mode, SameSeeds
from pallascope.tpu.chips import named
from pallascope.tpu.libtpu import CompilerUnavailable
from pallascope.tpu.predict import predictions_of_launch
from tests.pallascope.support.core_map_kernels import launched

BLOCK, STEPS = (8, 128), 5
SHAPE = BLOCK[0] * STEPS, BLOCK[1]


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def launch(
    kernel: Callable[..., Any],
    semantics: Literal["parallel", "arbitrary"] = "parallel",
    dtype: Any = jnp.int32,
) -> Any:
    """A launch of a kernel over five blocks of its result; it is given a seed."""

    def launched(seed: Any) -> Any:
        return pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(STEPS,),
                in_specs=[],
                out_specs=pl.BlockSpec(BLOCK, lambda i, _: (i, 0)),
            ),
            out_shape=jax.ShapeDtypeStruct(SHAPE, dtype),
            compiler_params=pltpu.CompilerParams(dimension_semantics=(semantics,)),
        )(seed)

    return launched


def ran(launched: Any, seed: int, order: int = 1, cores: int = 2) -> np.ndarray:
    given = np.array([seed], np.int32)
    carried = TracedLaunch.carried(TracedLaunch.of(launched, (given,), {}).dumped())
    (result,) = carried.run((given,), Mode.STRICT, order, cores=cores)
    return result


def seeded_by_step(seed_ref: Any, o_ref: Any) -> None:
    pltpu.prng_seed(seed_ref[0], pl.program_id(0))
    o_ref[...] = pltpu.prng_random_bits(BLOCK)


def test_bits_follow_from_seed_and_step_alone() -> None:
    bits = ran(launch(seeded_by_step), 7)
    assert len(np.unique(bits)) > 0.99 * bits.size
    assert abs(np.mean(bits > 0) - 0.5) < 5 * 0.5 / math.sqrt(bits.size)
    assert np.array_equal(bits, ran(launch(seeded_by_step), 7, order=2, cores=1))
    assert not (bits == ran(launch(seeded_by_step), 8)).any()


def test_each_call_draws_others() -> None:
    def kernel(seed_ref: Any, o_ref: Any) -> None:
        pltpu.prng_seed(seed_ref[0])
        o_ref[...] = pltpu.prng_random_bits(BLOCK) ^ pltpu.prng_random_bits(BLOCK)

    bits = ran(launch(kernel), 7)
    assert (bits != 0).mean() > 0.99
    assert np.array_equal(bits[: BLOCK[0]], bits[BLOCK[0] : 2 * BLOCK[0]])


def test_in_loops_and_branches() -> None:
    def kernel(seed_ref: Any, o_ref: Any) -> None:
        pltpu.prng_seed(seed_ref[0], pl.program_id(0))
        o_ref[...] = jnp.zeros(BLOCK, jnp.int32)

        @pl.when(pl.program_id(0) % 2 == 0)
        def _() -> None:
            def add(_: Any, bits: Any) -> Any:
                return bits + pltpu.prng_random_bits(BLOCK)

            o_ref[...] = lax.fori_loop(0, 3, add, o_ref[...])

    def unrolled(seed_ref: Any, o_ref: Any) -> None:
        pltpu.prng_seed(seed_ref[0], pl.program_id(0))
        bits = sum((pltpu.prng_random_bits(BLOCK) for _ in range(3)), start=jnp.int32(0))
        o_ref[...] = jnp.where(pl.program_id(0) % 2 == 0, bits, 0)

    assert np.array_equal(ran(launch(kernel), 7), ran(launch(unrolled), 7))


def never_seeded(seed_ref: Any, o_ref: Any) -> None:
    o_ref[...] = pltpu.prng_random_bits(BLOCK) + seed_ref[0]


def seeded_by_the_first_step(seed_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        pltpu.prng_seed(seed_ref[0])

    o_ref[...] = pltpu.prng_random_bits(BLOCK)


@pytest.mark.parametrize(
    ("kernel", "semantics"),
    [
        (never_seeded, "arbitrary"),
        (never_seeded, "parallel"),
        (seeded_by_the_first_step, "parallel"),
    ],
)
def test_a_core_that_nobody_seeded_draws_nothing(kernel: Any, semantics: Any) -> None:
    with pytest.raises(Exception, match="not seeded"):
        ran(launch(kernel, semantics), 7)
    assert ran(launch(seeded_by_step), 7).any()  # what has failed leaves nothing behind


def test_a_seed_lasts_for_the_rest_of_a_kernel() -> None:
    bits = ran(launch(seeded_by_the_first_step, "arbitrary"), 7)
    assert len(np.unique(bits)) > 0.99 * bits.size


def test_a_kernel_begins_without_seeds() -> None:
    generators, first, second = Generators(), object(), object()
    generators.seed(first, (0, 0), [1, -1])
    assert generators.draw(first, (0, 0), (3,)).shape == (3,)
    for kernel, at in ((first, (0, 1)), (second, (0, 0))):
        with pytest.raises(NotSeeded):
            generators.draw(kernel, at, (3,))


def test_words_count_and_shape_all_matter() -> None:
    def drawn(words: list[int], shape: tuple[int, ...], times: int = 1) -> bytes:
        generators = Generators()
        generators.seed(None, (0, 0), words)
        return [generators.draw(None, (0, 0), shape) for _ in range(times)][-1].tobytes()

    draws = [
        drawn([1], (4, 4)),
        drawn([1, 0], (4, 4)),
        drawn([0, 1], (4, 4)),
        drawn([1], (2, 8)),
        drawn([1], (4, 4), times=2),
    ]
    assert len(set(draws)) == len(draws)
    assert drawn([1], (4, 4)) == draws[0]


def test_stateful_uniform_and_stochastic_round() -> None:
    def kernel(seed_ref: Any, o_ref: Any) -> None:
        pltpu.prng_seed(seed_ref[0], pl.program_id(0))
        uniform = pltpu.stateful_uniform(BLOCK, jnp.float32)
        bits = pltpu.bitcast(pltpu.prng_random_bits(BLOCK), jnp.uint32)
        o_ref[...] = pltpu.stochastic_round(uniform, bits, target_dtype=jnp.bfloat16)

    values = ran(launch(kernel, dtype=jnp.bfloat16), 7).astype(np.float64)
    assert abs(values.mean() - 0.5) < 5 * math.sqrt(1 / 12 / values.size)
    assert len(np.unique(values)) > 100


@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float8_e5m2, jnp.float8_e4m3fn])
def test_rounding_takes_one_of_the_neighbours_at_the_odds(dtype: Any) -> None:
    info = jnp.finfo(dtype)
    smallest = 2.0 ** max(info.minexp - info.nmant, -126)
    scales = np.array([1.0, 100.0, smallest, 3 * smallest, 0.0])
    values = np.random.default_rng(1).uniform(1, 2, 40)[:, None] * scales
    x = np.concatenate([values, -values]).astype(np.float32).ravel()
    times = 4000
    bits = np.random.default_rng(2).integers(0, 2**32, (times, x.size), np.uint32)
    wide = np.broadcast_to(x, bits.shape)
    drawn = stochastically_rounded(jnp.asarray(wide), jnp.asarray(bits), target_dtype=dtype)
    drawn = np.asarray(drawn).astype(np.float64)
    low, high = drawn.min(axis=0), drawn.max(axis=0)
    patterns = np.arange(2**info.bits, dtype=f"uint{info.bits}")
    grid = np.unique(np.nan_to_num(patterns.view(dtype).astype(np.float32)).astype(np.float64))
    at = np.searchsorted(grid, x.astype(np.float64), side="right")
    assert np.all((low >= grid[at - 1]) & (high <= grid[np.minimum(at, len(grid) - 1)]))
    spread = high - low
    error = np.abs(drawn.mean(axis=0) - x)
    assert np.all(error <= 6 * np.where(spread, spread, 1e-30) / math.sqrt(times))


def test_what_is_no_number_stays() -> None:
    x = jnp.array([np.inf, -np.inf, np.nan], jnp.float32)
    ones = jnp.full(3, 0xFFFFFFFF, jnp.uint32)
    rounded = stochastically_rounded(x, ones, target_dtype=jnp.bfloat16)
    assert np.array_equal(np.asarray(rounded, np.float32), x, equal_nan=True)


def test_a_chip_draws_its_own() -> None:
    """The launch that was interpreted is lowered and compiled with the chip's operations."""
    chip = named("v5e")
    given = np.array([7], np.int32)
    with for_chip(chip.kind, chip.cores):
        traced = TracedLaunch.of(launch(seeded_by_step), (given,), {})
        carried = TracedLaunch.carried(traced.dumped())
        assert carried.run((given,), Mode.STRICT, 1)[0].any()
        try:
            (prediction,) = predictions_of_launch(carried, (given,), "v5e", 0)
        except CompilerUnavailable:
            pytest.skip("libtpu is not installed")
    assert not prediction.failure


def test_cores_of_a_mesh_have_generators_of_their_own() -> None:
    def kernel(seed_ref: Any, o_ref: Any) -> None:
        core = lax.axis_index("core")

        def scoped(buffer: Any) -> None:
            pltpu.prng_seed(7, core)
            buffer[...] = pltpu.prng_random_bits(BLOCK)
            pltpu.sync_copy(buffer, o_ref.at[core])

        pl.run_scoped(scoped, pltpu.VMEM(BLOCK, jnp.int32))

    chip = named("v5p")
    with for_chip(chip.kind, chip.cores):
        first, second = ran(launched(kernel, jax.ShapeDtypeStruct((2, *BLOCK), jnp.int32), 2), 7)
    by_step = ran(launch(seeded_by_step), 7)
    assert np.array_equal(first, by_step[: BLOCK[0]])
    assert np.array_equal(second, by_step[BLOCK[0] : 2 * BLOCK[0]])


def compared(seeded: Callable[..., Any], most: int = 1, batch: int = 0) -> SameSeeds | None:
    """The comparison of the seeds of a launch over 12 x 8 steps; `seeded` seeds, and draws."""

    def kernel(seed_ref, _, o_ref):
        i, j = pl.program_id(0), pl.program_id(1)
        drawn = seeded(seed_ref[0], i, j)
        bits = pltpu.prng_random_bits(BLOCK) if drawn is None else drawn
        o_ref[...] = lax.bitcast_convert_type(bits, jnp.int32)

    def once(seed: Any, x: Any = None) -> Any:
        return pl.pallas_call(
            kernel,
            grid_spec=pltpu.PrefetchScalarGridSpec(
                num_scalar_prefetch=1,
                grid=(12, 8),
                in_specs=[pl.BlockSpec(BLOCK, lambda *_: (0, 0))],
                out_specs=pl.BlockSpec(BLOCK, lambda i, j, _: (i, j)),
            ),
            out_shape=jax.ShapeDtypeStruct((12 * BLOCK[0], 8 * BLOCK[1]), jnp.int32),
        )(seed, jnp.zeros(BLOCK) if x is None else x)

    def several(seed: Any) -> Any:
        return jax.vmap(lambda x: once(seed, x))(jnp.zeros((batch, *BLOCK)))

    chip, given = named("v5e"), np.array([7], np.int32)
    with for_chip(chip.kind, chip.cores):
        launch = TracedLaunch.of(several if batch else once, (given,), {})
        return launch.same_seeds((given,), 0, most)


def by_words(*words: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *at: pltpu.prng_seed(*(word(*at) for word in words))


def by_key(number: Callable[..., Any]) -> Callable[..., Any]:
    def seeded(seed, i, j):
        key = jax.random.fold_in(jax.random.key(seed), number(i, j))
        return jax.random.bits(key, BLOCK, jnp.uint32)

    return seeded


def by_strip(word: Callable[..., Any]) -> Callable[..., Any]:
    def seeded(seed, i, j):
        pl.loop(0, 6)(lambda strip: pltpu.prng_seed(seed, word(8 * i + j, strip)))

    return seeded


DIFFERENT = {
    "two words": by_words(lambda s, i, j: s, lambda s, i, j: 8 * i + j),
    "columns first": by_words(lambda s, i, j: i + 12 * j, lambda s, i, j: s),
    "one word": by_words(lambda s, i, j: s * pl.num_programs(0) * 8 + 8 * i + j),
    "packed": by_words(lambda s, i, j: (s << 16) | (8 * i + j)),
    "mixed": by_words(lambda s, i, j: s * 1000003 ^ (8 * i + j) * -1640531535),
    "a key": by_key(lambda i, j: 8 * i + j),
    "in a loop": by_strip(lambda block, strip: 6 * block + strip),
    "under a condition": lambda s, i, j: pl.when(i >= 0)(lambda: pltpu.prng_seed(s, 8 * i + j)),
}
#: By name: the seeding, and whether two steps are seeded alike, or the same step by two seeds.
ALIKE: dict[str, tuple[Callable[..., Any], bool, bool]] = {
    "a stride of 4": (by_words(lambda s, i, j: s, lambda s, i, j: 4 * i + j), True, False),
    "strides swapped": (by_words(lambda s, i, j: s, lambda s, i, j: i + 8 * j), True, False),
    "modulo 16": (by_words(lambda s, i, j: s, lambda s, i, j: (8 * i + j) % 16), True, False),
    "a key of a stride": (by_key(lambda i, j: 4 * i + j), True, False),
    "a condition": (
        lambda s, i, j: pl.when(i >= 0)(lambda: pltpu.prng_seed(s, 4 * i + j)),
        True,
        False,
    ),
    "a loop": (by_strip(lambda block, strip: 6 * block + strip % 4), True, True),
    "a loop into the next block": (by_strip(lambda block, strip: 4 * block + strip), True, False),
    "8 bits of the seed": (
        by_words(lambda s, i, j: s & 255, lambda s, i, j: 8 * i + j),
        False,
        True,
    ),
    "seed modulo 1000": (
        by_words(lambda s, i, j: s % 1000, lambda s, i, j: 8 * i + j),
        False,
        True,
    ),
    "a sum": (by_words(lambda s, i, j: s + 8 * i + j), False, False),
    "a sum with gaps": (by_words(lambda s, i, j: s + 1000 * (8 * i + j)), False, False),
    "a product that is too small": (by_words(lambda s, i, j: s * 64 + 8 * i + j), False, False),
    "a sum in one of two words": (
        by_words(lambda s, i, j: s + i, lambda s, i, j: j),
        False,
        False,
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_steps_and_seeds_that_all_differ(name: str) -> None:
    assert compared(DIFFERENT[name]) is None


@pytest.mark.parametrize("name", ALIKE)
def test_steps_or_seeds_that_are_alike(name: str) -> None:
    seeded, same_seed, same_step = ALIKE[name]
    found = compared(seeded)
    assert found
    assert (found.seeds[0] == found.seeds[1], found.steps[0] == found.steps[1]) == (
        same_seed,
        same_step,
    )


def test_results_of_the_same_bits_share_seeds() -> None:
    """A batch of two results that are dropped alike; but no block may be like another block."""
    alike, stride = DIFFERENT["two words"], ALIKE["a stride of 4"][0]
    assert compared(alike, most=2, batch=2) is None
    assert compared(alike, most=1, batch=2)
    assert compared(stride, most=2, batch=2)


def test_a_seed_that_depends_on_data_is_not_compared() -> None:
    def seeded(seed, i, j):
        pltpu.prng_seed(jnp.sum(jnp.zeros(BLOCK)).astype(jnp.int32))
        pl.loop(0, i)(lambda strip: pltpu.prng_seed(seed, strip))

    assert compared(seeded) is None
