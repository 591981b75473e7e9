"""What is called a bitcast is one for libtpu, and what moves bytes is not called so."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental import pallas as pl

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.tpu import libtpu
from pallascope.tpu.chips import named

V5E = named("v5e")
Function = Callable[[Any], Any]

FREE: dict[str, tuple[Function, tuple[int, ...]]] = {
    "leading dimensions merged": (lambda x: x.reshape(6, 16, 256), (2, 3, 16, 256)),
    "rows split": (lambda x: x.reshape(4, 32, 256), (128, 256)),
    "rows merged": (lambda x: x.reshape(128, 384), (4, 32, 384)),
    "a leading dimension added": (lambda x: x[None], (32, 256)),
    "a leading dimension taken": (lambda x: x[0], (1, 32, 256)),
    "leading ones moved": (lambda x: x.transpose(1, 0, 2, 3), (1, 4, 16, 256)),
    "a vector as rows": (lambda x: x.reshape(-1, 128), (32 * 128,)),
}
MOVES: dict[str, tuple[Function, tuple[int, ...]]] = {
    "columns split": (lambda x: x.reshape(32, 2, 128), (32, 256)),
    "a matrix transposed": (lambda x: x.T, (256, 128)),
    "a square transposed": (lambda x: x.T, (256, 256)),
    "leading dimensions swapped": (lambda x: x.transpose(1, 0, 2, 3), (4, 2, 16, 256)),
    "a vector as a column": (lambda x: x[:, None], (4096,)),
    "an odd vector as a row": (lambda x: x[None], (300,)),
    "part of the rows": (lambda x: x[:8], (32, 256)),
    "rows repeated": (lambda x: jnp.broadcast_to(x, (4, 256)), (1, 256)),
}
DTYPES = pytest.mark.parametrize("dtype", ["float32", "bfloat16"])


def around(change: Function) -> Function:
    """A kernel that copies what the change makes."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...]

    def launch(x: Any) -> Any:
        made = change(x)
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(made.shape, made.dtype))(made)

    return launch


def outside(change: Function, shape: tuple[int, ...], dtype: str) -> list[str]:
    given = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype))
    with for_chip(V5E.kind, V5E.cores):
        return [one.name for one in TracedLaunch.of(around(change), [given], {}).trace().outside]


@DTYPES
@pytest.mark.parametrize("name", FREE)
def test_what_moves_nothing(name: str, dtype: str) -> None:
    assert not outside(*FREE[name], dtype)


@DTYPES
@pytest.mark.parametrize("name", MOVES)
def test_what_moves(name: str, dtype: str) -> None:
    assert outside(*MOVES[name], dtype)


@DTYPES
def test_a_single_element_is_not_worth_telling(dtype: str) -> None:
    assert not outside(lambda x: x.reshape(1, 1), (1,), dtype)


def reshape(*shape: int) -> Function:
    return lambda x: x.reshape(shape)


Change = tuple[Function, tuple[int, ...]]
#: Reshapes of ranks 1 to 4, at tiles, below and above them.
RESHAPES: list[Change] = [
    (reshape(*made), given)
    for given, made in [
        ((100,), (1, 100)),
        ((256,), (2, 128)),
        ((300,), (1, 300)),
        ((384,), (3, 128)),
        ((512,), (4, 128)),
        ((512,), (1, 1, 512)),
        ((1792,), (14, 128)),
        ((2048,), (8, 256)),
        ((8192,), (64, 128)),
        ((4, 128), (512,)),
        ((8, 128), (1024,)),
        ((5, 128), (640,)),
        ((1, 100), (100,)),
        ((8, 256), (16, 128)),
        ((24, 256), (3, 8, 256)),
        ((24, 256), (2, 12, 256)),
        ((64, 256), (2, 32, 256)),
        ((64, 128), (4, 16, 128)),
        ((64, 256), (8, 8, 256)),
        ((8, 8, 256), (64, 256)),
        ((128, 256), (2, 64, 256)),
        ((12, 100), (3, 4, 100)),
        ((8, 130), (8, 1, 130)),
        ((2, 8, 130), (16, 130)),
        ((2, 4, 128), (8, 128)),
        ((5, 1, 128), (5, 128)),
        ((1, 7, 130), (7, 130)),
        ((2, 3, 64, 256), (6, 64, 256)),
        ((2, 2, 8, 128), (32, 128)),
    ]
]
OTHERS: list[Change] = [
    (lambda x: x[None], (7, 130)),
    (lambda x: x[:, None], (8, 128)),
    (lambda x: x[:, 0], (8, 1, 256)),
    (lambda x: x.transpose(1, 0, 2), (8, 1, 128)),
    (lambda x: x.transpose(1, 0, 2), (1, 8, 256)),
    (lambda x: x.T, (256, 128)),
    (lambda x: jnp.broadcast_to(x, (2, 8, 128)), (8, 128)),
    (lambda x: jnp.stack([x]), (8, 256)),
    (lambda x: jnp.split(x, 1)[0], (8, 256)),
    (lambda x: jnp.tile(x, (1, 1)), (8, 256)),
    (lambda x: lax.dynamic_slice(x, (0, 0), x.shape), (8, 256)),
    (lambda x: checkpoint_name(x, "kept"), (8, 256)),
    (lax.stop_gradient, (8, 256)),
    (lax.optimization_barrier, (8, 256)),
    (jnp.copy, (8, 256)),
    (jax.device_put, (8, 256)),
]
TO_THE_SAME_WIDTH = {
    "float32": "int32",
    "bfloat16": "uint16",
    "int8": "float8_e4m3fn",
    "float8_e5m2": "uint8",
    "int4": "uint4",
}


def to(dtype: str) -> Function:
    return lambda x: lax.bitcast_convert_type(x, jnp.dtype(dtype))


def changes_of(dtype: str) -> list[Change]:
    views = [(to(TO_THE_SAME_WIDTH[dtype]), (8, 256))]
    if dtype == "float32":
        views += [(to("int16"), (8, 256))]
    return [*RESHAPES, *OTHERS, *views]


def anywhere(count: int) -> list[pl.BlockSpec]:
    return [pl.BlockSpec(memory_space=pl.ANY)] * count


def nothing(*refs: Any) -> None:
    """A kernel that leaves its arrays in HBM."""


def given_by_kernel(arrays: list[Any], x: Any) -> Any:
    return pl.pallas_call(
        nothing, in_specs=anywhere(1), out_specs=anywhere(len(arrays)), out_shape=arrays
    )(x)


def taken_by_kernel(arrays: list[Any], x: Any) -> Any:
    return pl.pallas_call(
        nothing, in_specs=anywhere(len(arrays)), out_specs=anywhere(1)[0], out_shape=x
    )(*arrays)


def around_kernels(
    changes: list[Change], dtype: str, first: bool, last: bool
) -> tuple[list[bool], list[bool]]:
    """For each change, whether it moves anything: according to the rule, and in XLA's program.

    `first` and `last`: a kernel makes the array that is changed, and one takes the result.
    """
    made = [jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)) for _, shape in changes]
    x = jax.ShapeDtypeStruct((8, 128), jnp.float32)

    def launch(*arrays: Any) -> Any:
        given = given_by_kernel(made, arrays[0]) if first else arrays
        changed = [change(one) for (change, _), one in zip(changes, given, strict=True)]
        return taken_by_kernel(changed, x) if last else changed

    def alone(change: Function) -> Function:
        def launch(*arrays: Any) -> Any:
            given = given_by_kernel(made[:1], arrays[0]) if first else arrays
            return taken_by_kernel([change(given[0])], x) if last else change(given[0])

        return launch

    told = []
    for number, (change, _) in enumerate(changes):
        made.insert(0, made.pop(number))
        with for_chip(V5E.kind, V5E.cores):
            launched = TracedLaunch.of(alone(change), [x] if first else made[:1], {})
        told.append(bool(launched.trace().outside))
        made.insert(number, made.pop(0))
    hlo = libtpu.compiled(libtpu.lower(launch, [x] if first else made, V5E))
    pattern = r"^ *(?:ROOT )?%([\w.\-]+) = (?:\(.*?\)|\S+) ([\w\-]+)\((.*?)\)"
    found = re.findall(pattern, hlo[hlo.index("\nENTRY") :], re.MULTILINE)
    defined = {name: (does, re.findall(r"%([\w.\-]+)", rest)) for name, does, rest in found}

    def moved(name: str) -> bool:
        does, operands = defined[name]
        if does == "bitcast":
            return moved(operands[0])
        return does not in ("get-tuple-element", "parameter")

    ends = "custom-call" if last else "tuple"
    *_, operands = (operands for does, operands in defined.values() if does == ends)
    return told, [moved(name) for name in operands]


@pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="libtpu is not installed")
@pytest.mark.parametrize("dtype", TO_THE_SAME_WIDTH)
def test_libtpu_says_the_same_between_kernels(dtype: str) -> None:
    told, moved = around_kernels(changes_of(dtype), dtype, first=True, last=True)
    assert told == moved


@pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="libtpu is not installed")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "int4"])
@pytest.mark.parametrize("before", [True, False])
def test_libtpu_says_the_same_around_one_kernel(before: bool, dtype: str) -> None:
    """Without seven rows of float32: XLA copies such an argument or result of a kernel anyway."""
    changes = [one for one in changes_of(dtype) if dtype != "float32" or 7 not in one[1]]
    told, moved = around_kernels(changes, dtype, first=not before, last=before)
    assert told == moved


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (pl.empty_like, []),
        (lambda x: lax.optimization_barrier((x, x + 1))[0], ["add"]),
        (lambda x: jax.jit(lambda y: checkpoint_name(y, "kept"))(x), []),
        (lambda x: jax.device_put((x, x))[1], []),
        (lambda x: lax.dynamic_slice(x, (0, 0), (8, 64)), ["dynamic_slice"]),
        (lambda x: x.astype(jnp.bfloat16), ["convert_element_type"]),
        (lambda x: jnp.stack([x, x]), ["stack"]),
        (lambda x: jnp.zeros_like(x), ["broadcast_in_dim"]),
    ],
)
def test_operations_that_return_their_operand_are_left_out(
    change: Function, left: list[str]
) -> None:
    assert outside(change, (8, 128), "float32") == left
