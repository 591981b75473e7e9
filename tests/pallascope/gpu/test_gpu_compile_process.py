"""Kernels compiled for GPUs that are not there."""

from __future__ import annotations

import pytest

from pallascope.gpu import (
    Compiled,
    GpuKernel,
    GpuRefusalKind,
    NotInstalled,
    compiled_for,
    gpu_compile_process,
    named,
)
from pallascope.gpu.toolchain import why_not
from tests.pallascope.support import gpu_launches as launches
from tests.pallascope.support.gpu_launches import struct

needs_compiler = pytest.mark.skipif(bool(why_not()), reason=f"{why_not()}: the extra gpu")

H100, B200 = named("h100"), named("b200")
X = struct("float32", 256, 128)


def only(answer: Compiled) -> GpuKernel:
    assert not answer.failure, answer.failure
    (kernel,) = answer.kernels
    return kernel


@needs_compiler
def test_a_kernel_with_tma() -> None:
    kernel = only(compiled_for(launches.double_by_tma, [X], H100))
    assert kernel.launch
    assert kernel.resources
    assert kernel.mix
    assert kernel.launch.grid == (4, 1, 1)
    assert kernel.launch.threads == (128, 1, 1)
    assert kernel.launch.dynamic_shared == 64 * 128 * 4 + 8
    assert kernel.resources.target == "sm_90a"
    assert not kernel.resources.spills
    assert kernel.mix.count("TMA loads")
    assert kernel.mix.count("TMA stores")
    assert not kernel.mix.count("wgmma")
    assert kernel.occupancy
    assert kernel.occupancy.bound == "shared memory"


@needs_compiler
def test_one_chip_after_another_and_the_unit_of_each() -> None:
    a = struct("float16", 64, 64)
    kernel = only(compiled_for(launches.one_wgmma, [a, a], H100))
    assert kernel.mix
    assert kernel.mix.count("wgmma") == 4  # K in steps of 16
    kernel = only(compiled_for(launches.double_by_tma, [X], B200))
    assert kernel.resources
    assert kernel.resources.target == "sm_100a"
    found = compiled_for(launches.tensor_memory, [X], H100).failure
    assert found
    assert found.kind is GpuRefusalKind.CHIP
    assert only(compiled_for(launches.tensor_memory, [X], B200)).mix


@needs_compiler
def test_spills_are_told() -> None:
    kernel = only(compiled_for(launches.spills, [struct("float32", 128, 320)], H100))
    assert kernel.resources
    assert kernel.mix
    assert kernel.resources.spills
    assert kernel.resources.registers == 255
    assert kernel.mix.count("local stores")


@needs_compiler
def test_a_block_that_is_too_large_to_launch() -> None:
    found = compiled_for(launches.sixteen_warpgroups, [struct("float32", 2048)], H100).failure
    assert found
    assert found.kind is GpuRefusalKind.THREADS


@needs_compiler
def test_a_program_without_kernels() -> None:
    assert compiled_for(launches.without_kernel, [X], H100) == Compiled("h100")


@needs_compiler
def test_a_compiler_that_takes_too_long_is_stopped() -> None:
    found = compiled_for(launches.double_by_tma, [X], H100, patience=0.01).failure
    assert found
    assert found.kind is GpuRefusalKind.TIMEOUT


def test_without_the_extra_what_jax_refuses_is_still_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_compile_process, "why_not", lambda: "not installed: ptxas")
    found = compiled_for(launches.sorts, [X], H100).failure
    assert found
    assert found.kind is GpuRefusalKind.PRIMITIVE
    with pytest.raises(NotInstalled, match="not installed: ptxas"):
        compiled_for(launches.double_by_tma, [X], H100)
