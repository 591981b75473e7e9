"""Finds jax's CUDA plugin, ptxas and nvdisasm without importing them.

XLA looks for ptxas, nvdisasm and libdevice in one folder, as in a CUDA toolkit. The packages
install them in several folders, so `cuda_folder` makes a folder of links.
"""

from __future__ import annotations

import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path

from pallascope.tools.versions import extras_available, install_hint, linux_only_message

_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")


class NotInstalled(RuntimeError):
    """The extra "gpu" is missing or incomplete; the message names the missing part and a remedy."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The paths of the parts. nvdisasm may be missing: then there is no instruction mix."""

    ptxas: Path
    libdevice: Path  # the folder "nvvm" that contains it
    nvdisasm: Path | None = None


def why_not() -> str:
    """The reason if this machine can't compile for a GPU, and what to install; otherwise ""."""
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
    """The paths of the parts. Raises NotInstalled."""
    if reason := why_not():
        raise NotInstalled(reason)
    ptxas, libdevice = _found("bin/ptxas"), _found("nvvm/libdevice/libdevice.10.bc")
    if not (ptxas and libdevice):
        raise NotInstalled(
            f"not installed: libdevice, which belongs to nvcc ({install_hint('gpu')})"
        )
    return Tools(ptxas, libdevice.parents[1], _found("bin/nvdisasm"))


def cuda_folder(into: Path, parts: Tools) -> Path:
    """A folder inside `into` with the layout of a CUDA toolkit."""
    root = into / "cuda"
    (root / "bin").mkdir(parents=True)
    (root / "nvvm").symlink_to(parts.libdevice)
    for tool in (parts.ptxas, parts.nvdisasm):
        if tool:
            (root / "bin" / tool.name).symlink_to(tool)
    return root


def plugin_installed() -> bool:
    """Whether jax's CUDA plugin is installed. Doesn't import it."""
    return any(_known(name) for name in _PLUGINS)


def runtime_library() -> Path | None:
    """The library in jax's CUDA plugin that launches Mosaic GPU's kernels, or None."""
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
