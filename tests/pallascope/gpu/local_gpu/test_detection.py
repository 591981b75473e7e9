"""Which GPU is here, told apart by what files, the environment and a process say."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from pallascope.gpu import local_gpu as module
from pallascope.gpu import named
from pallascope.gpu.local_gpu import Here, environment, here

H100, B200 = named("h100"), named("b200")
ANSWER = "pallas-katas-gpu:\t9.0\tNVIDIA H100 80GB HBM3\n"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root folder with a driver's device, where the plugin is installed."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvidiactl").touch()
    monkeypatch.setattr(module, "plugin_installed", lambda: True)
    return tmp_path


def answering(code: int, printed: str) -> module.Ask:
    return lambda _: (code, printed)


def nobody(_: Mapping[str, str]) -> tuple[int, str]:
    raise AssertionError("a process was started")


def test_without_a_driver_nothing_is_started(tmp_path: Path) -> None:
    found = here({}, tmp_path, nobody)
    assert found.none
    assert found.why_not_for(H100) == "no NVIDIA driver is here"


@pytest.mark.parametrize(
    ("name", "value"),
    [("JAX_PLATFORMS", "cpu"), ("CUDA_VISIBLE_DEVICES", ""), ("CUDA_VISIBLE_DEVICES", "-1")],
)
def test_who_hides_the_gpu_is_obeyed(machine: Path, name: str, value: str) -> None:
    found = here({name: value}, machine, nobody)
    assert f"{name}={value}" in found.why_not
    assert not found.none


@pytest.mark.parametrize("value", ["cuda", "gpu,cpu"])
def test_who_asks_for_the_gpu_gets_it(machine: Path, value: str) -> None:
    assert not here({"JAX_PLATFORMS": value}, machine, answering(0, ANSWER)).why_not


def test_without_the_plugin_nothing_is_started(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "plugin_installed", lambda: False)
    assert "jax's CUDA plugin is not installed (pip" in here({}, machine, nobody).why_not


def test_the_gpu_that_is_here(machine: Path) -> None:
    found = here({}, machine, answering(0, f"a warning of XLA's\n{ANSWER}"))
    assert found == Here("NVIDIA H100 80GB HBM3", (9, 0))
    assert not found.why_not_for(H100)
    assert "generation of NVIDIA B200, and here is NVIDIA H100" in found.why_not_for(B200)


def test_an_older_gpu() -> None:
    told = Here("NVIDIA A100-SXM4-80GB", (8, 0)).why_not_for(H100)
    assert told.startswith("NVIDIA A100-SXM4-80GB has compute capability 8.0")
    assert "a Hopper (H100, H200) or newer" in told


@pytest.mark.parametrize(
    ("code", "printed", "told"),
    [
        (1, "Traceback\nRuntimeError: Unknown backend: 'gpu'\n", "Unknown backend: 'gpu'"),
        (1, "cuInit: CUDA_ERROR_NO_DEVICE\nTraceback\nAssertionError\n", "CUDA_ERROR_NO_DEVICE"),
        (1, "Traceback\n    assert backend\nAssertionError\n", "finds none that works"),
        (-6, "", "exit code -6"),
        (0, "nothing of ours\n", "nothing of ours"),
        (0, "pallas-katas-gpu:\t\tAMD Instinct\n", "no compute capability of AMD Instinct"),
    ],
)
def test_a_gpu_that_jax_can_not_use(machine: Path, code: int, printed: str, told: str) -> None:
    assert told in here({}, machine, answering(code, printed)).why_not


def test_the_process_has_an_environment_of_its_own() -> None:
    given = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_cpu_x", "LD_LIBRARY_PATH": "/cuda"}
    told = environment(given)
    assert told["JAX_PLATFORMS"] == "cuda"
    assert "XLA_FLAGS" not in told
    assert told["LD_LIBRARY_PATH"] == "/cuda"


def test_the_question_is_a_program_that_runs(machine: Path, tmp_path: Path) -> None:
    """Against a jax that is a file of three lines, by the process that really asks."""
    (tmp_path / "jax.py").write_text(
        "class D: compute_capability, device_kind = '10.0', 'NVIDIA B200'\n"
        "import os\n"
        "def devices(kind): assert (kind, os.environ['JAX_PLATFORMS']) == ('gpu', 'cuda'); "
        "return [D]\n"
    )
    before = list(sys.path)
    sys.path.insert(0, str(tmp_path))
    try:
        found = here({"PATH": os.environ["PATH"]}, machine)
    finally:
        sys.path[:] = before
    assert found == Here("NVIDIA B200", (10, 0))
