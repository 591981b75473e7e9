"""`python -m pallascope.tpu` on a file that is nobody's exercise."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pallascope.tpu.__main__ import main
from tests.pallascope.support import ROOT
from tests.pallascope.support.trace_events import read

FILE = """
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

import beside


def copy_kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * beside.FACTOR


def copied(x, *, bm=64):
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    launch = pl.pallas_call(
        copy_kernel, grid=(x.shape[0] // bm,), in_specs=[rows], out_specs=rows, out_shape=x
    )
    return launch(x)


def plain(x):
    return x * 2


def picked_kernel(at_ref, x_ref, o_ref):
    o_ref[...] = x_ref[...]


def picked(at, x):
    grid_spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=at.shape,
        in_specs=[pl.BlockSpec((8, 128), lambda i, at: (at[i], 0))],
        out_specs=pl.BlockSpec((8, 128), lambda i, at: (i, 0)),
    )
    out = jax.ShapeDtypeStruct((8 * at.shape[0], 128), x.dtype)
    return pl.pallas_call(picked_kernel, grid_spec=grid_spec, out_shape=out)(at, x)


def over_a_mesh(x, *, cores=1):
    def kernel(x_ref, o_ref):
        def body(x_ref, o_ref):
            o_ref[...] = x_ref[...] * 2

        rows = pl.BlockSpec((64, x.shape[1]), lambda i: (i, 0))
        grid = (x.shape[0] // 64,)
        pltpu.emit_pipeline(body, grid=grid, in_specs=[rows], out_specs=[rows])(x_ref, o_ref)

    if hasattr(pltpu, "TensorCoreMesh"):
        mesh = pltpu.TensorCoreMesh(axis_name="core", num_cores=cores)
    else:
        mesh = pltpu.create_tensorcore_mesh("core", num_cores=cores)
    return pl.kernel(kernel, x, mesh=mesh)(x)


def broken(x):
    return x.no_such_thing
"""

needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    (folder / "launches.py").write_text(FILE)
    (folder / "beside.py").write_text("FACTOR = 2\n")
    return folder


def run(folder: Path, *arguments: str, code: int = 0) -> str:
    """What the command writes, run by itself: it imports jax."""
    ran = subprocess.run(
        [sys.executable, "-m", "pallascope.tpu", *arguments],
        cwd=folder,
        env={**os.environ, "COLUMNS": "100", "PYTHONPATH": str(ROOT), "TERM": "dumb"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == code, ran.stderr
    return ran.stderr if code == 2 else ran.stdout


@needs_libtpu
def test_a_function_beside_a_plain_one(folder: Path) -> None:
    text = run(
        folder,
        "launches.py:copied",
        *("--case", "f32[512,256] bm=128", "--chip", "v6e"),
        *("--against", "launches.py:plain", "--trace", "t.json"),
    )
    assert text.startswith("copied on a TPU v6e, predicted: nothing was run\nf32[512,256] bm=128\n")
    assert "XLA: the same in jax.numpy" in text
    assert "kernel copy_kernel, grid (4,): 4 steps" in text
    found = read((folder / "t.json").read_text(encoding="utf-8"))
    assert list(found) == ["v6e yours: copy_kernel"]


@needs_libtpu
def test_a_function_beside_another_with_kernels(folder: Path) -> None:
    case = ("--case", "f32[512,256] bm=128")
    text = run(folder, "launches.py:copied", *case, "--against", "launches:copied")
    assert "other  ratio" in text
    assert "1.00×" in text


@needs_libtpu
def test_a_kernel_over_a_mesh(folder: Path) -> None:
    text = run(folder, "launches.py:over_a_mesh", "--case", "f32[512,256]")
    assert "kernel kernel, grid (1,): 1 step\n" in text
    assert re.search(r"x_ref +in +float32\[512, 256\] +by hand +\d+ +512 KiB", text)
    assert "bound by" in text


def test_a_mesh_of_too_many_cores(folder: Path) -> None:
    text = run(folder, "launches.py:over_a_mesh", "--case", "f32[512,256] cores=2", code=1)
    assert "its mesh asks for 2 TensorCores, and a v5e has 1 TensorCore" in text


def test_contents_may_be_given_to_what_decides(folder: Path) -> None:
    text = run(folder, "launches.py:picked", "--case", "i32[6]=0,0,3,3,3,1 f32[64,128]")
    (row,) = [line for line in text.splitlines() if line.lstrip().startswith("x_ref")]
    assert "(8, 128)      3  12 KiB" in row


def test_a_sweep_from_another_folder(folder: Path) -> None:
    case = ("--case", "f32[512,256]")
    file = f"{folder.name}/launches.py:copied"
    text = run(folder.parent, file, *case, "--sweep", "bm=100,128,192,256")
    rows = {line.split()[0]: line for line in text.splitlines()[3:] if line.strip()}
    assert "a TPU refuses block (100, 256) of x_ref and 1 more" in rows["100"]
    assert "writes 75% of o_ref" in rows["192"]
    assert text.count("←") == 1


def test_what_a_tpu_refuses_is_explained(folder: Path) -> None:
    text = run(folder, "launches.py:copied", "--case", "f32[512,256] bm=100", code=1)
    assert "a TPU refuses block (100, 256) of x_ref and 1 more" in text
    assert "legal  nearest: (96, 256)" in text or "(104, 256)" in text


def test_what_it_raises_is_told_with_its_line(folder: Path) -> None:
    text = run(folder, "launches.py:broken", "--case", "f32[8]", code=1)
    assert "AttributeError" in text
    assert "return x.no_such_thing" in text


@pytest.mark.parametrize("more", [(), ("--sweep", "bm=128")])
def test_a_keyword_that_the_function_lacks_is_refused(folder: Path, more: tuple[str, ...]) -> None:
    text = run(folder, "launches.py:copied", "--case", "f32[512,256] BM=512", *more, code=2)
    assert "copied has no argument BM: it takes x, bm" in text


def test_a_keyword_to_sweep_that_the_function_lacks_is_refused(folder: Path) -> None:
    sweep = ("--sweep", "bm=128,256", "BN=128")
    text = run(folder, "launches.py:copied", "--case", "f32[512,256]", *sweep, code=2)
    assert "copied has no argument BN: it takes x, bm" in text


# ---- what needs no jax ----


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("nowhere.py:f", "--case", ""), "nowhere.py can't be imported: FileNotFoundError"),
        (("no_such_module:f", "--case", ""), "no_such_module can't be imported: ModuleNotFound"),
        (("json:nothing", "--case", ""), "json has no function nothing"),
        (("json", "--case", ""), "'json' is not of the form FILE.py:NAME or MODULE:NAME"),
        (("json:dumps", "--case", "f32[8"), "can't parse 'f32[8': expected an array"),
        (("json:dumps", "--case", "", "--sweep", "bm"), "'bm' is not of the form NAME=VALUE"),
    ],
    ids=str,
)
def test_misuse_is_told(
    arguments: tuple[str, ...],
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    monkeypatch.setattr("sys.path", [*sys.path])
    assert main(arguments) == 2
    assert capsys.readouterr().err.startswith(f"pallascope.tpu: {words}")
