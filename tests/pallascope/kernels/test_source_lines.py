"""Who has written a kernel: the file of its body, through all that jax puts between."""

from __future__ import annotations

import functools
import inspect
import linecache
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import example_kernel, matmul
from jax.experimental.pallas.ops.tpu.flash_attention import flash_attention

from pallascope.kernels import TracedLaunch
from pallascope.kernels.jaxprs import sites
from pallascope.kernels.lowering import for_chip
from pallascope.kernels.source_lines import line_in
from pallascope.model import KernelCall
from pallascope.tools.files import load_module

X = np.ones((256, 256), np.float32)
MATMUL = "jax/experimental/pallas/ops/tpu/matmul.py"


def only(function: Callable[..., Any], *args: Any, file: str = __file__) -> KernelCall:
    with for_chip("TPU v5 lite", 1):
        (call,) = TracedLaunch.of(function, args or (X,), {}).trace(file).calls
    return call


def launch(kernel: Callable[..., Any], **others: Any) -> Callable[[Any], Any]:
    def launched(x: Any) -> Any:
        return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), **others)(x)

    return launched


def halved(value: Any) -> Any:
    return value / 2


def helped(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = halved(jnp.where(x_ref[...] > 0, jax.nn.silu(x_ref[...]), jnp.mean(x_ref[...])))


def looped(x_ref: Any, o_ref: Any) -> None:
    def body(i: Any, total: Any) -> Any:
        return total + x_ref[i, 0]

    @pl.when(pl.program_id(0) == 0)
    def _() -> None:
        o_ref[...] = jnp.full(o_ref.shape, jax.lax.fori_loop(0, 4, body, 0.0))


def scaled(x_ref: Any, o_ref: Any, *, by: float) -> None:
    o_ref[...] = x_ref[...] * by + np.sum(x_ref[...])  # type: ignore[call-overload]


def stored(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] + 1


def pipelined(x_ref: Any, o_ref: Any) -> None:
    spec = pl.BlockSpec((128, 128), lambda i, j: (i, j))
    pltpu.emit_pipeline(stored, grid=(2, 2), in_specs=[spec], out_specs=[spec])(x_ref, o_ref)


IN_HBM = {
    "in_specs": [pl.BlockSpec(memory_space=pl.ANY)],
    "out_specs": pl.BlockSpec(memory_space=pl.ANY),
}


@pytest.mark.parametrize(
    "function",
    [
        launch(helped),
        launch(looped, grid=(1,)),
        launch(functools.partial(scaled, by=2.0)),
        launch(lambda x_ref, o_ref: stored(x_ref, o_ref)),
        launch(pipelined, **IN_HBM),
    ],
    ids=["helper-and-jnp", "loop-and-when", "partial-and-numpy", "lambda", "emit-pipeline"],
)
def test_what_stands_in_the_file_is_its_own(function: Callable[..., Any]) -> None:
    call = only(function)
    assert call.foreign == ""
    source, first = inspect.getsourcelines(launch)
    assert first < call.line < first + len(source)


def shipped_matmul(x: Any) -> Any:
    return matmul.matmul(x, x, block_shape=(128, 128), block_k=128)


def shipped_body(x: Any) -> Any:
    def wrapped(x_ref: Any, y_ref: Any, o_ref: Any, acc_ref: Any) -> None:
        matmul.matmul_kernel(x_ref, y_ref, o_ref, acc_ref)

    spec = pl.BlockSpec((128, 128), lambda i, j, k: (i, j))
    return pl.pallas_call(
        wrapped,
        grid=(2, 2, 2),
        in_specs=[spec, spec],
        out_specs=spec,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)],
    )(x, x)


def shipped_attention(x: Any) -> Any:
    heads = x.reshape(1, 1, 256, 256)
    return flash_attention(heads, heads, heads)


@pytest.mark.parametrize(
    ("function", "file"),
    [
        (shipped_matmul, MATMUL),
        (shipped_body, MATMUL),
        (shipped_attention, "jax/experimental/pallas/ops/tpu/flash_attention.py"),
        (lambda x: example_kernel.double(x), "jax/experimental/pallas/ops/tpu/example_kernel.py"),
    ],
    ids=["matmul", "its-body", "flash-attention", "example"],
)
def test_a_kernel_that_jax_ships_is_not_the_files(function: Callable[..., Any], file: str) -> None:
    assert only(function).foreign == file


def test_a_kernel_of_another_file_is_not_the_files(tmp_path: Path) -> None:
    other = tmp_path / "solution.py"
    other.write_text("def kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...] + 10\n")
    call = only(launch(load_module(other).kernel))
    assert call.foreign == str(other)


@pytest.mark.parametrize("name", ["<string>", "own"])
def test_a_kernel_that_is_compiled_from_text_is_not_the_files(name: str) -> None:
    found: dict[str, Any] = {}
    text = "def kernel(x_ref, o_ref):\n    o_ref[...] = x_ref[...] + 10\n"
    exec(compile(text, name, "exec"), found)
    assert only(launch(found["kernel"])).foreign == name


def doubled(x_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * 2


@jax.custom_vjp
def twice(x: Any) -> Any:
    return launch(doubled)(x)


twice.defvjp(lambda x: (twice(x), None), lambda _, given: (launch(doubled)(given),))


def test_the_kernel_of_a_gradient_has_its_own_lines() -> None:
    """JAX gives the line of the call to each operation of a function that it transposes."""
    with for_chip("TPU v5 lite", 1):
        traced = TracedLaunch.of(lambda x: jax.vjp(twice, x)[1](x), (X,), {})
    lines = {
        linecache.getline(__file__, line_in(site.eqn, __file__)).strip()
        for site in sites(traced.closed.jaxpr)
        if site.eqn.primitive.name in ("mul", "swap")
    }
    assert lines == {"o_ref[...] = x_ref[...] * 2"}


def test_where_nobody_asks_nothing_is_said() -> None:
    call = only(shipped_matmul, file="")
    assert (call.foreign, call.line) == ("", 0)


def test_what_jax_has_traced_for_another_file_is_still_the_files(tmp_path: Path) -> None:
    """jnp's own functions are traced once, with the lines of whoever came first."""
    other = tmp_path / "earlier.py"
    other.write_text(
        "import jax\nimport jax.numpy as jnp\n\n\ndef kernel(x_ref, o_ref):\n"
        "    o_ref[...] = jax.nn.silu(jnp.where(x_ref[...] > 0, 1, jnp.mean(x_ref[...])))\n"
    )
    small = np.ones((24, 128), np.float32)
    only(launch(load_module(other).kernel), small, file=str(other))
    assert only(launch(helped), small).foreign == ""
