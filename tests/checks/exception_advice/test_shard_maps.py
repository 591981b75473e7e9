"""Advice on jax.shard_map, by what jax really raises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from jax.experimental import pallas as pl
from jax.sharding import PartitionSpec as P

from pallascope.kernels import for_chip
from tests.checks.exception_advice.raising import told

ROWS = P("data")
GIVEN: dict[str, Any] = {"in_specs": ROWS, "out_specs": ROWS, "check_vma": False}


def doubled(x: jax.Array) -> jax.Array:
    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)


def over_heads(x: jax.Array) -> jax.Array:
    return lax.psum(x, "heads")


def test_no_mesh(tmp_path: Path) -> None:
    def action() -> None:
        jax.shard_map(doubled, in_specs=P(), out_specs=P())(jnp.ones(8))

    assert "Pass mesh=mesh to jax.shard_map" in told(action, str(tmp_path / "some.py"), b"")


def test_a_mesh_that_is_manual_in_part(tmp_path: Path) -> None:
    """Raised only where it is run, on several devices."""

    def action() -> None:
        raise NotImplementedError(
            "callbacks are only supported in spmd computations when all mesh axes are partitioned "
            "manually (no partial automatic sharding)."
        )

    assert "leave axis_names out" in told(action, str(tmp_path / "some.py"), b"")


@pytest.mark.parametrize(
    ("function", "changes", "advice"),
    [
        (doubled, {"check_vma": True}, "Pass check_vma=False"),
        (doubled, {"in_specs": P("batch")}, "those in the braces"),
        (doubled, {"out_specs": P("batch")}, "those in the braces"),
        (over_heads, {}, "names an axis of the mesh"),
        (doubled, {"in_specs": P(None, "data")}, "cut into equal parts"),
        (doubled, {"in_specs": P(None, None, "data")}, "at most as many entries"),
        (doubled, {"out_specs": P(None, None, "data")}, "at most as many entries"),
        (doubled, {"in_specs": (ROWS, ROWS)}, "one PartitionSpec for each array"),
        (doubled, {"in_specs": "data"}, "one PartitionSpec for each array"),
        (doubled, {"check_rep": False}, "check_rep is called check_vma now"),
    ],
)
def test_what_to_try(function: Any, changes: dict[str, Any], advice: str, tmp_path: Path) -> None:
    shard_map: Any = jax.shard_map

    def action() -> None:
        with for_chip("TPU v5 lite", 1, (("data", 2), ("model", 2))):
            mesh = jax.sharding.get_abstract_mesh()
            split = shard_map(function, mesh=mesh, **{**GIVEN, **changes})
            jax.jit(split).trace(jax.ShapeDtypeStruct((64, 129), jnp.float32))

    assert advice in told(action, str(tmp_path / "some.py"), b"")
