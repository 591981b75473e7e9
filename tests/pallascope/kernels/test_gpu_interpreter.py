"""A launch for GPUs in Mosaic GPU's interpreter: results, races, and nothing left behind."""

from __future__ import annotations

from typing import Any

import jax
import jax.experimental.pallas.mosaic_gpu as plgpu
import jax.numpy as jnp
import numpy as np
import pytest

from pallascope.gpu.gpu_interpreter import interpreted, run_interpreted
from pallascope.gpu.gpus import named, traced_for
from pallascope.kernels import NotSerializable, TracedLaunch, UnwrittenMemory
from pallascope.kernels.serialization import make_ready_for_gpus
from pallascope.model import Role
from tests.pallascope.support.gpu_launches import Struct, struct
from tests.pallascope.support.gpu_pipelines import A, B, Launch, multiplied, scaled, tensor_products

SIZE = 512
MINE = scaled(lambda block, wg: (block * 2 + wg) * 128)


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")
    make_ready_for_gpus()


def carried(launch: Launch, *args: Any) -> TracedLaunch:
    with traced_for(named("h100")):
        return TracedLaunch.carried(TracedLaunch.of(launch, args, {}).dumped())


def run(launch: Launch, noted: list[str]) -> np.ndarray:
    x = np.arange(SIZE, dtype=np.float32)
    return run_interpreted(carried(launch, struct("float32", SIZE)), [x], noted)[0]


def test_what_is_run_is_the_trace_that_another_process_gets() -> None:
    noted: list[str] = []
    np.testing.assert_array_equal(run(MINE, noted), 2 * np.arange(SIZE, dtype=np.float32))
    assert noted == []


@pytest.mark.parametrize(
    "share",
    [lambda block, wg: block * 256, lambda block, wg: wg * 128],
    ids=["between-threads", "between-blocks"],
)
def test_a_race_is_noted_on_each_jax_and_the_next_launch_runs(share: Any) -> None:
    noted: list[str] = []
    try:
        run(scaled(share), noted)
    except jax.errors.JaxRuntimeError as error:  # so does jax 0.12
        noted.append(str(error))
    assert "RACE DETECTED" in noted[0]
    assert run(MINE, [])[1] == 2


def test_what_lies_out_of_bounds_raises_and_the_next_launch_runs() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError):
        run(scaled(lambda block, wg: (block * 2 + wg) * 128 + 128), [])
    assert run(MINE, [])[1] == 2


def test_a_producer_need_not_wait_for_its_last_slots() -> None:
    """jax 0.10's interpreter alone would have it wait."""
    rng = np.random.default_rng(0)
    a, b = (rng.normal(size=shape).astype(np.float16) for shape in ((128, 192), (192, 64)))
    launch = carried(multiplied(), *(Struct(one.shape, one.dtype) for one in (a, b)))
    (result,) = run_interpreted(launch, [a, b], [])
    np.testing.assert_allclose(result.astype("f8"), a.astype("f8") @ b.astype("f8"), atol=0.05)


def test_a_kernel_as_data() -> None:
    (call,) = carried(MINE, struct("float32", SIZE)).trace().calls
    assert call.grid == (2, 2)
    assert [operand.role for operand in call.operands] == [Role.INPUT, Role.OUTPUT]
    assert not call.unknown


def test_no_launch_has_a_folder_of_profiles_written() -> None:
    params = plgpu.CompilerParams(profile_space=8, profile_dir="/tmp")

    def launch(x: jax.Array) -> jax.Array:
        def body(x_gmem: Any, o_gmem: Any) -> None:
            o_gmem[...] = x_gmem[...]

        return plgpu.kernel(body, out_type=Struct(x.shape, x.dtype), compiler_params=params)(x)

    with pytest.raises(NotSerializable, match="profile_dir"):
        carried(launch, struct("float32", 128))


@pytest.mark.parametrize("adds", [False, True])
def test_products_into_tensor_memory(adds: bool) -> None:
    """Also on jax 0.10, whose interpreter has none; what nothing has written there is NaN."""
    drawn = np.random.default_rng(1)
    a, b = (drawn.normal(size=each.shape).astype(np.float16) for each in (A, B))
    noted: list[str] = []
    (result,) = run_interpreted(carried(tensor_products(adds=adds), A, B), [a, b], noted)
    assert noted == []
    if adds:
        assert np.isnan(result).all()
    else:
        expected = 2 * a.astype(np.float32) @ b.astype(np.float32)
        np.testing.assert_allclose(result.astype(np.float32), expected, rtol=2e-3, atol=0.05)


@pytest.mark.parametrize("cleared", [False, True])
def test_unwritten_shared_memory_can_hold_other_numbers(cleared: bool) -> None:
    def launch(x: jax.Array) -> jax.Array:
        def body(x_gmem: Any, o_gmem: Any, acc_smem: Any) -> None:
            if cleared:
                acc_smem[...] = jnp.zeros((SIZE,), jnp.float32)
            acc_smem[...] = jnp.nan_to_num(acc_smem[...]) + x_gmem[...]
            o_gmem[...] = acc_smem[...]

        out = Struct(x.shape, x.dtype)
        scratch = [plgpu.SMEM((SIZE,), jnp.float32)]
        return plgpu.kernel(body, out_type=out, scratch_types=scratch)(x)

    x, memory = np.arange(SIZE, dtype=np.float32), UnwrittenMemory()
    with interpreted(carried(launch, struct("float32", SIZE)), [], memory) as program:
        np.testing.assert_array_equal(program([x])[0], x)
        with memory.drawn(1, memory.names):
            (again,) = program([x])
    assert (again == x).all() == cleared
