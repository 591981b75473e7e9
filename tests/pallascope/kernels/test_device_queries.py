"""What JAX says of devices while a function is traced for a chip."""

from __future__ import annotations

import importlib
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import default_backend, devices
from jax._src import test_util, xla_bridge
from jax.experimental import mesh_utils
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.experimental.pallas.ops.tpu import ragged_paged_attention as ragged
from jax.experimental.pallas.ops.tpu.ragged_paged_attention import tuned_block_sizes
from jax.extend import backend

from pallascope.gpu.gpus import named as gpu
from pallascope.gpu.gpus import traced_for
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import (
    ArrayType,
    Axes,
    Operand,
)
from pallascope.tpu import predictions
from pallascope.tpu.__main__ import main
from pallascope.tpu.chips import CHIPS
from tests.pallascope.support.launches import shape

megablox: Any = importlib.import_module("jax.experimental.pallas.ops.tpu.megablox.common")

FOUR: Axes = (("x", 2), ("y", 2))


def asked(question: Callable[[], Any], chip: str, axes: Axes = ()) -> Any:
    """What a launch hears that asks in its body, and in its kernel's, while it is traced."""
    heard: list[Any] = []

    def kernel(x_ref: Any, o_ref: Any) -> None:
        heard.append(question())
        o_ref[...] = x_ref[...]

    def launch(x: jax.Array) -> jax.Array:
        heard.append(question())
        return pl.pallas_call(kernel, out_shape=x)(x)

    with for_chip(CHIPS[chip].kind, CHIPS[chip].cores, axes):
        TracedLaunch.of(launch, [shape("float32", 8, 128)], {})
    assert len(heard) == 2
    assert repr(heard[0]) == repr(heard[1])
    return heard[0]


#: Each way in which kernel libraries ask for the kind of chip.
KIND = {
    "jax.devices": lambda: jax.devices()[0].device_kind,
    "jax.devices('tpu')": lambda: jax.devices("tpu")[0].device_kind,
    "jax.local_devices": lambda: jax.local_devices()[0].device_kind,
    "jax.local_devices, of the backend": lambda: jax.local_devices(backend="tpu")[0].device_kind,
    "from jax import devices": lambda: devices()[0].device_kind,
    "jax.extend.backend.get_backend": lambda: backend.get_backend().devices()[0].device_kind,
    "jax.extend.backend.get_default_device": lambda: backend.get_default_device().device_kind,
    "xla_bridge.devices": lambda: xla_bridge.devices()[0].device_kind,
    "xla_bridge.local_devices": lambda: xla_bridge.local_devices()[0].device_kind,
    "the client of a device": lambda: jax.devices()[0].client.devices()[0].device_kind,
    "megablox.common": megablox.tpu_kind,
    "jax.make_mesh": lambda: jax.make_mesh((1,), ("x",)).devices[0].device_kind,
    "mesh_utils": lambda: mesh_utils.create_device_mesh((1,))[0].device_kind,
}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize("question", KIND.values(), ids=KIND)
def test_the_kind_of_device(question: Callable[[], str], chip: str) -> None:
    assert asked(question, chip) == CHIPS[chip].kind


PLATFORM = {
    "jax.default_backend": jax.default_backend,
    "from jax import default_backend": default_backend,
    "xla_bridge.get_backend": lambda: xla_bridge.get_backend().platform,
    "jax.extend.backend": lambda: backend.get_backend().platform,
    "jax.devices": lambda: jax.devices()[0].platform,
    "a device's client": lambda: jax.devices()[0].client.platform,
    "jax's own tests": test_util.device_under_test,
}


@pytest.mark.parametrize("question", PLATFORM.values(), ids=PLATFORM)
def test_the_platform(question: Callable[[], str]) -> None:
    assert asked(question, "v5e") == "tpu"
    assert question() == "cpu"


COUNT = {
    "jax.device_count": jax.device_count,
    "jax.local_device_count": jax.local_device_count,
    "len(jax.devices())": lambda: len(jax.devices()),
    "len(jax.local_devices())": lambda: len(jax.local_devices()),
    "coords": lambda: len({tuple(device.coords) for device in jax.devices()}),
}


@pytest.mark.parametrize("question", COUNT.values(), ids=COUNT)
def test_as_many_devices_as_the_mesh_has(question: Callable[[], int]) -> None:
    assert [asked(question, "v5e", axes) for axes in ((), FOUR, (("x", 3),))] == [1, 4, 3]


@pytest.mark.parametrize("chip", CHIPS)
def test_what_pallas_says_of_the_chip(chip: str) -> None:
    def info() -> tuple[Any, ...]:
        found = pltpu.get_tpu_info()
        return pltpu.is_tpu_device(), found.num_cores, jax.devices()[0].num_cores

    assert asked(info, chip) == (True, CHIPS[chip].cores, CHIPS[chip].cores)


def test_a_mesh_of_the_devices_is_one_of_the_chip() -> None:
    """Within a `shard_map` over it, too, Pallas knows the chip."""

    def kernel(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * pltpu.get_tpu_info().generation

    def launch(x: jax.Array) -> jax.Array:
        mesh = jax.sharding.Mesh(jax.devices(), ("x",))
        x = jax.device_put(x, jax.devices()[0])
        rows = jax.P("x")
        added = pl.pallas_call(kernel, out_shape=x)
        return jax.shard_map(added, mesh=mesh, in_specs=rows, out_specs=rows, check_vma=False)(x)

    for chip in ("v5e", "v6e"):
        assert len(predictions(launch, shape("float32", 8, 128), chip=chip)) == 1


def test_devices_of_other_platforms_are_those_that_are_there() -> None:
    there = jax.devices("cpu"), jax.local_devices(backend="cpu")
    assert asked(lambda: (jax.devices("cpu"), jax.local_devices(backend="cpu")), "v5e") == there
    with pytest.raises(RuntimeError):
        asked(lambda: jax.devices("gpu"), "v5e")


def test_jax_still_computes_where_it_can() -> None:
    def total() -> list[float]:
        with jax.ensure_compile_time_eval():
            return np.asarray(jnp.arange(4) + jax.random.key_data(jax.random.key(1))[1]).tolist()

    assert asked(total, "v5e") == [1, 2, 3, 4]


def test_nothing_of_it_stays() -> None:
    before = jax.devices(), jax.local_devices(), jax.default_backend(), jax.device_count()
    with pytest.raises(ZeroDivisionError), for_chip("TPU v5 lite", 1, FOUR):
        raise ZeroDivisionError
    after = jax.devices(), jax.local_devices(), jax.default_backend(), jax.device_count()
    assert before == after


def test_each_thread_has_its_own_chip() -> None:
    heard: dict[str, str] = {}
    both = threading.Barrier(2)

    def trace(chip: str) -> None:
        def question() -> str:
            both.wait(60)
            return jax.devices()[0].device_kind

        heard[chip] = asked(question, chip)

    threads = [threading.Thread(target=trace, args=(chip,)) for chip in ("v5e", "v6e")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == {chip: CHIPS[chip].kind for chip in ("v5e", "v6e")}


def test_a_function_traced_for_a_gpu_hears_of_that_gpu() -> None:
    h100 = gpu("h100")
    with traced_for(h100):
        (device,) = jax.devices()
        assert (jax.default_backend(), device.platform, device.core_count) == (
            "gpu",
            "gpu",
            h100.multiprocessors,
        )
        assert jax.devices("cuda")[0].compute_capability == "9.0"


# ---- kernels that ship in JAX and ask ----


RAGGED = (
    shape("bfloat16", 64, 8, 128),
    shape("bfloat16", 64, 16, 4, 128),
    np.array([128] * 4, np.int32),
    np.array([[0, 1, 2, 3, 4, 5, 6, 7]] * 4, np.int32),
    np.array([0, 16, 32, 48, 64], np.int32),
    np.array([4], np.int32),
)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("chip", ["v5e", "v6e"])
def test_jax_s_ragged_paged_attention_chooses_its_tuned_blocks(chip: str) -> None:
    def operands(**blocks: int) -> tuple[Operand, ...]:
        with for_chip(CHIPS[chip].kind, CHIPS[chip].cores):
            launch = TracedLaunch.of(ragged.ragged_paged_attention, RAGGED, blocks)
            return launch.kernels(RAGGED)[0].call.operands

    sizes = jnp.dtype("bfloat16"), jnp.dtype("bfloat16"), 8, 2, 128, 16, 64, 8
    pages, queries = asked(lambda: tuned_block_sizes.get_tuned_block_sizes(*sizes), chip)
    tuned = operands(num_kv_pages_per_block=pages, num_queries_per_block=queries)
    assert operands() == tuned
    assert tuned != operands(num_kv_pages_per_block=1, num_queries_per_block=8)


def test_a_launch_takes_the_way_that_it_takes_on_the_chip() -> None:
    """Here a fallback for other platforms has no kernel, and blocks depend on the generation."""

    def doubled(x_ref: Any, o_ref: Any) -> None:
        o_ref[...] = x_ref[...] * 2

    @jax.jit
    def tuned(x: jax.Array) -> jax.Array:
        if jax.devices()[0].platform != "tpu":
            return x * 2
        blocks = {"TPU v5 lite": 256, "TPU v6 lite": 512}
        rows = blocks.get(jax.devices()[0].device_kind, 8)
        spec = pl.BlockSpec((rows, 128), lambda i: (i, 0))
        grid = (x.shape[0] // rows,)
        call = pl.pallas_call(doubled, grid=grid, in_specs=[spec], out_specs=spec, out_shape=x)
        return call(x)

    x = shape("float32", 1024, 128)
    for chip, steps in {"v5e": 4, "v6e": 2, "v5p": 128}.items():
        (kernel,) = predictions(tuned, x, chip=chip)
        assert kernel.call.grid == (steps,), chip


# ---- files that ask while they are imported ----

FILE = """
import jax
from jax import local_devices
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

ON_TPU = jax.default_backend() == "tpu"
ROWS = 128 * pltpu.get_tpu_info().generation if ON_TPU else 8

def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * 2

def doubled(x):
    if not ON_TPU or local_devices()[0].platform != "tpu":
        return x * 2
    rows = pl.BlockSpec((ROWS, 128), lambda i: (i, 0))
    grid = (x.shape[0] // ROWS,)
    return pl.pallas_call(kernel, grid=grid, in_specs=[rows], out_specs=rows, out_shape=x)(x)
"""
X = ArrayType("float32", (128 * 5 * 6, 128))


@pytest.mark.parametrize(("chip", "steps"), [("v5e", 6), ("v6e", 5)])
def test_the_command_imports_a_file_as_on_the_chip(
    tmp_path: Path, chip: str, steps: int, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / f"on_{chip}.py").write_text(FILE)
    place = f"{tmp_path}/on_{chip}.py:doubled"
    main([place, "--case", f"f32[{X.shape[0]},128]", "--chip", chip])
    assert f"grid ({steps},)" in re.sub(r"\s+", " ", capsys.readouterr().out)
