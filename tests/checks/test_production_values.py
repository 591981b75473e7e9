"""Values at production size, where only a few blocks are computed."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core

from grader.checks import production_values
from grader.checks.evidence import TpuEvidence
from grader.exercise.key_tables import Randomness
from grader.grading.ladder import verdict
from grader.verdict import State
from pallascope.checks.compare import average_error
from pallascope.kernels import TracedLaunch
from pallascope.kernels.block_samples import Repeated
from pallascope.model import (
    Accident,
    ArrayType,
    BlockSample,
    Check,
    Finding,
    NotJudged,
    OperationPlace,
    Problem,
    Reference,
    ResultSample,
    Role,
    Roundings,
    Stage,
    Trace,
)
from pallascope.tools.arrays import PERIOD, drawn_like, from_numpy, in_float64, to_numpy
from pallascope.tpu import OnChip, Prediction
from pallascope.tpu.traffic import OperandTraffic, Traffic
from tests.pallascope.support.calls import doubling
from tests.support.factories import OwnAndPar, attempt, evidence, key

M, N, K, BLOCK = 2048, 1024, 1024, 128
SHAPES = [(M, K), (K, N)]
CONTENTS = [np.random.default_rng(n).standard_normal(PERIOD).astype(np.float32) for n in (0, 1)]
WHOLE = [np.resize(one, shape) for one, shape in zip(CONTENTS, SHAPES, strict=True)]


def body(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
    @pl.when(pl.program_id(2) == 0)
    def _() -> None:
        acc_ref[...] = jnp.zeros_like(acc_ref)

    product = jnp.dot(x_ref[...], y_ref[...], preferred_element_type=jnp.float32)
    acc_ref[...] += product.astype(acc_ref.dtype)

    @pl.when(pl.program_id(2) == pl.num_programs(2) - 1)
    def _() -> None:
        o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def zeros(_x: Any, _y: Any, o_ref: Any, _acc: Any) -> None:
    o_ref[...] = jnp.zeros_like(o_ref)


def first_product(x_ref: Any, y_ref: Any, o_ref: Any, _acc: Any) -> None:
    o_ref[...] = jnp.dot(x_ref[...], y_ref[...])


def matmul(
    x: Any,
    y: Any,
    kernel: Callable[..., None] = body,
    rows: int = M,
    terms: int = K,
    row: Callable[[Any], Any] = lambda i: i,
    bm: int = BLOCK,
    sums: Any = jnp.float32,
) -> Any:
    """A tiled matmul; the arguments make it a wrong one."""
    return pl.pallas_call(
        kernel,
        grid=(rows // bm, N // BLOCK, terms // BLOCK),
        in_specs=[
            pl.BlockSpec((bm, BLOCK), lambda i, j, k: (row(i), k)),
            pl.BlockSpec((BLOCK, BLOCK), lambda i, j, k: (k, j)),
        ],
        out_specs=pl.BlockSpec((bm, BLOCK), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
        scratch_shapes=[pltpu.VMEM((bm, BLOCK), sums)],
    )(x, y)


def launched(launch: Callable[..., Any], *args: Any, dtype: Any = "float32") -> TracedLaunch:
    return TracedLaunch.of(launch, args or [jax.ShapeDtypeStruct(s, dtype) for s in SHAPES], {})


def sampled(launch: Callable[..., Any], narrow: Any = None) -> BlockSample:
    """A sample of a launch for float32, or for `narrow` numbers."""
    contents = [one.astype(narrow or np.float32) for one in CONTENTS]
    inputs = list(zip(contents, SHAPES, strict=True))
    return launched(launch, dtype=narrow or np.float32).block_sample(inputs, seed=3)


@functools.cache
def par() -> BlockSample:
    return sampled(matmul)


def judged(own: BlockSample | Accident, solution: BlockSample | None = None) -> TpuEvidence:
    results = (ArrayType("float32", (M, N)),)
    reference = Reference(("x", "y"), (), {}, (), results, ("",), K)
    given = evidence(attempt(), reference, production=True)
    return dataclasses.replace(
        given,
        own_sample=lambda: own,
        par_sample=lambda: solution or par(),
    )


def judged_in_bfloat16(
    own: BlockSample, roundings: int = 2, solution: BlockSample | None = None
) -> TpuEvidence:
    """Evidence with the same inputs in float32 as the exact ones."""
    inputs = [
        (one.astype(ml_dtypes.bfloat16).astype(np.float32), shape)
        for one, shape in zip(CONTENTS, SHAPES, strict=True)
    ]
    exact = launched(matmul).block_sample(inputs, seed=3)
    reference = judged(own).reference
    results = (ArrayType("bfloat16", (M, N)),)
    return dataclasses.replace(
        judged(own, solution or sampled(matmul, ml_dtypes.bfloat16)),
        reference=dataclasses.replace(reference, results=results),
        key=key(roundings=Roundings(roundings)),
        exact_sample=lambda: exact,
    )


def rejection(given: TpuEvidence) -> Finding | None:
    found = production_values.check_production(given)
    assert not isinstance(found, NotJudged)
    return found


def finding(own: BlockSample | Accident) -> Finding | None:
    return rejection(judged(own))


def test_a_sample_has_the_right_values() -> None:
    (result,) = par().results
    at, got = to_numpy(result.at), in_float64(result.values)
    assert at.size == np.unique(at).size
    assert 16 <= at.size / BLOCK**2 <= 18
    for indices, size in zip(np.unravel_index(at, (M, N)), (M, N), strict=True):
        assert np.unique(indices // BLOCK).size == size // BLOCK, "each block of an axis"
    assert {0, M * N - 1} <= set(at.tolist())
    product = WHOLE[0].astype(np.float64) @ WHOLE[1].astype(np.float64)
    np.testing.assert_allclose(got, product.reshape(-1)[at], atol=1e-2)
    assert result.unwritten is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (functools.partial(matmul, kernel=zeros), "is 0, expected"),
        (functools.partial(matmul, kernel=first_product), "elements are wrong"),
        (functools.partial(matmul, terms=K // 2), "elements are wrong"),
        (functools.partial(matmul, terms=K - BLOCK), "elements are wrong"),
        (functools.partial(matmul, rows=M - BLOCK), "no grid step writes element (1920, 0)"),
        (functools.partial(matmul, row=lambda i: i % 8), "elements are wrong"),
        (lambda x, y: matmul(x, y) * 0.5, "elements are wrong"),
        (lambda x, y: matmul(x + 1, y), "elements are wrong"),
    ],
    ids=["zeros", "first", "half", "last k", "last rows", "modulo", "outside", "before"],
)
def test_another_computation_is_rejected(wrong: Callable[..., Any], says: str) -> None:
    found = finding(sampled(wrong))
    assert found is not None
    assert found.check is Check.VALUES
    assert says in found.message


@pytest.mark.parametrize(
    "right",
    [
        functools.partial(matmul, bm=256),
        lambda x, y: matmul(jnp.flip(jnp.flip(x)), y),
        lambda x, y: matmul(x, y).reshape(-1).reshape(M, N),
        lambda x, y: jnp.transpose(jnp.transpose(matmul(x, y))),
    ],
    ids=["other blocks", "before", "reshaped", "transposed"],
)
def test_the_same_computation_is_accepted(right: Callable[..., Any]) -> None:
    own = sampled(right)
    assert own.results, own.why_not
    assert finding(own) is None


@pytest.mark.parametrize(("roundings", "accepted"), [(1, False), (2, False), (6, True)])
def test_sums_in_bfloat16_are_rejected(roundings: int, accepted: bool) -> None:
    own = sampled(functools.partial(matmul, sums=jnp.bfloat16), ml_dtypes.bfloat16)
    found = rejection(judged_in_bfloat16(own, roundings))
    assert (found is None) is accepted
    if found:
        assert "the average error of o_ref is 2." in found.message
        assert "Keep sums" in found.message


def test_errors_like_those_of_the_solution_are_accepted() -> None:
    """Where large terms cancel, they exceed those of the roundings."""
    own = sampled(functools.partial(matmul, sums=jnp.bfloat16), ml_dtypes.bfloat16)
    given = judged_in_bfloat16(own, 1, own)
    assert rejection(given) is None


@pytest.mark.parametrize("bm", [BLOCK, 256])
def test_sums_in_float32_have_the_error_of_one_rounding(bm: int) -> None:
    own = sampled(functools.partial(matmul, bm=bm), ml_dtypes.bfloat16)
    assert rejection(judged_in_bfloat16(own, roundings=1)) is None


def test_a_rounding_has_an_average_error_of_one() -> None:
    exact = np.random.default_rng(1).standard_normal(100_000)
    got, rows = exact.astype(ml_dtypes.bfloat16).astype(np.float64), np.zeros(exact.size)
    assert average_error(got, exact, rows, "bfloat16") == pytest.approx(1, rel=0.02)
    twice = got * (1 + 2.0**-8)  # systematic errors count as well
    assert average_error(twice, exact, rows, "bfloat16") > 2


def test_a_block_in_place_that_no_step_writes_is_named() -> None:
    def double(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = 2 * x_ref[...]

    x = np.ones((128, 128), np.float32)
    both = (
        launched(functools.partial(scaled, kernel=double, steps=n, in_place=True), x)
        for n in (12, 16)
    )
    own, solution = (launch.block_sample([x], 1) for launch in both)
    found = rejection(judged(own, solution))
    assert found is not None
    assert "no grid step writes element" in found.message
    assert rejection(judged(solution, solution)) is None


@pytest.mark.parametrize(("steps", "right"), [(12, True), (8, False)])
def test_a_block_in_place_that_no_step_writes_may_be_right(steps: int, right: bool) -> None:
    """The results of 12 steps of 8 rows are right."""

    def double(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = 2 * x_ref[...]

    x = np.ones((128, 128), np.float32)
    own = launched(functools.partial(scaled, kernel=double, steps=steps, in_place=True), x)
    solution = launched(lambda x: x.at[:96].multiply(2), x)
    found = rejection(judged(*(launch.block_sample([x], 1) for launch in (own, solution))))
    assert (found is None) is right
    assert found is None or "no grid step writes element (64, 0)" in found.message


def test_operands_in_float16_are_too_coarse_for_float32() -> None:
    """Each element is right but for small errors."""

    def launch(x: Any, y: Any) -> Any:
        return matmul(x.astype(jnp.float16).astype(x.dtype), y)

    found = finding(sampled(launch))
    assert found is not None
    assert found.phrase == "rounded too early at production size"


@pytest.mark.parametrize(
    ("dtype", "step", "every", "right"),
    [("int8", 1, 10, True), ("int8", 1, 4, False), ("int8", 2, 99, False), ("int32", 1, 99, False)],
)
def test_some_of_8_bits_may_be_one_step_off(dtype: str, step: int, every: int, right: bool) -> None:
    wanted = np.arange(1000).astype(dtype) % 100
    got = (wanted + step * (np.arange(1000) % every == 0)).astype(dtype)
    at = from_numpy(np.arange(1000))
    own, solution = (
        BlockSample((ResultSample((M, N), at, from_numpy(values)),)) for values in (got, wanted)
    )
    assert (rejection(judged(own, solution)) is None) is right


def test_a_result_of_which_nothing_is_known_is_not_compared() -> None:
    nothing = from_numpy(np.zeros(0, np.int64)), from_numpy(np.zeros(0, np.float32))
    empty = BlockSample((ResultSample((0,), *nothing),))
    given = judged(empty, empty)
    assert rejection(given) is None
    random = dataclasses.replace(
        given, key=dataclasses.replace(given.key, random=Randomness("seed", ("a", "b")))
    )
    assert rejection(random) is None


@pytest.mark.parametrize("own", [BlockSample((), "unknown"), Accident("killed", "", killed=True)])
def test_without_a_sample_it_is_not_judged(own: BlockSample | Accident) -> None:
    found = production_values.check_production(judged(own))
    assert isinstance(found, NotJudged)
    assert found.check is Check.VALUES
    assert "at production size can't be computed: " in found.why


def test_a_key_may_need_smaller_sizes() -> None:
    found = production_values.check_production(judged(par(), BlockSample((), "too long")))
    assert isinstance(found, NotJudged)
    assert "too long. Its answer key needs smaller sizes in [values]" in found.why


def test_smaller_sizes_are_in_the_message_and_ask_for_known_places() -> None:
    known = dataclasses.replace(
        judged(par()), values_sizes={"M": M}, attempt=attempt(traced=trace_at(1, 2))
    )
    told = rejection(
        dataclasses.replace(
            known, own_sample=lambda: sampled(functools.partial(matmul, rows=BLOCK))
        )
    )
    assert told is not None
    assert told.message.startswith(f"Near production size, with M = {M:,}, ")
    assert rejection(dataclasses.replace(known, hidden_places=lambda: (places(1, 2),))) is None
    unknown = rejection(dataclasses.replace(known, hidden_places=lambda: (places(1),)))
    assert unknown is not None
    assert unknown.phrase == "untested at production size"


def test_a_launch_that_hides_a_block_is_not_judged() -> None:
    (result,) = par().results
    own = BlockSample((dataclasses.replace(result, refused="its steps take too long"),))
    assert isinstance(production_values.check_production(judged(own)), NotJudged)
    assert rejection(judged(own, own)) is None


def test_a_wrong_result_at_production_size_fails() -> None:
    half = functools.partial(matmul, terms=K // 2)
    given = judged(sampled(half))
    found = rejection(given)
    assert found is not None
    trace = launched(half).trace()
    judgement = verdict(dataclasses.replace(given, attempt=attempt(traced=trace)))
    assert (judgement.state, judgement.stars, judgement.finding) == (State.FAILED, 0, found)


def running_sum(x_ref: Any, o_ref: Any, before_ref: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        before_ref[...] = jnp.zeros_like(before_ref)

    before_ref[...] += x_ref[...]
    o_ref[...] = before_ref[...]


def test_scratch_may_carry_something_over() -> None:
    """The last block depends on 31 steps that write other blocks."""

    def launch(x: Any) -> Any:
        spec = pl.BlockSpec((8, 128), lambda i, j: (i, j))
        scratch = [pltpu.VMEM((8, 128), x.dtype)]
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        how = {"grid": (4, 32), "in_specs": [spec], "out_specs": spec, "scratch_shapes": scratch}
        return pl.pallas_call(running_sum, out_shape=out, **how)(x)

    x = np.random.default_rng(0).integers(-9, 9, (32, 4096)).astype(np.float32)
    (result,) = launched(launch, x).block_sample([x], seed=1).results
    expected = x.reshape(32, 32, 128).cumsum(axis=1).reshape(-1)
    at = to_numpy(result.at)
    assert x.size - 1 in at
    np.testing.assert_array_equal(to_numpy(result.values), expected[at])


def test_kernels_in_a_chain_and_ragged_edges() -> None:
    def twice(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = 2 * x_ref[...]

    def doubled(x: Any, block: tuple[int, int]) -> Any:
        spec = pl.BlockSpec(block, lambda i, j: (i, j))
        grid = tuple(-(-n // b) for n, b in zip(x.shape, block, strict=True))
        out = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return pl.pallas_call(twice, grid=grid, in_specs=[spec], out_specs=spec, out_shape=out)(x)

    x = np.arange(100 * 300, dtype=np.float32).reshape(100, 300)
    chain = launched(lambda x: doubled(doubled(x, (16, 128)), (24, 256)), x)
    (result,) = chain.block_sample([x], seed=1).results
    np.testing.assert_array_equal(to_numpy(result.values), 4 * to_numpy(result.at))


def scaled(x: Any, kernel: Callable[..., None], steps: int = 16, in_place: bool = False) -> Any:
    """A launch over some of 16 blocks of 8 rows, perhaps in place of x."""
    spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(
        kernel,
        grid=(steps,),
        in_specs=[spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0} if in_place else {},
    )(x)


def numbered_in_a_scope(x_ref: Any, o_ref: Any) -> None:
    @functools.partial(pl.run_scoped, own_ref=pltpu.VMEM((8, 128), jnp.float32))
    def _(own_ref: Any) -> None:
        own_ref[...] = x_ref[...] * pl.program_id(0)
        o_ref[...] = own_ref[...]


def with_a_dead_branch(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * pl.program_id(0)

    @pl.when(pl.program_id(0) < 0)
    def _() -> None:
        @pl.loop(0, 1_000_000)
        def _(_: Any) -> None:
            o_ref[...] += jnp.dot(x_ref[...], jnp.zeros((128, 128)))


def through_views(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) >= 0)
    def _() -> None:
        o_ref.bitcast(jnp.int32)[...] = x_ref.bitcast(jnp.int32)[...]

    o_ref[...] *= pl.program_id(0)


@pytest.mark.parametrize("kernel", [numbered_in_a_scope, through_views])
def test_scopes_and_views(kernel: Callable[..., None]) -> None:
    x = np.random.default_rng(0).integers(-99, 99, (128, 128)).astype(np.float32)
    (result,) = launched(functools.partial(scaled, kernel=kernel), x).block_sample([x], 1).results
    expected = (x.reshape(16, 8, 128) * np.arange(16).reshape(16, 1, 1)).reshape(-1)
    np.testing.assert_array_equal(to_numpy(result.values), expected[to_numpy(result.at)])


def test_elements_that_no_step_writes_are_those_of_the_aliased_input() -> None:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = -x_ref[...]

    x = np.arange(1, 128 * 128 + 1, dtype=np.float32).reshape(128, 128)
    in_place, anew = (
        launched(functools.partial(scaled, kernel=kernel, steps=4, in_place=alias), x)
        .block_sample([x], 1)
        .results[0]
        for alias in (True, False)
    )
    assert in_place.unwritten == anew.unwritten == 4 * 8 * 128
    at = to_numpy(in_place.at)
    expected = np.where(at < 4 * 8 * 128, -1, 1) * x.reshape(-1)[at]
    np.testing.assert_array_equal(to_numpy(in_place.values), expected)


UNKNOWN = core.Primitive("unknown_to_the_cpu")
UNKNOWN.def_abstract_eval(lambda x: x)


def test_operations_of_the_interpreter_alone_make_a_run_as_a_whole() -> None:
    """No step of it can run alone: a CPU has no rule for the operation."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = UNKNOWN.bind(x_ref[...])

    launch, x = functools.partial(scaled, kernel=kernel), np.ones((128, 128), np.float32)
    with pytest.raises(Exception, match="unknown_to_the_cpu"):
        launched(launch, x).block_sample([x], 1)


def test_work_that_is_never_done_hides_no_block() -> None:
    """If the values can't be computed because of it, the launch is not judged."""
    x = np.ones((128, 128), np.float32)
    sample = launched(functools.partial(scaled, kernel=with_a_dead_branch), x).block_sample([x], 1)
    assert sample == BlockSample((), "its steps take too long")


def copied(x: Any, rows: int = 1024, times: int = 1) -> Any:
    """A copy of the first `rows` by DMA, made several times."""

    def kernel(x_ref: Any, o_ref: Any, sem: Any) -> None:
        @pl.loop(0, times)
        def _(_: Any) -> None:
            some = pl.ds(0, rows)
            pltpu.async_copy(x_ref.at[some], o_ref.at[some], sem).wait()

    any_memory = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(
        kernel,
        in_specs=[any_memory],
        out_specs=any_memory,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.SemaphoreType.DMA],
    )(x)


def sample_of_copy(launch: Callable[..., Any], shape: tuple[int, ...] = (1024, 128)) -> BlockSample:
    inputs = [(CONTENTS[0], shape)]
    traced = launched(launch, jax.ShapeDtypeStruct(shape, np.float32))
    return traced.block_sample(inputs, seed=1)


def test_a_kernel_that_copies_by_itself_runs_as_a_whole() -> None:
    own = sample_of_copy(copied)
    (result,) = own.results
    np.testing.assert_array_equal(
        to_numpy(result.values), np.resize(CONTENTS[0], 1024 * 128)[to_numpy(result.at)]
    )
    assert rejection(judged(own, own)) is None
    half = sample_of_copy(functools.partial(copied, rows=512))
    found = rejection(judged(half, own))
    assert found is not None
    assert "is nan, expected" in found.message


def test_a_large_result_is_sampled_in_all_columns() -> None:
    (result,) = sample_of_copy(functools.partial(copied, rows=16384), (16384, 128)).results
    assert result.at.shape[0] <= 1 << 20
    assert set(np.unique(to_numpy(result.at) % 128)) == set(range(128))


@pytest.mark.parametrize(
    ("launch", "shape", "why_not"),
    [
        (functools.partial(copied, times=30_000), (1024, 128), "its steps take too long"),
        (copied, (1 << 20, 128), "its inputs are too large"),
    ],
)
def test_a_long_run_is_not_begun(
    launch: Callable[..., Any], shape: tuple[int, ...], why_not: str
) -> None:
    assert sample_of_copy(launch, shape) == BlockSample((), why_not, too_long=True)


def test_a_run_far_longer_than_usual_is_not_judged() -> None:
    own = sample_of_copy(functools.partial(copied, times=300_000))
    assert own == BlockSample((), "its steps take too long")
    assert isinstance(production_values.check_production(judged(own)), NotJudged)


@pytest.mark.parametrize("stuck", [True, False])
def test_a_hang_or_a_crash_at_production_size_fails(stuck: bool) -> None:
    found = finding(Accident("no result within 60 s", "It hung.", stuck=stuck, crashed=not stuck))
    assert found is not None
    assert found.check is Check.VALUES
    assert found.message.startswith("At production size:")


def test_an_exception_at_production_size_fails() -> None:
    """The run is in a worker, which answers the exception."""
    message = "Out-of-bounds read of (0 0 hbm 1)"
    own = BlockSample(problem=Problem(Stage.RUN, "IndexError", message))
    given = judged(own, sample_of_copy(copied))
    found = rejection(dataclasses.replace(given, attempt=attempt(traced=trace_at(3))))
    assert found is not None
    assert found.check is Check.VALUES
    assert found.message.startswith("At production size:")


def trace_at(*lines: int) -> Trace:
    found = tuple(sorted(places(*lines)))
    return dataclasses.replace(launched(matmul).trace(), places=found)


def places(*lines: int) -> frozenset[OperationPlace]:
    return frozenset(OperationPlace(line, 0) for line in lines)


@pytest.mark.parametrize(
    ("hidden", "says"),
    [
        ([places(1, 2, 3, 9)], ""),
        ([places(1), places(2, 3)], ""),
        ([places(1, 3)], "uses line 2 at"),
        ([places(3)], "uses lines 1 and 2 at"),
        ([places(1, 3) | {OperationPlace(2, 8)}], "uses parts of line 2, or numbers in it, at"),
        ([places(1, 3) | {OperationPlace(2, 0, ("1.0",))}] * 2, "uses parts of line 2, or"),
        ([places(1, 3) | {OperationPlace(2, 0, (n,))} for n in ("1.0", "2.0")], ""),
        ([places(1, 3) | {OperationPlace(2, 0, (n,)) for n in ("1.0", "2.0")}] * 2, ""),
        ([], ""),
    ],
)
def test_without_a_sample_all_places_run_at_a_hidden_size(
    hidden: list[frozenset[OperationPlace]], says: str
) -> None:
    given = dataclasses.replace(
        judged(BlockSample((), "too long", too_long=True)),
        attempt=attempt(traced=trace_at(1, 2, 3)),
        hidden_places=lambda: tuple(hidden),
    )
    found = rejection(given)
    assert bool(found) is bool(says)
    if found:
        assert found.phrase == "untested at production size"
        assert says in found.message


def test_lines_of_operations() -> None:
    """Reshapes don't count: jax leaves out those that change nothing."""

    def launch(x: Any, y: Any) -> Any:
        x = x.reshape(M * K)
        x = x.reshape(M, K)
        return matmul(x, y)

    file, first = __file__, launch.__code__.co_firstlineno
    lines = {place.line for place in launched(launch).trace(file).places}
    assert first + 3 in lines
    assert {first + 1, first + 2}.isdisjoint(lines)
    assert {body.__code__.co_firstlineno + n for n in (3, 5, 6, 10)} <= lines


def test_blocks_of_repeated_values() -> None:
    values_, shape = np.arange(7), (5, 6, 11)
    whole = np.resize(values_, shape)
    part = Repeated(values_, shape).box([1, 2, 3], [2, 4, 8])
    np.testing.assert_array_equal(part, whole[1:3, 2:6, 3:])


def test_drawn_values_are_finite_and_those_of_the_array() -> None:
    drawn = to_numpy(drawn_like(from_numpy(np.array([0.25, np.inf, np.nan, 8])), "bfloat16", 1))
    assert set(drawn.astype(np.float32).tolist()) == {0.25, 0.125}
    assert drawn.size == PERIOD
    codes = to_numpy(drawn_like(from_numpy(np.array([-7, 5], np.int8)), "int8", 1))
    assert set(codes.tolist()) == {-7, 5}


# ---- inputs of which a part is fetched ----


def fetching(**least: int | None) -> OnChip:
    """A launch that fetches so many of the 4,096 bytes of its inputs, by name."""
    array = ArrayType("float32", (8, 128))
    moved = Traffic(
        "double",
        (4,),
        tuple(
            OperandTraffic(name, Role.INPUT, array, (8, 32), 4, own, least=own, stored=4096)
            for name, own in least.items()
        ),
        (),
    )
    return OnChip(None, (Prediction("v5e", doubling(), (), moved, (), compiled=True),))


@pytest.mark.parametrize(
    ("own", "par", "says"),
    [
        (fetching(x_ref=2048), fetching(x_ref=4096), "reads 50% of x_ref"),
        (fetching(a_ref=4096, b_ref=1024), fetching(x_ref=4096), "reads 25% of b_ref"),
        (fetching(x_ref=4096), fetching(x_ref=4096), ""),
        (fetching(x_ref=2048), fetching(x_ref=2048), ""),
        (fetching(x_ref=2048), fetching(x_ref=4096, y_ref=2048), ""),
        (fetching(x_ref=None), fetching(x_ref=4096), ""),
        (Accident("it crashed", ""), fetching(x_ref=4096), ""),
    ],
)
def test_all_blocks_are_fetched_of_an_array_of_which_par_fetches_all(
    own: OnChip | Accident, par: OnChip | Accident, says: str
) -> None:
    """The rule where no block of the results can be computed, as that takes too long."""
    too_long = BlockSample((), "its steps take too long", too_long=True)
    given = dataclasses.replace(
        evidence(attempt(), production=True, on_chips=OwnAndPar(own, par)),
        own_sample=lambda: too_long,
        par_sample=functools.partial(sampled, matmul),
    )
    finding = rejection(given)
    assert (finding.phrase if finding else "") == says
