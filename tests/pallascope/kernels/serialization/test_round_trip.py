"""There and back: a carried trace lowers to the same Mosaic module, byte for byte."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from pallascope.kernels.serialization import dumped
from tests.pallascope.support import ROOT, launches, lowering_errors, schedule_kernels, tpu_kernels
from tests.pallascope.support.sample_traces import (
    NESTED,
    X,
    carried,
    doubling,
    lowered,
    mosaic,
    same,
    traced,
)
from tests.pallascope.support.solved_katas import arguments

FOREIGN: dict[str, Callable[[], Any]] = {
    **tpu_kernels.launches(),
    **{name: lambda make=make: make()[:2] for name, make in schedule_kernels.KERNELS.items()},
    **{
        f"drawn {number}": lambda drawn=drawn: (drawn.launch, [drawn.argument])
        for number, drawn in enumerate(launches.draw(3, 5))
    },
}


@pytest.mark.parametrize("chunk", range(4))
def test_kernels_of_other_tests(chunk: int) -> None:
    for name in list(FOREIGN)[chunk::4]:
        function, args = FOREIGN[name]()
        closed = traced(function, *args)
        again = carried(closed)
        assert str(again) == str(closed), name
        assert same([closed, again]), name


@pytest.mark.parametrize("chunk", range(4))
def test_kernels_that_mosaic_refuses(chunk: int) -> None:
    """And their usual ways round: what is refused is refused in the same words."""
    told = 0
    for pair in list(lowering_errors.pairs())[chunk::4]:
        if not jax.__version__.startswith(pair.only):
            continue
        for name in ("refused", "instead"):
            function, args = pair.launch(name)
            closed = traced(function, *args)
            assert same([closed, carried(closed)]), pair
            told += 1
    assert told > 20


@pytest.mark.parametrize("name", NESTED)
def test_nested_kernels(name: str) -> None:
    closed = traced(NESTED[name], X)
    assert same([closed, carried(closed)])


def by_hand(x: Any) -> Any:
    """All kinds of operations outside of kernels."""
    table = jnp.arange(128.0)
    keys = jax.random.split(jax.random.key(3))
    near = jax.lax.dot(x, x.T, precision=jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X3)
    exact = jax.lax.dot(x, x.T, precision="highest") + near
    folded = jax.lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), "SAME")
    few, _ = jax.lax.top_k(x, 3)
    ragged = jax.lax.ragged_dot(x, x.reshape(2, 128, 128), jnp.array([100, 156]))
    waves = jnp.fft.fft(x).real + jnp.linalg.svd(x, full_matrices=False)[0]
    smooth = jax.nn.gelu(x) + jax.nn.relu(x) + table + np.arange(128.0, dtype=np.float32)
    cells = x.at[jnp.array([3, 5]), 1].add(2) + jnp.cumsum(x, 0) + jnp.sort(x, 1)
    found = jnp.searchsorted(table, x[0])
    smooth = jax.device_put(jax.lax.optimization_barrier(smooth))
    return exact, folded, few, ragged, waves, smooth, cells, found, jax.random.normal(keys[0])


def test_operations_outside_of_kernels() -> None:
    closed = traced(by_hand, X)
    again = carried(closed)
    assert str(again) == str(closed)
    assert same([closed, again])


def test_what_is_one_object_stays_one() -> None:
    closed = traced(lambda x: doubling()(doubling()(x)), X)
    again = carried(closed)
    first, second = again.eqns
    assert first.outvars[0] is second.invars[0]
    kernel = first.params["jaxpr"]
    refs = {id(var) for var in kernel.invars}
    assert {id(effect.input) for effect in kernel.effects} == refs
    assert again.in_avals[0] is closed.in_avals[0]  # JAX has one object for each type
    assert first.ctx is closed.eqns[0].ctx


APART = """
import json, sys
from pathlib import Path
import numpy as np
from jax.experimental.pallas import tpu as pltpu
from pallascope.kernels.serialization import loaded, with_interpret
from pallascope.kernels.lowering import for_chip
from tests.pallascope.support.sample_traces import lowered, mosaic, run
folder = Path(sys.argv[1])
with for_chip("TPU v5 lite", 1):
    closed = loaded((folder / "trace").read_bytes())
strict = with_interpret(closed, pltpu.InterpretParams(uninitialized_memory="nan"))
inputs = np.load(folder / "inputs.npz")
np.save(folder / "result.npy", run(strict, *inputs.values()))
own = [name for name in sys.modules if "matmul" in name and "kata" in name]
print(json.dumps([str(closed), mosaic(lowered(closed)), own]))
"""


def test_in_a_process_that_has_never_imported_the_file(tmp_path: Path) -> None:
    launch, args, keywords = arguments("tiled_matmul")
    closed = traced(lambda *arrays: launch(*arrays, **keywords), *args)
    (tmp_path / "trace").write_bytes(dumped(closed))
    rng = np.random.default_rng(1)
    x, y = (rng.standard_normal(arg.shape, np.float32) for arg in args)
    np.savez(tmp_path / "inputs.npz", x, y)
    ran = subprocess.run(
        [sys.executable, "-c", APART, str(tmp_path)], cwd=ROOT, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    text, modules, own = json.loads(ran.stdout)
    assert text == str(closed)
    assert modules == mosaic(lowered(closed)) != []
    assert own == []
    np.testing.assert_allclose(np.load(tmp_path / "result.npy"), x @ y, rtol=1e-4, atol=1e-4)
