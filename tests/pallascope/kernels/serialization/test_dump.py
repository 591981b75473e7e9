"""What is not carried is refused by name and line; functions are left behind."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import io_callback
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.extend import core

from pallascope.kernels.calls import kernel_call
from pallascope.kernels.lowering import for_chip
from pallascope.kernels.serialization import (
    NotSerializable,
    array_encoders,
    dumped,
    loaded,
    with_interpret,
)
from pallascope.kernels.serialization.python_encoders import NotSerializedCall
from tests.pallascope.support.sample_traces import NESTED, X, carried, doubling, like, run, traced


def own_operation(x: Any) -> Any:
    own = core.Primitive("reshape")
    own.def_abstract_eval(lambda aval: aval)
    return own.bind(x)  # here


def own_operation_in_a_kernel(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = own_operation(x_ref[...])

    return pl.pallas_call(kernel, out_shape=like(x))(x)


def checked(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        pl.debug_check(x_ref[0, 0] > 0, "not positive")  # here
        o_ref[...] = x_ref[...]

    return pl.pallas_call(kernel, out_shape=like(x))(x)


def flags(x: Any) -> Any:
    params = pltpu.CompilerParams(flags={"xla_tpu_enable": True})
    return doubling(compiler_params=params)(x)


def large_constant(x: Any) -> Any:
    table = jnp.asarray(np.ones((5 << 20,), np.float32))
    return x + table.sum()  # here


def large_literal(x: Any) -> Any:
    table = np.ones((5 << 20,), np.float32)
    return x + jnp.multiply(table, 2)[0]  # here


def to_a_device(x: Any) -> Any:
    return jax.device_put(x, jax.devices()[0])  # here


class Tree:
    """A class that JAX learns to take apart."""


jax.tree_util.register_pytree_node(Tree, lambda tree: ((), None), lambda *_: Tree())


def print_that_peeks(x: Any) -> Any:
    jax.debug.print("{x.__class__}", x=x)  # here
    return x


def print_that_peeks_in_a_width(x: Any) -> Any:
    jax.debug.print("{x:{y[0]}}", x=x[0, 0], y=x, skip_format_check=True)  # here
    return x


def metadata(x: Any) -> Any:
    jax.debug.print("{x} {y}", x=x, y=Tree())  # here
    return x


REFUSED: tuple[tuple[Callable[..., Any], str], ...] = (
    (own_operation, "the operation reshape, which is not one of JAX's own"),
    (own_operation_in_a_kernel, "the operation reshape, which is not one of JAX's own"),
    (checked, "a pl.debug_check"),
    (to_a_device, "a device_put to a device"),
    (flags, "the flags of CompilerParams"),
    (large_constant, "a constant float32[5242880] of 20 MiB"),
    (large_literal, "a constant float32[5242880] of 20 MiB"),
    (print_that_peeks, "a debug print whose format looks into its values"),
    (print_that_peeks_in_a_width, "a debug print whose format looks into its values"),
    (metadata, "Tree"),
)


@pytest.mark.parametrize(("launch", "says"), REFUSED)
def test_refused(launch: Callable[..., Any], says: str) -> None:
    with pytest.raises(NotSerializable) as refused:
        dumped(traced(launch, X))
    assert says in str(refused.value)
    of = own_operation if launch is own_operation_in_a_kernel else launch
    lines, first = inspect.getsourcelines(of)
    here = [first + at for at, line in enumerate(lines) if line.endswith("# here\n")]
    assert here == [refused.value.place] or not here


def test_devices_that_exist() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("d",))

    def launch(x: Any) -> Any:
        spec = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("d"))
        return jax.lax.with_sharding_constraint(x, spec)

    with pytest.raises(NotSerializable, match="a mesh of devices that exist"):
        dumped(jax.jit(launch).trace(X).jaxpr)


def test_nested_too_deeply() -> None:
    closed = traced(jax.jit(lambda x: x + 1), X)
    for _ in range(1000):
        (eqn,) = closed.eqns
        outer = closed.jaxpr.replace(eqns=[eqn.replace(params={**eqn.params, "jaxpr": closed})])
        closed = core.ClosedJaxpr(outer, ())
    with pytest.raises(NotSerializable, match="too deeply"):
        dumped(closed)


def called_back(x: Any) -> Any:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = jax.pure_callback(np.sin, like(x), x_ref[...])

    return pl.pallas_call(kernel, out_shape=like(x))(x)


def test_callbacks_are_still_seen_and_do_not_run() -> None:
    closed = carried(traced(called_back, X))
    assert kernel_call(closed.eqns[0]).callbacks == ("pure_callback",)
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"sin has stayed in the process"):
        run(with_interpret(closed, True), X)


@pytest.mark.parametrize("call", ["io_callback", "debug_callback"])
def test_callbacks_outside_of_kernels_do_not_run(call: str) -> None:
    ran = []

    def launch(x: Any) -> Any:
        if call == "io_callback":
            return io_callback(lambda y: ran.append(1) or y, like(x), x)
        jax.debug.callback(lambda _: ran.append(1), x)
        return x

    def ran_to_the_end() -> None:
        run(closed, X)
        jax.effects_barrier()

    closed = carried(traced(launch, X))
    with pytest.raises((NotSerializedCall, jax.errors.JaxRuntimeError)):
        ran_to_the_end()
    assert not ran


def test_rules_of_derivatives_are_left_behind() -> None:
    closed = carried(traced(NESTED["custom_vjp"], X))
    params = closed.eqns[0].params
    with pytest.raises(NotSerializedCall, match="has stayed in the process that traced it"):
        params["bwd"].call_wrapped(X)


@pytest.mark.parametrize("by", [pl.debug_print, jax.debug.print])
def test_debug_prints_print(by: Any, capfd: pytest.CaptureFixture[str]) -> None:
    def launch(x: Any) -> Any:
        def kernel(x_ref: Any, o_ref: Any) -> None:
            by("the second is {}", x_ref[0, 1])
            o_ref[...] = x_ref[...]

        return pl.pallas_call(kernel, out_shape=like(x))(x)

    closed = carried(traced(launch, X))
    run(with_interpret(closed, pltpu.InterpretParams()), X)
    jax.effects_barrier()
    assert "the second is 1.0" in capfd.readouterr().out


def test_constants_keep_their_types() -> None:
    weak, keys = jnp.asarray(2.0), jax.random.key(7)
    half = np.arange(128).astype(jnp.bfloat16)

    def launch(x: Any) -> Any:
        return x * weak + jax.random.uniform(keys, x.shape), half + 1, np.int64(3) + x[0]

    closed = traced(launch, X)
    again = carried(closed)
    assert again.out_avals == closed.out_avals
    for one, other in zip(*(core.jaxpr_as_fun(c)(X) for c in (closed, again)), strict=True):
        np.testing.assert_array_equal(one, other)


def test_gradients_of_integers_have_no_bytes() -> None:
    zeros = np.zeros((2, 3), jax.dtypes.float0)
    again = array_encoders.array(*array_encoders.array_parts(zeros))
    assert (again.dtype, again.shape) == (zeros.dtype, zeros.shape)


@pytest.mark.parametrize(("kind", "cores"), [("TPU v6 lite", 1), ("TPU v5", 2)])
def test_the_chip_is_that_of_the_surroundings(kind: str, cores: int) -> None:
    """What was traced for one chip is judged on others: a launch can't be another one there."""
    data = dumped(traced(lambda x: x + 1, X))
    with for_chip(kind, cores):
        here = jax.sharding.get_abstract_mesh().abstract_device
        (eqn,) = loaded(data).jaxpr.eqns
    assert eqn.ctx.cur_abstract_mesh.abstract_device == here
