"""Compiles with XLA and ptxas in this process, without a GPU: options, versions, shared memory.

A process compiles for one chip only: XLA refuses to describe a second one. At its first
compilation, Mosaic GPU reads its output folder from the environment.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pallascope.gpu.gpu_compile_errors import GpuRefusal, too_many_threads
from pallascope.gpu.gpu_resources import (
    LaunchShape,
    Mix,
    Occupancy,
    Resources,
    occupancy,
    read_launch,
    read_mix,
    read_resources,
)
from pallascope.gpu.gpus import GpuChip, description
from pallascope.gpu.toolchain import cuda_folder, tools
from pallascope.tpu.hlo import LoweredProgram, lower_for_sharding


@dataclass(frozen=True, slots=True)
class GpuKernel:
    """One compiled kernel. Parts that couldn't be read are None."""

    name: str
    launch: LaunchShape | None
    resources: Resources | None
    mix: Mix | None
    occupancy: Occupancy | None

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, static and dynamic."""
        static = self.resources.static_shared if self.resources else 0
        return static + (self.launch.dynamic_shared if self.launch else 0)


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of compiling a program for one chip: its kernels, or the reason for a refusal."""

    chip: str
    kernels: tuple[GpuKernel, ...] = ()
    failure: GpuRefusal | None = None


def prepare(folder: Path) -> Path:
    """Set this process up to compile, before jax is imported; returns the folder of the kernels.

    Raises NotInstalled.
    """
    root = cuda_folder(folder, tools())
    kernels = folder / "kernels"
    kernels.mkdir()
    os.environ.update(
        JAX_PLATFORMS="cpu",
        TF_CPP_MIN_LOG_LEVEL="3",
        CUDA_ROOT=str(root),
        MOSAIC_GPU_CUDA_ROOT=str(root),
        MOSAIC_GPU_DUMP_TO=str(kernels),
        XLA_FLAGS=f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_cuda_data_dir={root}".strip(),
        PATH=f"{root / 'bin'}:{os.environ.get('PATH', '')}",
    )
    return kernels


def compile_program(program: LoweredProgram, chip: GpuChip, kernels: Path) -> Compiled:
    """Compile for the chip, and read the files in `kernels`. Propagates exceptions from XLA."""
    import jax

    jax.config.update("jax_persistent_cache_min_compile_time_secs", math.inf)
    sharding = jax.sharding.SingleDeviceSharding(_device(chip))
    lower_for_sharding(program, sharding, "cuda").compile()
    found = tuple(_kernel(file, chip) for file in sorted(kernels.glob("*.ptx"), key=_number))
    over = [k.launch.threads_of_block for k in found if k.launch]
    if over and max(over) > chip.threads_of_block:
        return Compiled(chip.name, found, too_many_threads(chip, max(over)))
    return Compiled(chip.name, found)


def _device(chip: GpuChip) -> Any:
    import jax
    from jax.experimental import topologies

    jax.devices()  # finds the plugin, and registers it with XLA
    described = topologies.get_topology_desc(
        platform="cuda",
        topology_name=chip.name,
        target_config=description(chip),
        topology="1x1x1",
    )
    return described.devices[0]


def _kernel(ptx: Path, chip: GpuChip) -> GpuKernel:
    """Read the files that Mosaic GPU writes for a kernel; they differ in their last suffix."""
    with _beside(ptx, "mlir-passes.log").open(encoding="utf-8", errors="replace") as passes:
        launch = read_launch(passes)
    resources = read_resources(_text(ptx, "ptxas"))
    mix = read_mix(_text(ptx, "sass") or _text(ptx, "sass_ctrl"))
    name = ptx.stem.rpartition("_")[0]
    kernel = GpuKernel(name, launch, resources, mix, None)
    if not (launch and resources and launch.threads_of_block):
        return kernel
    held = occupancy(chip, launch.threads_of_block, resources.registers, kernel.shared)
    return GpuKernel(name, launch, resources, mix, held)


def _text(ptx: Path, suffix: str) -> str:
    file = _beside(ptx, suffix)
    return file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""


def _beside(ptx: Path, suffix: str) -> Path:
    return ptx.with_name(f"{ptx.stem}.{suffix}")


def _number(ptx: Path) -> int:
    """Kernels are numbered in the order of compilation: "body_0", "step_1"."""
    number = ptx.stem.rpartition("_")[2]
    return int(number) if number.isdecimal() else 0
