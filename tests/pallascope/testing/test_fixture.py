"""The fixture `pallas`: the suite of a small repository, snapshots, and repositories without it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pallascope.tpu import libtpu

ROOT = Path(__file__).parents[3]
HERE = ROOT / "integrations" / "pytest"
EXAMPLE = HERE / "example"
SNAPSHOTS = Path("__snapshots__") / "test_kernels.pallas.json"
compiled = pytest.mark.skipif(bool(libtpu.unavailable_reason()), reason="needs libtpu")


#: The fixture's, and none of those that this environment has for other reasons.
PLUGINS = ("-p", "pytest_pallas", "-p", "no:cacheprovider", "-p", "no:jaxtyping", "-p", "no:anyio")


def run(folder: Path, *arguments: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    """pytest in a folder, with the fixture's plugin. PYTHONPATH has what pip would install."""
    environ = {name: value for name, value in os.environ.items() if "PYTEST" not in name}
    environ |= {"PYTHONPATH": os.pathsep.join((str(HERE), str(ROOT))), "CI": ci}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLUGINS, *arguments],
        cwd=folder, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "example"))


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")


@compiled
def test_the_example_passes_as_its_readme_says(repository: Path) -> None:
    """Where CI=true: a missing snapshot would fail."""
    ran = run(repository, ci="true")
    assert ran.returncode == 0, ran.stdout
    assert "10 passed" in ran.stdout


#: Faults that a change of the example plants: the test that finds each, the old text, the new
#: text, and words of the message.
PLANTED = {
    "accumulator": (
        *("matmul", "acc_ref[...] = jnp.zeros_like(acc_ref)", "acc_ref[...] = acc_ref[...]"),
        "acc_ref",
    ),
    "parallel": ("matmul", '"parallel", "arbitrary")', '"parallel", "parallel")', "race"),
    "mask": (
        "sums",
        "rows < starts_ref[group + 1]",
        "rows <= starts_ref[group + 1]",
        "line 73 had < instead of <=",
    ),
    "early": ("take", "    copy(step).wait()\n", "", "slots"),
    "slot": ("take", "slots[jax.lax.rem(step, 2)]", "slots[jax.lax.rem(step + 1, 2)]", "slots"),
    "gradient": ("norm", "scale * (gw - y *", "scale * (gw + y *", "line 161"),
    "axis": (
        "softmax",
        "jnp.max(x, axis=-1",
        "jnp.max(x, axis=0",
        "line 55 reduced along dimension 1",
    ),
}


@pytest.mark.parametrize("name", PLANTED)
def test_planted_faults_are_found(repository: Path, name: str) -> None:
    test, old, new, says = PLANTED[name]
    text = (repository / "kernels.py").read_text(encoding="utf-8")
    assert text.count(old) == 1
    write(repository, "kernels.py", text.replace(old, new))
    ran = run(repository, "-k", f"{test} and not production")
    assert ran.returncode == 1, ran.stdout
    assert "KernelFault: " in ran.stdout
    assert says in ran.stdout


GROWN = """
from pallascope import LaunchCost

def test_cost(pallas):
    pallas.snapshot(LaunchCost("v5e", {seconds}, 1000, 10, {{}}, "", "{kernel}"))
"""


def test_a_snapshot_is_written_once_and_fails_when_a_number_has_grown(tmp_path: Path) -> None:
    write(tmp_path, "test_a.py", GROWN.format(seconds=1e-3, kernel="k"))
    assert run(tmp_path, ci="true").returncode == 1  # it isn't committed
    assert not (tmp_path / "__snapshots__").exists()
    assert run(tmp_path).returncode == 0
    file = tmp_path / "__snapshots__" / "test_a.pallas.json"
    stored = json.loads(file.read_text(encoding="utf-8"))
    assert list(stored) == ["test_cost on v5e"]
    assert stored["test_cost on v5e"]["seconds"] == 1e-3
    write(tmp_path, "test_a.py", GROWN.format(seconds=1.04e-3, kernel="other"))
    assert run(tmp_path, ci="true").returncode == 0
    write(tmp_path, "test_a.py", GROWN.format(seconds=1.06e-3, kernel="other"))
    ran = run(tmp_path, ci="true")
    assert ran.returncode == 1
    assert "seconds  0.001 → 0.00106 s (+6.0%)" in ran.stdout
    assert "pytest --pallas-update" in ran.stdout
    write(tmp_path, "pytest.ini", "[pytest]\npallas_within = 0.1\n")
    assert run(tmp_path, ci="true").returncode == 0
    (tmp_path / "pytest.ini").unlink()
    assert run(tmp_path, "--pallas-update", ci="true").returncode == 0
    assert run(tmp_path, ci="true").returncode == 0
    write(tmp_path, "test_a.py", GROWN.format(seconds=0.5e-3, kernel="other"))
    ran = run(tmp_path, ci="true")
    assert ran.returncode == 0
    assert "costs less" in ran.stdout
    write(tmp_path, "test_a.py", GROWN.format(seconds=None, kernel="other"))
    assert "not known any more" in run(tmp_path, ci="true").stdout


def test_a_snapshot_tells_whether_versions_or_the_kernel_changed(tmp_path: Path) -> None:
    write(tmp_path, "test_a.py", GROWN.format(seconds=1e-3, kernel="k"))
    run(tmp_path)
    file = tmp_path / "__snapshots__" / "test_a.pallas.json"
    file.write_text(re.sub(r'"jax": ".*?"', '"jax": "0.1"', file.read_text(encoding="utf-8")))
    write(tmp_path, "test_a.py", GROWN.format(seconds=2e-3, kernel="k"))
    assert "the kernel is the same, but versions differ: jax 0.1 →" in run(tmp_path).stdout
    write(tmp_path, "test_a.py", GROWN.format(seconds=2e-3, kernel="other"))
    assert "versions differ, too: jax 0.1 →" in run(tmp_path).stdout


def test_a_broken_file_of_snapshots_is_kept(tmp_path: Path) -> None:
    write(tmp_path, "test_a.py", GROWN.format(seconds=1e-3, kernel="k"))
    (tmp_path / "__snapshots__").mkdir()
    write(tmp_path, "__snapshots__/test_a.pallas.json", "<<<<<<< HEAD")
    ran = run(tmp_path)
    assert ran.returncode == 1
    assert "is broken" in ran.stdout
    file = tmp_path / "__snapshots__" / "test_a.pallas.json"
    assert file.read_text(encoding="utf-8") == "<<<<<<< HEAD"


def test_processes_of_xdist_write_one_file(tmp_path: Path) -> None:
    tests = "\n".join(
        f"def test_{n}(pallas):\n    pallas.snapshot(LaunchCost('v5e', 1.0, {n}, 1))\n"
        for n in range(20)
    )
    write(tmp_path, "test_a.py", f"from pallascope import LaunchCost\n{tests}")
    assert run(tmp_path, "--pallas-update", "-n", "2").returncode == 0
    file = tmp_path / "__snapshots__" / "test_a.pallas.json"
    assert len(json.loads(file.read_text(encoding="utf-8"))) == 20
    assert list(file.parent.iterdir()) == [file]


def test_a_test_that_is_not_judged_is_skipped_with_the_reason(tmp_path: Path) -> None:
    text = """
import jax
from jax.experimental import pallas as pl

def test_compiled(pallas):
    x = pallas.normal((8, 128))
    kernel = lambda x_ref, o_ref: o_ref.__setitem__(..., x_ref[...])
    pallas.check(lambda x: pl.pallas_call(kernel, out_shape=x)(x), x, interpreter="compiled")
"""
    write(tmp_path, "test_a.py", text)
    ran = run(tmp_path, "-rs")
    assert ran.returncode == 0
    assert "not judged: jax finds no TPU on this machine" in ran.stdout


def test_random_arrays_depend_on_the_test_alone(tmp_path: Path) -> None:
    text = "def test_{}(pallas): print('drawn', pallas.normal((4,)))\n"
    write(tmp_path, "test_a.py", text.format("a") + text.format("b"))
    drawn = [
        re.findall("drawn .*", run(tmp_path, "-s", *more).stdout) for more in ((), ("-k", "b"))
    ]
    assert drawn[0][1:] == drawn[1]
    assert drawn[0][0] != drawn[0][1]


def test_a_setting_that_is_no_number_is_an_error_of_usage(tmp_path: Path) -> None:
    write(tmp_path, "test_a.py", "def test_a(pallas): pass\n")
    write(tmp_path, "pytest.ini", "[pytest]\npallas_timeout = soon\n")
    assert "pallas_timeout = 'soon'" in run(tmp_path).stdout


def test_a_repository_that_does_not_use_it_imports_nothing(tmp_path: Path) -> None:
    text = """
import sys

def test_a():
    assert not {"jax", "numpy", "pallascope"} & set(sys.modules)
"""
    write(tmp_path, "test_a.py", text)
    ran = run(tmp_path)
    assert ran.returncode == 0, ran.stdout


def test_its_help_shows_the_options_and_the_settings(tmp_path: Path) -> None:
    shown = run(tmp_path, "--help").stdout
    for name in ("--pallas-update", "--pallas-interpreter", "pallas_chip", "pallas_within"):
        assert name in shown
