"""Which values are known before a kernel runs, and where its blocks lie then."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu.megablox.gmm import gmm
from jax.sharding import PartitionSpec

from pallascope.kernels import TracedLaunch, index_maps
from pallascope.kernels.host_values import computed, known_values
from pallascope.kernels.lowering import TracedKernel, for_chip
from tests.pallascope.support import manual_dma_launches
from tests.pallascope.support.launches import copies, on_v5e, shape

Function = Callable[..., Any]

X = shape("float32", 32, 128)
TABLE = np.array([3, 1, 0, 2], np.int32)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def gathered(table: Any, x: Any, index_map: Function | None = None) -> Any:
    """Copies the row blocks of x in the order of a scalar-prefetch table."""

    def kernel(table_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), index_map or (lambda i, table: (table[i], 0)))],
            out_specs=pl.BlockSpec((8, 128), lambda i, table: (i, 0)),
        ),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )(table, x)


def kernels(function: Function, *args: Any) -> tuple[TracedKernel, ...]:
    with for_chip("TPU v5 lite", 1):
        return TracedLaunch.of(function, args, {}).kernels(args)


def tables(function: Function, *args: Any) -> list[list[int] | None]:
    """What is known of each kernel's table."""
    values = [kernel.values[0] for kernel in kernels(function, *args)]
    return [None if value is None else value.tolist() for value in values]


def starts(kernel: TracedKernel, operand: int) -> Any:
    steps = kernel.block_positions().starts[operand]
    return None if steps is None else steps.tolist()


# ---- values ----


def twice(table: Any) -> Any:
    return table + table


@jax.custom_jvp
def own_jvp(table: Any) -> Any:
    return twice(table)


@jax.custom_vjp
def own_vjp(table: Any) -> Any:
    return twice(table)


own_jvp.defjvp(lambda primals, tangents: (own_jvp(*primals), tangents[0]))
own_vjp.defvjp(lambda table: (own_vjp(table), None), lambda _, cotangent: (cotangent,))


def looped(table: Any) -> Any:
    return jax.lax.fori_loop(0, table[2] + 1, lambda _, t: twice(t), table)


def scanned(table: Any) -> Any:
    return jax.lax.scan(lambda carry, t: (carry, t + t), 0, table)[1]


def chosen(table: Any) -> Any:
    return jax.lax.cond(table[0] > 2, twice, lambda t: t, table)


@pytest.mark.parametrize(
    "compute",
    [
        twice,
        jax.jit(twice),
        jax.jit(jax.jit(twice)),
        jax.checkpoint(twice),
        jax.jit(own_jvp),
        jax.jit(own_vjp),
        looped,
        scanned,
        chosen,
        lambda t: t // np.int32(1) * 2,
        lambda t: jnp.array([6, 2, 0, 4]) + jnp.zeros_like(t),
    ],
)
def test_a_table_is_computed_on_the_host(compute: Function) -> None:
    assert tables(lambda t, x: gathered(compute(t), x), TABLE, X) == [[6, 2, 0, 4]]


def test_what_was_given_is_known() -> None:
    (kernel,) = kernels(gathered, TABLE, np.zeros((32, 128), np.float32))
    table, x = kernel.values
    assert table is not None
    assert table.dtype == np.int32
    assert table.tolist() == [3, 1, 0, 2]
    assert x is None  # an input's contents are not needed
    assert tables(lambda x: gathered(TABLE, x), X) == [[3, 1, 0, 2]]


def test_arguments_may_be_nested() -> None:
    assert tables(lambda both: gathered(both["t"], both["x"]), {"t": TABLE, "x": X}) == [
        [3, 1, 0, 2]
    ]


def test_only_what_a_table_depends_on_is_computed() -> None:
    """The product would take a CPU minutes, and much memory."""

    def launch(table: Any, x: Any) -> Any:
        large = jnp.ones((1 << 18, 1 << 18)) @ jnp.ones((1 << 18, 1 << 18))
        return gathered(table * 2, x) + large.sum()

    assert tables(launch, TABLE, X) == [[6, 2, 0, 4]]


def given_shape(table: Any, x: Any) -> Any:
    return gathered(table * 2, x)


def made_by_a_kernel(table: Any, x: Any) -> Any:
    return gathered(gathered(table, x)[0, :4].astype(jnp.int32), x)


def carried_by_a_loop(table: Any, x: Any) -> Any:
    return jax.lax.fori_loop(0, 3, lambda _, c: (c[0][::-1], gathered(*c)), (table, x))[1]


@pytest.mark.parametrize(
    ("function", "table", "known"),
    [
        (given_shape, shape("int32", 4), [None]),
        (made_by_a_kernel, TABLE, [[3, 1, 0, 2], None]),
        (carried_by_a_loop, TABLE, [None]),
    ],
)
def test_what_is_not_known_before_the_run(
    function: Function, table: Any, known: list[list[int] | None]
) -> None:
    assert tables(function, table, X) == known


def test_a_launchs_own_callbacks_are_not_called() -> None:
    called: list[Any] = []

    def launch(table: Any, x: Any) -> Any:
        known = jax.pure_callback(lambda t: called.append(t) or t, shape("int32", 4), table)
        return gathered(known, x)

    assert tables(launch, TABLE, X) == [None]
    assert called == []


def test_no_kernel_is_run_for_a_value() -> None:
    """Also where it could be, in the interpreter, and stands in a loop."""

    def launch(table: Any, x: Any) -> Any:
        y, _ = jax.lax.scan(lambda carry, _: (gathered(table, carry), None), x, None, length=2)
        return gathered(y[:4, 0].astype(jnp.int32), x)

    assert tables(launch, TABLE, np.zeros((32, 128), np.float32)) == [[3, 1, 0, 2], None]


def test_the_host_does_not_pretend_to_be_a_tpu() -> None:
    def device(x: Any) -> list[Any]:
        devices.append(jax.sharding.get_abstract_mesh().abstract_device)
        return [x]

    devices: list[Any] = []
    with for_chip("TPU v5 lite", 1):
        results = computed(device, TABLE)
    assert results
    assert results[0].tolist() == [3, 1, 0, 2]
    assert devices == [None]


def test_what_the_host_can_not_compute_is_not_known() -> None:
    """The rest is, although all is computed together where that works."""

    def launch(table: Any, x: Any) -> Any:
        foreign = jax.ffi.ffi_call("only_there", shape("int32", 4))(table)
        return gathered(table + table, gathered(foreign, x))

    assert tables(launch, TABLE, X) == [None, [6, 2, 0, 4]]


def test_a_function_that_is_called_twice_has_two_tables() -> None:
    """Both calls share one traced body."""
    body = jax.jit(gathered)
    assert tables(lambda t, x: body(t + 1, body(t, x)), TABLE, X) == [[3, 1, 0, 2], [4, 2, 1, 3]]


@pytest.mark.parametrize("wrap", [jax.jit, jax.checkpoint])
def test_a_kernel_in_a_function_that_is_called(wrap: Function) -> None:
    assert tables(lambda t, x: wrap(gathered)(t + t, x), TABLE, X) == [[6, 2, 0, 4]]


def test_a_branch_and_a_scan_see_what_does_not_change() -> None:
    def branch(t: Any, x: Any) -> Any:
        return jax.lax.cond(x[0, 0] > 0, gathered, lambda t, x: x, t, x)

    def scan(t: Any, x: Any) -> Any:
        return jax.lax.scan(lambda carry, _: (gathered(t, carry), None), x, None, length=2)[0]

    assert tables(branch, TABLE, X) == [[3, 1, 0, 2]]
    assert tables(scan, TABLE, X) == [[3, 1, 0, 2]]


def test_a_long_trace_is_no_deep_recursion() -> None:
    def launch(table: Any, x: Any) -> Any:
        for _ in range(600):
            table = (table + table) - table
        return gathered(table, x)

    assert tables(launch, TABLE, X) == [[3, 1, 0, 2]]


# ---- blocks ----


def test_blocks_start_where_the_table_says() -> None:
    kernel = on_v5e(gathered, TABLE, X)
    assert starts(kernel, 0) is None
    assert starts(kernel, 1) == [[24, 0], [8, 0], [0, 0], [16, 0]]
    assert starts(kernel, 2) == [[0, 0], [8, 0], [16, 0], [24, 0]]
    assert kernel.block_positions().unknown == ("", "", "")
    assert kernel.block_positions().grid == (4,)


def test_a_table_that_is_not_known_hides_only_its_readers_blocks() -> None:
    positions = on_v5e(gathered, shape("int32", 4), X).block_positions()
    assert positions.starts[1] is None
    assert "scalar prefetch" in positions.unknown[1]
    assert positions.starts[2] is not None
    assert positions.unknown[2] == ""


def test_a_table_that_no_map_looks_at_hides_nothing() -> None:
    idle = functools.partial(gathered, index_map=lambda i, table: (3 - i, 0))
    kernel = on_v5e(idle, shape("int32", 4), X)
    assert starts(kernel, 1) == [[24, 0], [16, 0], [8, 0], [0, 0]]


@pytest.mark.parametrize("rows", [3, 0, -1])
def test_the_size_of_a_dynamic_grid(rows: int) -> None:
    def launch(n: Any, x: Any) -> Any:
        return copies("float32", (32, 128), ROWS, grid=(n // 2,))[0](x)

    kernel = on_v5e(launch, np.int32(2 * rows), X)
    assert kernel.call.grid == (None,)
    assert kernel.block_positions().grid == (max(rows, 0),)
    assert starts(kernel, 0) == [[8 * i, 0] for i in range(rows)]
    hidden = on_v5e(launch, shape("int32"), X).block_positions()
    assert hidden.grid == (None,)
    assert hidden.starts == (None, None)
    assert "size of the grid is not known" in hidden.unknown[0]


def test_units_of_block_sizes() -> None:
    """An index map counts blocks, but elements along squeezed and Element dimensions."""
    spec = pl.BlockSpec((None, 8, 128), lambda b, i: (b, i, 0))
    kernel = on_v5e(*copies("float32", (2, 16, 128), spec, grid=(2, 2)))
    assert starts(kernel, 0) == [[0, 0, 0], [0, 8, 0], [1, 0, 0], [1, 8, 0]]
    spec = pl.BlockSpec((pl.Element(16), pl.Element(128)), lambda i: (8 * i, 0))
    kernel = on_v5e(*copies("float32", (32, 128), spec, grid=(3,)))
    assert starts(kernel, 0) == [[0, 0], [8, 0], [16, 0]]
    assert kernel.call.operands[0].element


def test_starts_are_int32_in_the_order_of_the_steps() -> None:
    spec = pl.BlockSpec((8, 128), lambda i, j: (j, i))
    steps = on_v5e(*copies("float32", (16, 384), spec, grid=(3, 2))).block_positions().starts[0]
    assert steps is not None
    assert steps.dtype == np.int32
    assert steps.tolist() == [[8 * j, 128 * i] for i in range(3) for j in range(2)]


def test_a_kernel_without_a_grid_has_one_step() -> None:
    kernel = on_v5e(*copies("float32", (32, 128), pl.BlockSpec((32, 128)), grid=()))
    assert starts(kernel, 0) == [[0, 0]]


def test_too_many_steps_are_a_reason() -> None:
    kernel = on_v5e(*copies("float32", (32, 128), ROWS, grid=(4,)))
    positions = index_maps.positions_of(kernel.equation, (), most=3)
    assert positions.starts == (None, None)
    assert positions.unknown[0] == "the grid has 4 steps, and at most 3 are evaluated"
    large = copies(
        "float32", (32, 128), pl.BlockSpec((8, 128), lambda i: (i % 4, 0)), grid=(1 << 22,)
    )
    assert "4,194,304 steps" in on_v5e(*large).block_positions().unknown[0]


def test_blocks_that_are_cut_at_run_time_are_a_reason() -> None:
    spec = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(8 * i, 8), 0))
    positions = on_v5e(*copies("float32", (32, 128), spec, ROWS, grid=(4,))).block_positions()
    assert positions.starts[0] is None
    cut = "pl.BoundedSlice blocks are cut at run time"
    assert positions.unknown[0] == cut
    assert positions.starts[1] is not None


@pytest.mark.parametrize(
    ("read_off", "evaluated"),
    [
        (lambda i, j: (j, i), lambda i, j: (1 * j, 1 * i)),
        (lambda i, j: (i, i), lambda i, j: (i + 0, i + 0)),
        (lambda i, j: (2, j), lambda i, j: (j - j + 2, j + 0)),
        (lambda i, j: (1, 0), lambda i, j: (i - i + 1, j - j)),
    ],
)
def test_a_map_that_computes_nothing_is_read_off(
    read_off: Function, evaluated: Function, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a program that would have to be compiled, and with the same result."""

    def positions(index_map: Function) -> list[Any]:
        block = pl.BlockSpec((8, 128), index_map)
        kernel = on_v5e(*copies("float32", (32, 512), block, block, grid=(4, 3)))
        return [starts(kernel, operand) for operand in range(2)]

    expected = positions(evaluated)
    monkeypatch.setattr(index_maps, "computed", None)
    assert positions(read_off) == expected
    assert len(expected[0]) == 12


def test_buffers_are_the_specs() -> None:
    once = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(1))
    thrice = pl.BlockSpec((8, 128), lambda i: (i, 0), pipeline_mode=pl.Buffered(3))
    whole = pl.BlockSpec((32, 128), lambda i: (0, 0))
    kernel = on_v5e(*copies("float32", (32, 128), once, thrice, grid=(4,)))
    assert [o.buffers for o in kernel.call.operands] == [1, 3]
    kernel = on_v5e(*copies("float32", (32, 128), ROWS, ROWS, grid=(4,)))
    assert [o.buffers for o in kernel.call.operands] == [2, 2]
    kernel = on_v5e(*copies("float32", (32, 128), whole, whole, grid=(4,)))
    assert [o.buffers for o in kernel.call.operands] == [1, 1]


# ---- a production kernel ----


def test_the_group_metadata_of_megablox() -> None:
    """A grouped matmul: its grid and its tables are computed from the sizes of the groups.

    Groups of 100, 300, 500 and 124 rows lie in 8 tiles of 128. Three tiles hold a border that is no
    edge of a tile, so 11 pairs of group and tile are visited.
    """
    kernel = on_v5e(
        functools.partial(gmm, tiling=(128, 128, 128)),
        shape("bfloat16", 1024, 256),
        shape("bfloat16", 4, 256, 512),
        np.array([100, 300, 500, 124], np.int32),
    )
    positions = kernel.block_positions()
    assert positions.grid == (4, 11, 2)
    groups = [0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3]
    tiles = [0, 0, 1, 2, 3, 3, 4, 5, 6, 7, 7]
    lhs, rhs, out = (at for at in positions.starts if at is not None)
    steps = [(n, t, k) for n in range(4) for t in range(11) for k in range(2)]
    assert lhs.tolist() == [[128 * tiles[t], 128 * k] for n, t, k in steps]
    assert rhs.tolist() == [[groups[t], 128 * k, 128 * n] for n, t, k in steps]
    assert out.tolist() == [[128 * tiles[t], 128 * n] for n, t, k in steps]


def test_what_a_kernel_copies_into_smem_is_known() -> None:
    tables, x = np.array([[1, 0], [2, 3]], np.int32), shape("float32", 64, 128)
    kernel = on_v5e(manual_dma_launches.gather_over_a_mesh, tables, x)
    known, floats = kernel.values
    assert known is not None
    assert (known == tables).all()
    assert floats is None


def test_what_other_devices_send_is_known_within_a_shard_map() -> None:
    """Each device tells all others a size; the one with the most to do is shown."""

    def double(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = 2 * x_ref[...]

    def launch(x: jax.Array, sizes: jax.Array) -> jax.Array:
        def on_each(x: jax.Array, sizes: jax.Array) -> jax.Array:
            steps = jax.lax.all_to_all(sizes[0], "x", 0, 0).sum()
            rows = pl.BlockSpec((8, 128), lambda i: (i, 0))
            return pl.pallas_call(
                double,
                grid=(steps,),
                in_specs=[rows],
                out_specs=rows,
                out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
            )(x)

        cut = PartitionSpec("x")
        mesh = jax.sharding.get_abstract_mesh()
        return jax.shard_map(on_each, mesh=mesh, in_specs=cut, out_specs=cut, check_vma=False)(
            x, sizes
        )

    sizes = np.array([[1, 2, 0, 0], [0, 3, 0, 1], [0, 1, 0, 1], [1, 1, 0, 0]], np.int32)
    with for_chip("TPU v5e", 1, (("x", 4),)):
        x = jax.ShapeDtypeStruct((256, 128), jnp.float32)
        closed = jax.jit(launch).trace(x, sizes).jaxpr
        (steps, *_), *_ = known_values(closed, [x, sizes])
    assert steps is not None
    assert int(steps) == sizes.sum(0).max()
