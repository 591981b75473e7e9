"""Finds jax's CUDA plugin, ptxas and nvdisasm without importing them.

XLA looks for ptxas, nvdisasm and libdevice below one folder, as a CUDA toolkit has them. From the
package index they come in several, so `cuda_folder` makes one of links.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from pallascope.tools.versions import extras_available, install_hint, linux_only_message

_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")


class NotInstalled(RuntimeError):
    """The extra "gpu" is not here, or not whole; the text says what is missing and what to do."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Where the parts lie. nvdisasm may be missing: then there is no instruction mix."""

    ptxas: Path
    libdevice: Path  # the folder "nvvm" that holds it
    nvdisasm: Path | None = None


def why_not() -> str:
    """Why nothing can be compiled for a GPU here, and what to install; "" where it can."""
    if not extras_available():
        return linux_only_message("the compiler for GPUs, of the extra gpu,")
    missing = [
        what
        for what, there in (
            ("jax's CUDA plugin", plugin_installed()),
            ("ptxas", _found("bin/ptxas")),
        )
        if not there
    ]
    return f"not installed: {' and '.join(missing)} ({install_hint('gpu')})" if missing else ""


def tools() -> Tools:
    """Where the parts are. Raises NotInstalled."""
    if reason := why_not():
        raise NotInstalled(reason)
    ptxas, libdevice = _found("bin/ptxas"), _found("nvvm/libdevice/libdevice.10.bc")
    if not (ptxas and libdevice):
        raise NotInstalled(
            f"not installed: libdevice, which belongs to nvcc ({install_hint('gpu')})"
        )
    return Tools(ptxas, libdevice.parents[1], _found("bin/nvdisasm"))


def cuda_folder(into: Path, parts: Tools) -> Path:
    """A folder inside `into` in which everything lies where a CUDA toolkit has it."""
    root = into / "cuda"
    (root / "bin").mkdir(parents=True)
    (root / "nvvm").symlink_to(parts.libdevice)
    for tool in (parts.ptxas, parts.nvdisasm):
        if tool:
            (root / "bin" / tool.name).symlink_to(tool)
    return root


def plugin_installed() -> bool:
    """Whether jax's CUDA plugin is here. It is not imported."""
    return any(_known(name) for name in _PLUGINS)


def runtime_library() -> Path | None:
    """What Mosaic GPU's kernels are launched with, in jax's CUDA plugin; None where it is not."""
    for plugin in ("jax_cuda12_plugin", "jax_cuda13_plugin"):
        found = importlib.util.find_spec(plugin)
        for folder in (found and found.submodule_search_locations) or ():
            if (library := Path(folder, "libmosaic_gpu_runtime.so")).exists():
                return library
    return None


def _known(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def _found(inside: str) -> Path | None:
    """A file of NVIDIA's packages: "nvidia/cuda_nvcc/…" for CUDA 12, "nvidia/cu13/…" for 13."""
    for folder in map(Path, sys.path):
        for package in ("cuda_nvcc", "cu12", "cu13", "cuda_nvdisasm"):
            if (file := folder / "nvidia" / package / inside).exists():
                return file.absolute()
    return None
