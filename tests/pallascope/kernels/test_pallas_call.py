"""What is read from a traced pallas_call, and what running one in each mode catches."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src import callback
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from pallascope.kernels import TracedLaunch, longest_sum, running
from pallascope.kernels.faster_interpreter import shuffled
from pallascope.kernels.jax_internals import CALLBACK_LOGGER, GPU_INTERPRETER
from pallascope.model import (
    ArrayType,
    FirstAccess,
    KernelCall,
    Mode,
    Operand,
    Role,
    Trace,
)
from tests.pallascope.support.launches import on_v5e, shape

Values = np.ndarray[Any, Any]
Function = Callable[..., Any]

X = np.arange(32 * 128, dtype=np.float32).reshape(32, 128)
ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
WHOLE = pl.BlockSpec(memory_space=pl.ANY)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


def double(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


def launch(
    kernel: Function = double,
    ins: Any = ROWS,
    outs: Any = ROWS,
    rows: int = 32,
    grid: tuple[int, ...] = (4,),
    parallel: bool = False,
    **others: Any,
) -> Function:
    """A launch function of one array, by default doubling it row block by row block."""
    if parallel:
        others["compiler_params"] = pltpu.CompilerParams(dimension_semantics=("parallel",))
    return lambda x: pl.pallas_call(
        kernel,
        grid=grid,
        in_specs=[ins],
        out_specs=outs,
        out_shape=jax.ShapeDtypeStruct((rows, 128), jnp.float32),
        **others,
    )(x)


def traced(function: Function, *args: Any, **kwargs: Any) -> Trace:
    return TracedLaunch.of(function, args or (X,), kwargs).trace()


def around(trace: Trace) -> list[str]:
    """The operations outside of the kernels, by name."""
    return [operation.name for operation in trace.outside]


def only(trace: Trace) -> KernelCall:
    (call,) = trace.calls
    return call


def run(function: Function, mode: Mode = Mode.STRICT, seed: int = 1, **others: Any) -> Values:
    return TracedLaunch.of(function, (X,), {}).run((X,), mode, seed, **others)[0]


# ---- operands ----


def accumulate(x_ref: Any, o_ref: Any, acc_ref: Any, n_ref: Any) -> None:
    @pl.when(pl.program_id(1) == 0)
    def _() -> None:
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += x_ref[...]
    o_ref[...] = acc_ref[...].astype(o_ref.dtype)


def batched(x: Any, *, bm: int) -> Any:
    return pl.pallas_call(
        accumulate,
        name="batched_sum",
        grid=(2, 16 // bm),
        in_specs=[pl.BlockSpec((None, bm, 256), lambda b, i: (b, i, 0))],
        out_specs=pl.BlockSpec((pl.Squeezed(), bm, 256), lambda b, i: (b, 0, 0)),
        out_shape=jax.ShapeDtypeStruct((2, bm, 256), jnp.bfloat16),
        scratch_shapes=[pltpu.VMEM((bm, 256), jnp.float32), pltpu.SMEM((1,), jnp.int32)],
        compiler_params=pltpu.CompilerParams(dimension_semantics=("parallel", "arbitrary")),
    )(x)


def test_a_kernel_is_read_as_data() -> None:
    call = only(traced(batched, np.ones((2, 16, 256), np.float32), bm=8))
    assert (call.name, call.grid, call.parallel) == ("batched_sum", (2, 2), (0,))
    assert call.callbacks == ()
    assert call.operands == (
        Operand(
            "x_ref",
            Role.INPUT,
            array=ArrayType("float32", (2, 16, 256)),
            block=(None, 8, 256),
            space="default",
            moves=True,
            axes=(0, 1),
            first=FirstAccess.READ,
        ),
        Operand(
            "o_ref",
            Role.OUTPUT,
            array=ArrayType("bfloat16", (2, 8, 256)),
            block=(None, 8, 256),
            space="default",
            moves=True,
            axes=(0,),
            first=FirstAccess.WRITE,
        ),
        Operand(
            "acc_ref",
            Role.SCRATCH,
            array=ArrayType("float32", (8, 256)),
            block=(8, 256),
            space="vmem",
            first=FirstAccess.GUARDED_WRITE,
            buffers=1,
        ),
        Operand(
            "n_ref", Role.SCRATCH, ArrayType("int32", (1,)), block=(1,), space="smem", buffers=1
        ),
    )


def moved(index: Any, x: Any, out: Any, into: Any) -> Any:
    """A copy of x[32, 128], whose blocks of eight rows go from and to where maps of `index` say."""

    def kernel(index_ref: Any, x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    return pl.pallas_call(
        kernel,
        grid_spec=pltpu.PrefetchScalarGridSpec(
            num_scalar_prefetch=1,
            grid=(4,),
            in_specs=[pl.BlockSpec((8, 128), out)],
            out_specs=pl.BlockSpec((8, 128), into),
        ),
        out_shape=jax.ShapeDtypeStruct((32, 128), jnp.float32),
    )(index, x)


def gathered(index: Any, x: Any) -> Any:
    return moved(index, x, lambda i, index: (index[i], 0), lambda i, index: (i, 0))


def scattered(index: Any, x: Any) -> Any:
    return moved(index, x, lambda i, index: (i, 0), lambda i, index: (index[i], 0))


def test_scalar_prefetch_comes_before_the_inputs() -> None:
    call = only(traced(gathered, np.arange(4, dtype=np.int32), X))
    index, x, o = call.operands
    assert (index.name, index.role, index.space) == ("index_ref", Role.PREFETCH, "smem")
    assert index.array == ArrayType("int32", (4,))
    assert (x.name, x.role, x.block, x.axes) == ("x_ref", Role.INPUT, (8, 128), (0,))
    assert (o.name, o.role, o.block) == ("o_ref", Role.OUTPUT, (8, 128))


def test_no_grid_is_one_step_on_whole_arrays() -> None:
    call = only(traced(launch(ins=pl.BlockSpec(), outs=pl.BlockSpec(), grid=())))
    assert call.grid == ()
    assert {o.block for o in call.operands} == {(32, 128)}
    assert not any(o.moves or o.axes for o in call.operands)
    assert call.name


def test_a_dynamic_grid_dimension_is_none() -> None:
    def dynamic(n: Any, x: Any) -> Any:
        return launch(grid=(n,))(x)

    assert only(traced(dynamic, np.int32(4), X)).grid == (None,)


@pytest.mark.parametrize(
    ("index_map", "moves", "axes"),
    [
        (lambda i, j: (0, 0), False, ()),
        (lambda i, j: (i * 0, 0), True, (0,)),
        (lambda i, j: (1, 0), True, ()),
        (lambda i, j: (j, 0), True, (1,)),
        (lambda i, j: (jnp.minimum(i + 2 * j, 3), 0), True, (0, 1)),
        (lambda i, j: (jax.lax.rem(j, 2), 0), True, (1,)),
    ],
)
def test_where_an_index_map_looks(index_map: Function, moves: bool, axes: tuple[int, ...]) -> None:
    spec = pl.BlockSpec((8, 128), index_map)
    ins, outs = only(traced(launch(ins=spec, outs=spec, grid=(2, 2)))).operands
    assert (ins.moves, ins.axes) == (outs.moves, outs.axes) == (moves, axes)


@pytest.mark.parametrize(
    ("space", "name"),
    [(None, "default"), (pltpu.VMEM, "vmem"), (pltpu.SMEM, "smem"), (pl.ANY, "any")],
)
def test_spaces_have_pallas_names(space: Any, name: str) -> None:
    spec = pl.BlockSpec(memory_space=space)
    call = only(traced(launch(lambda x_ref, o_ref: None, ins=spec)))
    assert call.role(Role.INPUT)[0].space == name


def test_block_sizes_of_other_kinds_are_their_elements() -> None:
    spec = pl.BlockSpec((pl.Element(8), pl.Blocked(128)), lambda i: (8 * i, 0))
    assert only(traced(launch(ins=spec))).role(Role.INPUT)[0].block == (8, 128)


@pytest.mark.parametrize("kind", ["parallel", pltpu.PARALLEL, pltpu.CORE_PARALLEL])
@pytest.mark.parametrize("other", ["arbitrary", pltpu.ARBITRARY])
def test_parallel_dimensions_are_counted_from_zero(kind: Any, other: Any) -> None:
    def two(x: Any) -> Any:
        semantics = (other, kind)
        spec = pl.BlockSpec((8, 128), lambda i, j: (j, 0))
        params = pltpu.CompilerParams(dimension_semantics=semantics)
        return launch(ins=spec, outs=spec, grid=(1, 4), compiler_params=params)(x)

    assert only(traced(two)).parallel == (1,)
    assert only(traced(launch())).parallel == ()


@pytest.mark.parametrize("guarded", [False, True])
def test_a_callback_in_the_body_is_seen(guarded: bool) -> None:
    def host(x_ref: Any, o_ref: Any) -> None:
        def store() -> None:
            o_ref[...] = jax.pure_callback(
                lambda v: v, jax.ShapeDtypeStruct((8, 128), jnp.float32), x_ref[...]
            )

        pl.when(pl.program_id(0) == 0)(store) if guarded else store()

    assert only(traced(launch(host))).callbacks == ("pure_callback",)


# ---- around the kernel ----


def test_operations_outside_are_listed_in_order_also_through_jit() -> None:
    def three(x: Any) -> Any:
        return jax.jit(lambda a: jnp.sin(launch()(a + 1).reshape(16, 256)))(x)

    trace = traced(three)
    assert around(trace) == ["add", "reshape", "sin"]
    assert trace.results == (ArrayType("float32", (16, 256)),)
    assert trace.from_kernel == (True,)
    assert len(trace.calls) == 1


def test_a_kernel_alone_has_nothing_outside() -> None:
    assert traced(launch()).outside == ()
    assert traced(jax.jit(launch())).outside == ()


@pytest.mark.parametrize("wrap", [lambda f: f, jax.jit, lambda f: jax.jit(jax.jit(f))])
def test_a_decoy_has_no_hand_in_the_result(wrap: Function) -> None:
    def decoy(x: Any) -> Any:
        launch()(x)
        return jnp.reshape(x, (16, 256))

    trace = traced(wrap(decoy))
    assert len(trace.calls) == 1
    assert trace.from_kernel == (False,)


def test_each_result_is_followed_on_its_own() -> None:
    trace = traced(lambda x: (x * 2, launch()(x), launch()(launch()(x)) + x, x))
    assert trace.from_kernel == (False, True, True, False)
    assert len(trace.calls) == 3


def test_each_result_is_followed_through_jit() -> None:
    both = jax.jit(lambda made, plain: (plain + 1, made * 2))
    assert traced(lambda x: both(launch()(x), x)).from_kernel == (False, True)


def test_a_loop_carries_what_the_kernel_made() -> None:
    def looped(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, a: launch()(a), x)

    trace = traced(looped)
    assert trace.from_kernel == (True,)
    assert {"scan", "while"} & set(around(trace))


@pytest.mark.parametrize("kernel_first", [False, True])
def test_either_branch_of_a_cond_may_hold_the_kernel(kernel_first: bool) -> None:
    def either(x: Any) -> Any:
        branches = [launch(), lambda a: a]
        return jax.lax.cond(x[0, 0] > 0, *(branches[::-1] if kernel_first else branches), x)

    trace = traced(either)
    assert len(trace.calls) == 1
    assert trace.from_kernel == (True,)


def test_no_kernel_at_all() -> None:
    trace = traced(lambda x: x * 2)
    assert (trace.calls, trace.from_kernel, around(trace)) == ((), (False,), ["mul"])


# ---- first touches ----


def first_of(kernel: Function, **others: Any) -> tuple[FirstAccess, ...]:
    return tuple(o.first for o in only(traced(launch(kernel, **others))).operands)


def read_modify_write(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] += x_ref[...]


def guarded_write(x_ref: Any, o_ref: Any) -> None:
    @pl.when(pl.program_id(0) > 0)
    def _() -> None:
        o_ref[...] = x_ref[...]


def guarded_write_then_read(x_ref: Any, o_ref: Any) -> None:
    guarded_write(x_ref, o_ref)
    o_ref[...] += 1.0


def nested(x_ref: Any, o_ref: Any) -> None:
    pl.when(pl.program_id(0) > 0)(lambda: guarded_write(x_ref, o_ref))


def in_a_loop(x_ref: Any, o_ref: Any) -> None:
    @pl.loop(0, 8)
    def _(row: Any) -> None:
        o_ref[pl.ds(row, 1)] = x_ref[pl.ds(row, 1)]


def guarded_loop(x_ref: Any, o_ref: Any) -> None:
    pl.when(pl.program_id(0) > 0)(lambda: in_a_loop(x_ref, o_ref))


def in_halves(x_ref: Any, o_ref: Any) -> None:
    o_ref.at[0:4][...] = x_ref[0:4]
    o_ref.at[4:8][...] = o_ref[0:4]


def write_then_read(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jnp.zeros_like(o_ref)
    o_ref[...] += x_ref[...]


def in_jit(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = jax.jit(lambda value: value * 2)(x_ref[...])


@pytest.mark.parametrize(
    ("kernel", "x", "o"),
    [
        (double, FirstAccess.READ, FirstAccess.WRITE),
        (lambda x_ref, o_ref: None, FirstAccess.NOTHING, FirstAccess.NOTHING),
        (read_modify_write, FirstAccess.READ, FirstAccess.READ),
        (guarded_write, FirstAccess.READ, FirstAccess.GUARDED_WRITE),
        (guarded_write_then_read, FirstAccess.READ, FirstAccess.GUARDED_WRITE),
        (nested, FirstAccess.READ, FirstAccess.GUARDED_WRITE),
        (in_a_loop, FirstAccess.READ, FirstAccess.WRITE),
        (guarded_loop, FirstAccess.READ, FirstAccess.GUARDED_WRITE),
        (in_halves, FirstAccess.READ, FirstAccess.WRITE),
        (write_then_read, FirstAccess.READ, FirstAccess.WRITE),
        (in_jit, FirstAccess.READ, FirstAccess.WRITE),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_what_is_done_first_to_a_ref(kernel: Function, x: FirstAccess, o: FirstAccess) -> None:
    assert first_of(kernel) == (x, o)


def test_what_is_done_first_inside_run_scoped() -> None:
    def scoped(x_ref: Any, o_ref: Any) -> None:
        def body(buffer: Any) -> None:
            buffer[...] = x_ref[...]
            o_ref[...] = buffer[...]

        pl.run_scoped(body, pltpu.VMEM((8, 128), jnp.float32))

    assert first_of(scoped) == (FirstAccess.READ, FirstAccess.WRITE)


# ---- the walk ----


def walked(function: Function, *args: Any, **kwargs: Any) -> Any:
    return TracedLaunch.of(function, args or (X,), kwargs).walk(args or (X,))


def test_the_walk_is_in_the_order_of_the_steps() -> None:
    walk = walked(batched, np.ones((2, 16, 256), np.float32), bm=8)
    assert walk.steps == ((0, 0), (0, 1), (1, 0), (1, 1))
    assert walk.outputs == (((0, 0, 0), (0, 0, 0), (1, 0, 0), (1, 0, 0)),)


def test_the_walk_evaluates_each_outputs_index_map() -> None:
    def two(x: Any) -> Any:
        return pl.pallas_call(
            lambda x_ref, a_ref, b_ref: None,
            grid=(3,),
            in_specs=[pl.BlockSpec((8, 128), lambda i: (7 * i, 0))],
            out_specs=[
                pl.BlockSpec((8, 128), lambda i: (2 - i, 0)),
                pl.BlockSpec((8, 128), lambda i: (jax.lax.div(i, 2), 1)),
            ],
            out_shape=[jax.ShapeDtypeStruct((32, 256), jnp.float32)] * 2,
        )(x)

    assert walked(two).outputs == (((2, 0), (1, 0), (0, 0)), ((0, 1), (0, 1), (1, 1)))


def test_the_walk_of_a_single_step() -> None:
    walk = walked(launch(ins=pl.BlockSpec(), outs=pl.BlockSpec(), grid=()))
    assert (walk.steps, walk.outputs) == (((),), (((0, 0),),))


def test_the_walk_is_the_last_kernels() -> None:
    backwards = pl.BlockSpec((8, 128), lambda i: (3 - i, 0))
    walk = walked(lambda x: launch(outs=backwards)(launch()(x)))
    assert walk.outputs == (((3, 0), (2, 0), (1, 0), (0, 0)),)


def test_the_walk_counts_blocks_where_the_index_map_counts_elements() -> None:
    rows = pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (8 * i, 0))
    assert walked(launch(outs=rows)).outputs == (((0, 0), (1, 0), (2, 0), (3, 0)),)


def test_the_walk_of_a_grid_without_steps() -> None:
    """A block larger than the array, and a grid that is rounded down: nothing is ever run."""
    walk = walked(launch(grid=(0,)))
    assert (walk.steps, walk.outputs) == ((), ((),))


def test_the_walk_follows_scalar_prefetch_and_a_dynamic_grid() -> None:
    order = np.array([2, 0, 3, 1], np.int32)
    assert walked(scattered, order, X).outputs == (((2, 0), (0, 0), (3, 0), (1, 0)),)
    dynamic = walked(lambda n, x: launch(grid=(n,))(x), np.int32(3), X)
    assert dynamic.outputs == (((0, 0), (1, 0), (2, 0)),)


def test_a_walk_that_is_not_known_before_the_run() -> None:
    assert walked(lambda x: scattered(launch()(x)[0, :4].astype(jnp.int32), x)) is None
    assert walked(lambda x: x + 1) is None
    assert walked(launch(grid=(5000,))) is None
    overlapping = pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (4 * i, 0))
    assert walked(launch(outs=overlapping)) is None


# ---- running ----

AGAIN = pl.BlockSpec((8, 128), lambda i: (jax.lax.rem(i, 2), 0))
ONE = pl.BlockSpec((8, 128), lambda i: (0, 0))
BEYOND = pl.BlockSpec((8, 128), lambda i: (i + 1, 0))


def store_nothing(x_ref: Any, o_ref: Any) -> None:
    pass


def read_beyond(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[pl.ds(8 + pl.program_id(0), 8)]


def store_beyond(x_ref: Any, o_ref: Any) -> None:
    o_ref[pl.ds(8 + pl.program_id(0), 8)] = x_ref[...]


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What the interpreter's callbacks raise, which reaches the caller as text at best."""
    texts: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            texts.append(str(record.exc_info[1]) if record.exc_info else record.getMessage())

    handler, logger = Handler(), logging.getLogger(CALLBACK_LOGGER)
    logger.addHandler(handler)
    logger.propagate = False
    yield texts
    logger.removeHandler(handler)
    logger.propagate = True


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET])
@pytest.mark.parametrize("parallel", [False, True])
def test_a_right_kernel_is_right(mode: Mode, parallel: bool) -> None:
    assert np.array_equal(run(launch(parallel=parallel), mode), X * 2)


def test_run_gives_every_result_on_the_host() -> None:
    held = TracedLaunch.of(lambda x: {"b": launch()(x), "a": x[:1]}, (X,), {})
    results = held.run((X,), Mode.STRICT, 1)
    assert [type(result) for result in results] == [np.ndarray, np.ndarray]
    assert [result.shape for result in results] == [(1, 128), (32, 128)]


def test_the_seed_shuffles_parallel_steps_and_no_others() -> None:
    """Each step stores what the step before it on the same core has left in scratch."""

    def left(x_ref: Any, o_ref: Any, last_ref: Any) -> None:
        o_ref[...] = last_ref[...]
        last_ref[...] = x_ref[...]

    def orders(parallel: bool) -> set[bytes]:
        scratch = [pltpu.VMEM((8, 128), jnp.float32)]
        function = launch(left, parallel=parallel, scratch_shapes=scratch)
        return {run(function, seed=seed)[::8, 0].tobytes() for seed in (0, 1, 3, 3)}

    assert len(orders(parallel=True)) == 3
    assert len(orders(parallel=False)) == 1


def test_no_seed_leaves_parallel_steps_in_their_order() -> None:
    """Two steps have one other order, and with it what depends on the order is always wrong."""
    params = pltpu.CompilerParams(dimension_semantics=("parallel", "parallel", "arbitrary"))
    for seed in range(20):
        two, five, none = map(np.asarray, shuffled((2, 5, 7), params, seed))
        assert two.tolist() == [1, 0]
        assert sorted(five.tolist()) == [0, 1, 2, 3, 4] != five.tolist()
        assert none.size == 0
    assert np.asarray(shuffled((1, 1, 1), params, 0)[0]).tolist() == [0]


def test_only_callbacks_of_the_interpreter_are_called_without_jax(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A callback of the launch's own gets what jax gives it: arrays on a device."""
    by_jax: list[Any] = []
    usual = callback.io_callback_impl

    def called(*args: Any, callback: Any, **params: Any) -> Any:
        by_jax.append(callback.callback_func)
        return usual(*args, callback=callback, **params)

    def own(x: Any) -> Values:
        assert isinstance(x, jax.Array)
        return np.asarray(x)

    def launched(x: Any) -> Any:
        aval = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return launch()(jax.experimental.io_callback(own, aval, x))

    monkeypatch.setattr(callback, "io_callback_impl", called)
    np.testing.assert_array_equal(run(launched), 2 * X)
    assert by_jax == [own]


def test_the_interpreter_of_gpu_kernels_is_not_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a quarter of a second, in every process; afterwards whoever wants it can have it."""
    monkeypatch.delitem(sys.modules, GPU_INTERPRETER, raising=False)  # another test may have had it
    with running(Mode.STRICT, 1):
        assert sys.modules[GPU_INTERPRETER] is None
        run(launch())
    assert GPU_INTERPRETER not in sys.modules


def test_memory_that_nothing_has_written() -> None:
    assert np.isnan(run(launch(store_nothing))).all()
    assert (run(launch(store_nothing), unwritten="zero") == 0).all()


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (launch(ins=BEYOND), 'Out-of-bounds block index (4, 0) for input "x_ref"'),
        (launch(outs=BEYOND), 'Out-of-bounds block index (4, 0) for output "o_ref"'),
        (launch(read_beyond), "Out-of-bounds read"),
        (launch(store_beyond), "Out-of-bounds swap"),
        (launch(outs=AGAIN, rows=16), "Revisited block"),
    ],
    ids=["input-index", "output-index", "read", "store", "revisit"],
)
def test_strict_raises_and_forgets(function: Function, says: str, heard: list[str]) -> None:
    """The next kernel of the same process finds no trace of the one that failed."""
    with pytest.raises(jax.errors.JaxRuntimeError):
        run(function)
    assert says in heard[0]
    for _ in range(2):
        assert np.array_equal(run(launch(parallel=True)), X * 2)


def test_strict_tells_of_a_race(heard: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    """jax 0.10 prints it, jax 0.12 raises."""
    try:
        run(launch(read_modify_write, outs=ONE, rows=8, parallel=True))
    except jax.errors.JaxRuntimeError:
        assert "RACE DETECTED" in heard[0]
    else:
        assert "RACE DETECTED" in capfd.readouterr().out
    assert np.array_equal(run(launch(parallel=True)), X * 2)


def test_the_plain_interpreter_forgives() -> None:
    assert np.array_equal(run(launch(outs=AGAIN, rows=16), Mode.INTERPRET), X[16:] * 2)


def test_the_interpreters_memory_is_dropped_after_an_exception(
    monkeypatch: pytest.MonkeyPatch, heard: list[str]
) -> None:
    """Its buffers and clocks, and JAX's tokens, on which a later callback would wait."""
    from jax._src.dispatch import runtime_tokens

    drops = []
    monkeypatch.setattr(pltpu, "reset_tpu_interpret_mode_state", lambda: drops.append(1))
    run(launch())
    assert not drops
    with pytest.raises(jax.errors.JaxRuntimeError):
        run(launch(ins=BEYOND))
    assert heard
    assert len(drops) == 1
    assert not runtime_tokens.current_tokens


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET, Mode.COMPILED])
def test_an_exception_passes_through(mode: Mode) -> None:
    with pytest.raises(ZeroDivisionError), running(mode, 1):
        raise ZeroDivisionError


@pytest.mark.parametrize("mode", [Mode.STRICT, Mode.INTERPRET])
def test_the_mode_ends_with_its_context(mode: Mode) -> None:
    run(launch(), mode)
    with pytest.raises(ZeroDivisionError), running(mode, 1):
        raise ZeroDivisionError
    with pytest.raises(ValueError, match=r"[Oo]nly interpret mode is supported"):
        TracedLaunch.of(launch(), (X,), {}).run((X,), Mode.COMPILED)


def test_compiled_mode_compiles() -> None:
    with pytest.raises(ValueError, match=r"[Oo]nly interpret mode is supported"):
        run(launch(), Mode.COMPILED)


# ---- sums ----


@pytest.mark.parametrize(
    ("function", "shapes", "terms"),
    [
        (lambda x: x + 1, [(4, 7)], 1),
        (lambda x: x.max(1), [(4, 7)], 1),
        (lambda x: x.sum(1), [(4, 7)], 7),
        (lambda x: x.sum(), [(4, 7)], 28),
        (lambda x: jnp.mean(x, 0), [(4, 7)], 4),
        (lambda x: jnp.prod(x, 0), [(4, 7)], 4),
        (lambda x: jnp.cumsum(x, 1), [(5, 7)], 7),
        (lambda x: jax.nn.softmax(x, axis=0), [(5, 7)], 5),
        (lambda x, y: x @ y, [(4, 32), (32, 8)], 32),
        (lambda x, y: jnp.einsum("bij,bjk->bik", x, y), [(9, 4, 5), (9, 5, 3)], 5),
        (lambda x, y: jnp.einsum("bij,bij->b", x, y), [(9, 4, 5), (9, 4, 5)], 20),
        (lambda x, y: (x.sum(0), y.sum(0)), [(9, 4), (30, 2)], 30),
        (jax.jit(lambda x: jax.jit(lambda a: a.sum(1))(x)), [(4, 7)], 7),
        (lambda x: jax.lax.scan(lambda c, a: (c + a, a), x[0], x)[0], [(9, 4)], 9),
        (lambda x, y: jax.lax.conv(x, y, (1, 1), "SAME"), [(1, 3, 8, 8), (5, 3, 2, 2)], 12),
        (lambda x: jax.ops.segment_sum(x, jnp.zeros(6, jnp.int32), 2), [(6, 4)], 6),
    ],
)
def test_the_longest_sum(function: Function, shapes: list[tuple[int, ...]], terms: int) -> None:
    assert longest_sum(function, [np.ones(shape, np.float32) for shape in shapes], {}) == terms


def test_the_longest_sum_may_depend_on_keywords() -> None:
    def blocks(x: Any, *, bn: int) -> Any:
        return x.reshape(-1, bn).sum(1)

    assert longest_sum(blocks, [np.ones(64, np.float32)], {"bn": 16}) == 16


def test_the_sum_of_a_scalar_has_one_term() -> None:
    assert longest_sum(jnp.sum, [np.ones((), np.float32)], {}) == 1


def test_what_a_function_of_jaxs_own_stands_for_is_read() -> None:
    """The newest jax traces jnp.searchsorted and others as one operation, which names nothing."""

    def search(x: Any, y: Any) -> Any:
        return jnp.searchsorted(x, y, side="right")

    traced = TracedLaunch.of(search, [np.arange(8.0), np.arange(5.0)], {}).trace(__file__)
    names = {operation.name for operation in traced.outside}
    assert {"scan", "gather"} <= names
    assert "call_hi_primitive" not in names
    (loop,) = [operation for operation in traced.outside if operation.name == "scan"]
    assert loop.line == search.__code__.co_firstlineno + 1


def test_an_output_that_begins_as_an_input_is_aliased_and_so_is_the_input() -> None:
    def add(x_ref: Any, o_ref: Any, p_ref: Any) -> None:
        o_ref[...] = p_ref[...] = x_ref[...] + 1

    def launch(x: Any) -> Any:
        results = [jax.ShapeDtypeStruct(x.shape, x.dtype)] * 2
        return pl.pallas_call(add, out_shape=results, input_output_aliases={0: 1})(x)

    call = on_v5e(launch, shape("float32", 8, 128)).call
    assert [operand.aliased for operand in call.operands] == [True, False, True]
