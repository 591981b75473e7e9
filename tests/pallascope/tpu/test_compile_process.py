"""The compiler in a child: after whatever the caller has done, and when it aborts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from pallascope.tpu import compile_process
from pallascope.tpu.libtpu_errors import LibtpuRefusalKind, read_abort
from tests.pallascope.support import ROOT

needs_libtpu = pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")

LAUNCHES = """
import jax, jax.numpy as jnp
from jax.experimental import pallas as pl

def added(x):
    def added_kernel(x_ref, o_ref):
        o_ref[...] = x_ref[...] + 1
    return pl.pallas_call(added_kernel, out_shape=x)(x)

def counted(*, dtype="int32"):
    def counted_kernel(o_ref):
        o_ref[...] = jax.lax.broadcasted_iota(dtype, o_ref.shape, 0)
    return pl.pallas_call(counted_kernel, out_shape=jax.ShapeDtypeStruct((64, 128), dtype))()

def filled(n):
    def filled_kernel(n_ref, o_ref):
        o_ref[...] = jnp.full(o_ref.shape, n_ref[0])
    smem = pl.BlockSpec(memory_space=pltpu.SMEM)
    out = jax.ShapeDtypeStruct((64, 128), jnp.int32)
    return pl.pallas_call(filled_kernel, in_specs=[smem], out_shape=out)(n.reshape(1))

X = jax.ShapeDtypeStruct((64, 128), jnp.float32)
"""
IMPORTS = (
    "from jax.experimental.pallas import tpu as pltpu\nfrom pallascope.tpu import predictions\n"
)


def run(folder: Path, code: str) -> str:
    """What a process writes that knows nothing of the environment that jax and libtpu like."""
    quiet = ("TPU_", "LIBTPU_", "JAX_", "ALLOW_MULTIPLE_LIBTPU")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(quiet)}
    ran = subprocess.run(
        [sys.executable, "-c", IMPORTS + LAUNCHES + code],
        cwd=folder,
        env={**clean, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@needs_libtpu
def test_whatever_the_caller_has_done_before(tmp_path: Path) -> None:
    """jax has been used, without a choice of platform; one kernel makes the compiler abort."""
    out = run(
        tmp_path,
        """
print(jnp.ones(3).sum())
assert jax.devices()
calls = [(added, [X], {}), (counted, [], {"dtype": "int16"}), (counted, [], {})]
for function, args, keywords in (*calls, (filled, [jnp.int32(3)], {})):
    (kernel,) = predictions(function, *args, **keywords)
    why = kernel.failure and kernel.failure.message
    print(kernel.call.name, kernel.compiled, kernel.seconds is not None, kernel.unknown, why)
""",
    )
    names = ("added_kernel", "counted_kernel", "filled_kernel")
    jax_works, first, aborted, *others = out.splitlines()
    assert jax_works == "3.0"
    assert [first, *others] == [f"{name} True True  None" for name in names]
    gives_up = "the TPU's compiler ends without a verdict on it (SIG"
    assert aborted.startswith(f"counted_kernel False False  {gives_up}")
    assert not list(tmp_path.iterdir())


@needs_libtpu
def test_a_sweep_goes_on_after_an_abort(tmp_path: Path) -> None:
    (tmp_path / "counts.py").write_text(
        IMPORTS + LAUNCHES + "def sized(*, bits):\n    return counted(dtype=f'int{bits}')\n"
    )
    command = ["counts.py:sized", "--case", "", "--sweep", "bits=16,32"]
    ran = subprocess.run(
        [sys.executable, "-m", "pallascope.tpu", *command],
        cwd=tmp_path,
        env={**os.environ, "COLUMNS": "120", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "the TPU's compiler ends without a verdict" in " ".join(ran.stdout.split())
    assert "fastest: bits=32" in ran.stdout


def test_a_child_that_was_killed_is_not_the_kernels_fault() -> None:
    assert read_abort(-signal.SIGKILL, "") is None
    assert read_abort(1, "Traceback\nModuleNotFoundError: jax") is None


def test_an_abort_gives_the_compilers_line() -> None:
    line = "F0000 00:00:1795346526.370794    7751 lower.cc:554] Operation not supported: kAdd"
    failure = read_abort(-signal.SIGABRT, f"another line\n{line}\n*** Check failure stack ***")
    assert failure is not None
    assert failure.kind is LibtpuRefusalKind.ABORT
    assert failure.message.endswith("(SIGABRT): Operation not supported: kAdd")


def test_without_libtpu_there_is_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(compile_process, "unavailable_reason", lambda: "no libtpu here")
    monkeypatch.setattr(subprocess, "Popen", never)
    compile_process.start()
