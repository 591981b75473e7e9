"""At the edges of operations, a kernel in the strict interpreter has Mosaic's results."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.kernels.edges_of_mosaic import _EMULATED, DIFFERENCES
from pallascope.model import Mode

INF, NAN, HUGE = np.inf, np.nan, 3e38
#: In place of an undefined integer.
ANY = 0x5555
OLD = jax.__version_info__ < (0, 11)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def lowered_by_mosaic() -> set[str]:
    """The names of the operations in jax's own table for a TensorCore."""
    for module in ("mosaic.pipeline", "mosaic.pallas_call_registration", "einshape"):
        importlib.import_module(f"jax._src.pallas.{module}")
    lowering = importlib.import_module("jax._src.pallas.mosaic.lowering")
    core_type = importlib.import_module("jax._src.pallas.mosaic.core").CoreType.TC
    return {primitive.name for primitive in lowering.lowering_rules[core_type]}


def test_each_operation_of_mosaic_has_a_row() -> None:
    assert lowered_by_mosaic() - set(DIFFERENCES) == set()


def test_each_row_is_an_operation_of_mosaic() -> None:
    """Only the newer jax has these."""
    newer = {
        "approx_top_k", "conv", "conv_general_dilated", "custom_fusion", "eval_jaxpr",
        "has_memory_space", "log2", "matmul_lhs_fifo", "matmul_pop_fifo", "mulhi",
        "one_minus_square", "reduce_precision", "top_k",
    }  # fmt: skip
    assert set(DIFFERENCES) - lowered_by_mosaic() == (newer if OLD else set())


def test_what_is_emulated_is_marked_in_its_row() -> None:
    assert all(DIFFERENCES[name].emulated for name in _EMULATED)
    assert all(row.edge and row.there for row in DIFFERENCES.values() if row.emulated)


def results(body: Callable[..., Any], *given: Any, mode: Mode = Mode.STRICT) -> Any:
    """The result of a kernel whose body takes and returns arrays."""
    shape = jax.eval_shape(body, *given)

    def kernel(*refs: Any) -> None:
        *inputs, o_ref = refs
        o_ref[...] = body(*(ref[...] for ref in inputs))

    def launch(*arrays: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=shape)(*arrays)

    with for_chip("TPU v5 lite", 1):
        (found,) = TracedLaunch.of(launch, given, {}).run(given, mode, 1)
    return found


def floats(*values: float) -> np.ndarray:
    return np.resize(np.array(values, np.float32), (8, 128))


def integers(*values: int) -> np.ndarray:
    return np.resize(np.array(values, np.int32), (8, 128))


def at(*places: int, size: int) -> np.ndarray:
    """Zeros, with ones at these places."""
    return np.isin(np.arange(size), places).astype(np.float32)


def turns_of_a_scan(x: Any) -> Any:
    def turn(carry: Any, _: Any) -> Any:
        return (carry[0] + 1, carry[1] + 1.0), None

    (last, sums), _ = lax.scan(turn, (jnp.int32(3), 0.0), None, length=4)
    return x + jnp.stack([last.astype(jnp.float32), sums])[0]


def bound_of_a_while(x: Any, bound: Any) -> Any:
    def turn(carry: Any) -> Any:
        return carry[0] + 1, carry[1], carry[2] + 1

    start = bound[0, 0] + 5, bound[0, 0], jnp.int32(0)
    return x + lax.while_loop(lambda carry: carry[0] < carry[1], turn, start)[0]


def branch_below_zero(x: Any, index: Any) -> Any:
    def add(number: int) -> Callable[[Any], Any]:
        return lambda x: x + number

    switch = jax.make_jaxpr(lambda i, x: lax.switch(i, list(map(add, range(3))), x))(0, x)
    (cond,) = (eqn for eqn in switch.jaxpr.eqns if eqn.primitive.name == "cond")
    return cond.primitive.bind(index[0, 0], x, **cond.params)[0]


@jax.custom_jvp
def shifted(x: Any, by: Any) -> Any:
    return x << by


shifted.defjvp(lambda primals, tangents: (shifted(*primals), tangents[0]))

#: For each body: its inputs, and the first elements of Mosaic's result.
EDGES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], list[float]]] = {
    "shift_left": (
        lambda x, by: x << by,
        (integers(1), integers(1, 30, 32, 40, -1)),
        [2, 2**30, ANY, ANY, ANY],
    ),
    "shift_right_arithmetic": (
        lambda x, by: x >> by,
        (integers(-8), integers(1, 31, 32, -1)),
        [-4, -1, ANY, ANY],
    ),
    "shift_right_logical": (
        lax.shift_right_logical,
        (integers(-8), integers(31, 32)),
        [1, ANY],
    ),
    "div of integers": (
        lax.div,
        (integers(7, -7, 7, -(2**31)), integers(2, 2, 0, -1)),
        [3, -3, ANY, -(2**31)],
    ),
    "div of floats": (
        lambda x, y: x / y,
        (floats(HUGE, 2.0**127, INF, 1, -HUGE), floats(HUGE, 2.0**126, 1e38, 0, HUGE)),
        [0, 2, NAN, INF, 0],
    ),
    "div by a constant 0": (lambda x: x + lax.div(x, jnp.zeros_like(x)), (integers(1),), [ANY + 1]),
    "rem of integers": (lax.rem, (integers(7, -7, 7), integers(4, 4, 0)), [3, -3, ANY]),
    "rem of floats": (lax.rem, (floats(5.5, -5.5, 6, 1), floats(2, 2, 3, 0)), [1.5, -1.5, 0, NAN]),
    "convert_element_type to int32": (
        lambda x: x.astype(jnp.int32),
        (floats(NAN, INF, 2.0**31, -(2.0**31), -2.5, 2147483520),),
        [ANY, ANY, ANY, -(2**31), -2, 2147483520],
    ),
    "convert_element_type to int8": (
        lambda x: x.astype(jnp.int8).astype(jnp.int32),
        (np.tile(floats(NAN, 300, -300, 5), (4, 1)),),
        [ANY & 127, 127, -128, 5],
    ),
    "convert_element_type to uint32": (
        lambda x: x.astype(jnp.uint32),
        (floats(-5, 2.0**32, 3e9),),
        [0, ANY, 3e9],
    ),
    "neg": (lambda x: 1 / -x, (floats(0, -0.0, 2),), [INF, INF, -0.5]),
    "argmax of rows": (
        lambda x: jnp.argmax(x, axis=0, keepdims=True),
        (at(2, 6, size=8)[:, None] + floats(0),),
        [6],
    ),
    "argmin of rows, padded": (
        lambda x: jnp.argmin(x, axis=0, keepdims=True),
        (1 - at(3, 8, size=12)[:, None] + np.zeros((12, 128), np.float32),),
        [8],
    ),
    "argmax of lanes": (
        lambda x: jnp.argmax(x, axis=1, keepdims=True),
        (at(5, 130, size=256) + np.zeros((8, 1), np.float32),),
        [130],
    ),
    "argmax of blocks": (
        lambda x: jnp.argmax(x, axis=0),
        (np.array([0, 1, 1], np.float32)[:, None, None] + floats(0),),
        [1],
    ),
    "gather": (
        lambda x, i: jnp.take_along_axis(x, i, axis=1, mode="fill", fill_value=0),
        (floats(2), integers(5, 200)),
        [2, NAN],
    ),
    "roll": (
        lambda x, by: pltpu.roll(x, by[0, 0], 0),
        (np.arange(24, dtype=np.float32)[:, None] + np.zeros((24, 128), np.float32), integers(-1)),
        [9],  # 2**32 - 1 is 15 more than a multiple of 24
    ),
    "select_n": (lax.select_n, (integers(-1, 0, 1), floats(1), floats(2)), [2, 1, 2]),
    "scan": (turns_of_a_scan, (floats(0),), [4]),
    "while": (bound_of_a_while, (integers(0), integers(2)), [2]),
    "cond": (branch_below_zero, (floats(0), integers(-1)), [2]),
    "inside a derivative's function": (shifted, (integers(1), integers(2, 40)), [4, ANY]),
}  # fmt: skip


@pytest.mark.parametrize("name", EDGES)
def test_an_edge(name: str) -> None:
    body, given, wanted = EDGES[name]
    assert name.split()[0] in DIFFERENCES or name.startswith("inside")
    np.testing.assert_array_equal(results(body, *given)[0, : len(wanted)], wanted)


def everything_within(x: Any, y: Any, i: Any, n: Any) -> Any:
    """The same operations, with operands for which XLA and Mosaic agree."""
    rows = jnp.argmax(x, axis=0, keepdims=True) + jnp.argmin(x, axis=0, keepdims=True)
    lanes = jnp.argmax(x, axis=1, keepdims=True)
    whole = (i << n) + (i >> n) + lax.shift_right_logical(i, n) + i // (n + 1) + lax.rem(i, n + 1)
    whole += (x * 1e6).astype(jnp.int32) + (100 * x).astype(jnp.int8).astype(jnp.int32)
    guarded = jnp.where(n < 3, i << jnp.where(n < 3, n, 40), 0)
    moved = pltpu.roll(x, n[0, 0], 1) + jnp.take_along_axis(x, n, axis=1)
    chosen = lax.select_n((n > 2).astype(jnp.int32), x, y)
    found = -x / y + lax.rem(x, jnp.abs(y) + 1) + moved + chosen
    return found + (whole + guarded + rows + lanes).astype(jnp.float32) * 1e-6


def test_operands_within_have_the_results_of_xla() -> None:
    random = np.random.default_rng(1)
    x, y = random.standard_normal((2, 8, 128)).astype(np.float32)
    i, n = (random.integers(0, size, (8, 128)).astype(np.int32) for size in (10_000, 8))
    found = results(everything_within, x, y, i, n)
    np.testing.assert_allclose(
        found, results(everything_within, x, y, i, n, mode=Mode.INTERPRET), 1e-5, 1e-5
    )


@pytest.mark.skipif(OLD, reason="this jax has no top_k in kernels")
def test_top_k_repeats_an_index_of_minus_infinity() -> None:
    x = np.full((8, 128), -INF, np.float32)
    x[:, 3] = 1

    top_k: Any = lax.top_k  # the oldest jax's has no is_stable

    def body(x: Any) -> Any:
        _, places = top_k(x, 3, is_stable=False)
        return places

    assert results(body, x)[0].tolist() == [3, 0, 0]


def test_without_jaxs_function_the_results_of_xla_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    from pallascope.kernels.edges_of_mosaic import edges_of_mosaic

    place = "jax._src.pallas.mosaic.interpret.interpret_pallas_call"
    interpreter: Any = importlib.import_module(place)
    usual = interpreter._interpret_jaxpr
    with edges_of_mosaic():
        assert interpreter._interpret_jaxpr is not usual
    assert interpreter._interpret_jaxpr is usual
    monkeypatch.delattr(interpreter, "_interpret_jaxpr")
    with edges_of_mosaic():
        assert not hasattr(interpreter, "_interpret_jaxpr")


def test_operations_as_xla_has_them() -> None:
    def body(x: Any, by: Any) -> Any:
        return (x << by) + lax.rem(x, by - by)

    given = integers(1), integers(40)

    def launch(*arrays: Any) -> Any:
        def kernel(x_ref: Any, by_ref: Any, o_ref: Any) -> None:
            o_ref[...] = body(x_ref[...], by_ref[...])

        shape = jax.ShapeDtypeStruct((8, 128), jnp.int32)
        return pl.pallas_call(kernel, out_shape=shape)(*arrays)

    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(launch, given, {})
        assert traced.operations_with_edges() == ("shift_left", "rem")
        for as_xla, wanted in ((), 2 * ANY), (("rem",), ANY + 1), (("rem", "shift_left"), 1):
            (found,) = traced.run(given, Mode.STRICT, 1, as_xla=as_xla)
            assert found[0, 0] == wanted
