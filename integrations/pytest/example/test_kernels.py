"""Tests of the five kernels on a machine without a TPU."""

import jax
import jax.numpy as jnp
import kernels
import pytest
from hypothesis import given
from pytest_pallas.strategies import QUICK, group_sizes


def big(*shape, dtype="float32"):
    """An array of production size, without contents."""
    return jax.ShapeDtypeStruct(shape, dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_matmul(pallas, dtype):
    x, w = pallas.normal((256, 384), dtype), pallas.normal((384, 512), dtype)
    pallas.check(kernels.matmul, x, w, expected=jnp.matmul)


def test_matmul_at_production_size(pallas):
    x = big(4096, 4096, dtype="bfloat16")
    for chip in ("v5e", "v6e"):
        pallas.snapshot(pallas.cost(kernels.matmul, x, x, bm=512, bn=512, bk=512, chip=chip))


@pytest.mark.parametrize("rows", [64, 100, 130])
def test_softmax(pallas, rows):
    x = pallas.normal((rows, 256), scale=30)
    pallas.check(kernels.softmax, x, expected=kernels.softmax_reference)


def test_softmax_at_production_size(pallas):
    pallas.snapshot(pallas.cost(kernels.softmax, big(8192, 2048), rows=256))


@QUICK
@given(sizes=group_sizes(3, 160))
def test_group_sums(pallas, sizes):
    starts = jnp.cumulative_sum(jnp.asarray(sizes), include_initial=True)
    x = pallas.normal((160, 128))
    pallas.check(kernels.group_sums, starts, x, expected=kernels.group_sums_reference)


def test_take(pallas):
    x, table = pallas.normal((16, 8, 128)), pallas.integers(0, 16, (7,))
    pallas.check(kernels.take, table, x, expected=lambda table, x: x[table])
    pallas.accepted(kernels.take, table, big(4096, 8, 1024))


def test_rms_norm(pallas):
    x, w = pallas.normal((192, 256)), pallas.normal((1, 256))
    pallas.check(kernels.rms_norm, x, w, expected=kernels.rms_norm_reference)
    pallas.grad_check(kernels.rms_norm, x, w, expected=kernels.rms_norm_reference)
    pallas.accepted(kernels.rms_norm, big(8192, 1024), big(1, 1024))
