"""What is installed of the extra "gpu", and what is said where it is not."""

from __future__ import annotations

import platform
import sys
from pathlib import Path

import pytest

from pallascope.gpu import toolchain
from pallascope.gpu.toolchain import (
    NotInstalled,
    cuda_folder,
    tools,
    why_not,
)
from pallascope.tools import versions


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder of packages, in place of all others, on Linux on x86-64."""
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(toolchain, "plugin_installed", lambda: True)
    return tmp_path


def put(packages: Path, file: str) -> Path:
    path = packages / "nvidia" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_what_is_missing_is_named_with_the_extra(
    packages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolchain, "plugin_installed", lambda: False)
    monkeypatch.setattr(versions, "_installed_version", lambda _: "1")  # also the course
    assert why_not() == "not installed: jax's CUDA plugin and ptxas (pip install '.[gpu]')"
    put(packages, "cuda_nvcc/bin/ptxas")
    assert why_not() == "not installed: jax's CUDA plugin (pip install '.[gpu]')"
    with pytest.raises(NotInstalled, match="CUDA plugin"):
        tools()


def test_other_machines_are_told_apart(packages: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert why_not().endswith("exists for Linux on x86-64 only, and this is macOS on x86-64")


def test_libdevice_belongs_to_it(packages: Path) -> None:
    put(packages, "cuda_nvcc/bin/ptxas")
    assert why_not() == ""
    with pytest.raises(NotInstalled, match="libdevice"):
        tools()


def test_one_folder_holds_all_as_a_toolkit_does(packages: Path, tmp_path: Path) -> None:
    ptxas = put(packages, "cuda_nvcc/bin/ptxas")
    put(packages, "cuda_nvcc/nvvm/libdevice/libdevice.10.bc")
    nvdisasm = put(packages, "cu13/bin/nvdisasm")
    root = cuda_folder(tmp_path / "into", tools())
    assert (root / "bin" / "ptxas").resolve() == ptxas.resolve()
    assert (root / "bin" / "nvdisasm").resolve() == nvdisasm.resolve()
    assert (root / "nvvm" / "libdevice" / "libdevice.10.bc").exists()


def test_without_nvdisasm_the_rest_still_does(packages: Path, tmp_path: Path) -> None:
    put(packages, "cuda_nvcc/bin/ptxas")
    put(packages, "cuda_nvcc/nvvm/libdevice/libdevice.10.bc")
    assert tools().nvdisasm is None
    assert [f.name for f in (cuda_folder(tmp_path / "into", tools()) / "bin").iterdir()] == [
        "ptxas"
    ]
