"""A kata for GPUs in a whole session, on a machine without one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from pallascope.gpu import why_not
from tests.support.repositories import ROOT, Repository

BODY = """at = pl.ds((lax.axis_index("block") * 2 + lax.axis_index("wg")) * 128, 128)
o_gmem[at] = x_gmem[at] * 2"""
SOLUTION = f'''"""Double every element, each thread its own."""

import jax
import jax.experimental.pallas as pl
import jax.experimental.pallas.mosaic_gpu as plgpu
from jax import lax
from jaxtyping import Array, Float


def NAME_spec(x: Float[Array, "N"]) -> Float[Array, "N"]:
    return x * 2


def NAME_kernel(x_gmem, o_gmem):
    # BEGIN SOLUTION
    {BODY.replace(chr(10), chr(10) + "    ")}
    # END SOLUTION


def NAME(x: Float[Array, "N"]) -> Float[Array, "N"]:
    return plgpu.kernel(
        NAME_kernel,
        out_type=jax.ShapeDtypeStruct(x.shape, x.dtype),
        grid=(x.shape[0] // 256,),
        grid_names=("block",),
        num_threads=2,
        thread_name="wg",
    )(x)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
KEY = """title = "NAME"
concept = "threads"
write = "kernel"
todo = ["double it"]
hints = ["a", "b", "c"]
count = 3
target = "gpu"

[cases]
N = [512, 768, 1280]

[production]
N = 1048576
"""


def test_the_stars_and_what_is_told(repository: Repository, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Repository, "SOLUTION", SOLUTION)
    monkeypatch.setattr(Repository, "BODY", BODY.replace("\n", "\n    "))
    kata = repository.add("double", key=KEY)
    repository.solve(kata, BODY)
    ran = repository.pytest("-k", "hidden0 or hidden3")
    assert ran.code == 0, ran.out
    run, predicted = ran.grades["double"]
    assert (run["stars"], run["state"]) == (3, "passed")
    assert predicted["stars"] == (1 if why_not() else 2)
    assert predicted["not_judged"]["check"] == ("compiles" if why_not() else "cost")

    repository.solve(kata, BODY.replace(' + lax.axis_index("wg")', ""))
    ran = repository.pytest("-k", "hidden0")
    assert ran.code == 1
    assert "race: the same elements are written twice" in ran.phrase("double")
    assert "kata view" not in ran.out


def test_nobody_else_imports_what_is_for_gpus() -> None:
    """Pytest's process nothing at all; its workers what they need to trace a launch, no more."""
    code = (
        "import sys, {modules}; from pallascope.kernels.serialization import make_ready; "
        "make_ready();"
        "print(*(name for name in sys.modules if name.startswith(('pallascope.gpu.', "
        "'grader.checks.gpu_', 'jax._src.pallas.mosaic_gpu.core', "
        "'jax.experimental.mosaic.gpu'))))"
    )
    modules = "grader.sandbox.worker, grader.plugin.hooks, grader.plugin.items"
    ran = subprocess.run(
        [sys.executable, "-c", code.format(modules=modules)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(ran.stdout.split()) == {"pallascope.gpu.gpus"}
