"""`python -m pallascope.testing`; strategies of shapes."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from hypothesis import find, given, settings
from hypothesis import strategies as st

from pallascope.kernels import TracedLaunch, for_chip
from pallascope.testing import command
from pallascope.tpu import libtpu
from pallascope.tpu.block_rules import refused_blocks
from pallascope.tpu.chips import named
from tests.pallascope.testing.test_kernel_tests import like

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT / "integrations" / "pytest"))
from pytest_pallas.strategies import blocks, group_sizes, sizes  # noqa: E402

KERNELS = str(ROOT / "integrations" / "pytest" / "example" / "kernels.py")
CASE = "bf16[128,256] bf16[256,128]"
compiled = pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="needs libtpu")


@compiled
def test_a_right_kernel(capsys: pytest.CaptureFixture[str]) -> None:
    big = ["--big", "bf16[512,512] bf16[512,512] bm=256", "--chip", "v5e", "v6e"]
    words = [f"{KERNELS}:matmul", "--case", CASE, "--against", "jax.numpy:matmul", *big]
    assert command.main(words) == command.FINE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "strict interpreter: right, and nothing else found"
    assert [line.split(":")[0] for line in lines[1:]] == ["v5e", "v6e"]
    assert all("accepted" in line and "predicted" in line for line in lines[1:])


def test_a_wrong_kernel_in_any_folder(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    words = [f"{KERNELS}:matmul", "--case", f"{CASE} bk=100", "--against", "jax.numpy:matmul"]
    assert command.main(words) == command.FAULT
    said = capsys.readouterr().out
    assert said.startswith("values: o_ref: ")
    assert "v5e: blocks: a TPU refuses block (128, 100)" in said


def test_tables_have_the_contents_that_are_given(capsys: pytest.CaptureFixture[str]) -> None:
    words = [f"{KERNELS}:take", "--case", "i32[3]=2,0,1 f32[3,8,128]"]
    assert command.main(words) in (command.FINE, command.NOT_JUDGED)
    assert "nothing found; not compared" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([f"{KERNELS}:nothing", "--case", CASE], "has no function nothing"),
        ([f"{KERNELS}:matmul", "--case", "bf16(3)"], "can't parse"),
        ([f"{KERNELS}:matmul", "--case", f"{CASE} bx=3"], "has no argument bx"),
    ],
)
def test_wrong_usage(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(words) == command.MISUSED
    assert says in capsys.readouterr().err


# ---- strategies ----


@settings(max_examples=20, deadline=None, derandomize=True)
@given(data=st.data(), dtype=st.sampled_from(["float32", "bfloat16", "int8"]))
def test_blocks_are_legal_for_ragged_arrays(data: st.DataObject, dtype: str) -> None:
    from jax.experimental import pallas as pl

    block = data.draw(blocks(dtype, rank=3, most=256))
    shape = tuple(data.draw(sizes(size)) for size in block)
    assert all(1 <= size <= 3 * one for size, one in zip(shape, block, strict=True))

    def launch(x: jax.Array) -> jax.Array:
        spec = pl.BlockSpec(block, lambda i, j, k: (i, j, k))
        grid = tuple(math.ceil(n / b) for n, b in zip(shape, block, strict=True))
        kernel = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...])  # noqa: E731
        return pl.pallas_call(
            kernel, grid=grid, in_specs=[spec], out_specs=spec, out_shape=like(x)
        )(x)

    x, chip = jax.ShapeDtypeStruct(shape, jnp.dtype(dtype)), named("v5e")
    with for_chip(chip.kind, chip.cores):
        (call,) = TracedLaunch.of(launch, (x,), {}).trace().calls
    assert not refused_blocks(call)


@settings(max_examples=30, deadline=None, derandomize=True)
@given(sizes=group_sizes(5, 64))
def test_groups_have_all_rows(sizes: jax.Array) -> None:
    assert sizes.dtype == "int32"
    assert (len(sizes), sizes.sum()) == (5, 64)
    assert (sizes >= 0).all()


def test_blocks_have_two_dimensions() -> None:
    with pytest.raises(ValueError, match="rank=1"):
        find(blocks("float32", rank=1), lambda _: True)
