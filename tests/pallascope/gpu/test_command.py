"""`python -m pallascope.gpu`."""

from __future__ import annotations

import pytest

from pallascope.gpu import __main__ as command
from pallascope.gpu import gpus
from pallascope.gpu.gpu_compiler import Compiled, GpuKernel
from pallascope.gpu.gpu_resources import LaunchShape, occupancy, read_mix, read_resources
from pallascope.gpu.toolchain import NotInstalled
from tests.pallascope.gpu.test_gpu_resources import PTXAS, SASS, SPILLED
from tests.pallascope.support import ROOT

FILE = ROOT / "tests" / "pallascope" / "support" / "gpu_launches.py"
X = "f32[256,128]"


def compiled_kernel(ptxas: str = PTXAS) -> GpuKernel:
    shape = LaunchShape((32, 64, 1), (128, 1, 1), dynamic_shared=65552)
    held = occupancy(gpus.named("h100"), 128, 90, 65553)
    return GpuKernel("body", shape, read_resources(ptxas), read_mix(SASS), held)


def test_what_a_kernel_takes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    answer = Compiled("h100", (compiled_kernel(), compiled_kernel(SPILLED)))
    monkeypatch.setattr(command, "compiled_for", lambda *_: answer)
    assert command.main([f"{FILE}:double_by_tma", "--case", X]) == 0
    out = capsys.readouterr().out
    for words in (
        "double_by_tma compiled for a GPU h100",
        "32 × 64 blocks, for 132 multiprocessors",
        "128 per block: 1 warpgroup\n",
        "64.02 KiB of a block's 227 KiB (28%)",
        "90 per thread",
        "3 blocks on a multiprocessor, 19% of its warps; bound by shared memory",
        "12, among them 1 wgmma, 2 TMA loads, 1 TMA stores",
        "3,428 bytes stored and 3,424 bytes loaded by each thread",
    ):
        assert words in out


def test_what_takes_shared_memory(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main([f"{FILE}:two_large_buffers", "--case", X]) == 1
    out = capsys.readouterr().out
    assert "262,152 bytes of shared memory, and a block may have 232,448" in out
    assert "float32[256,128]  128 KiB" in out


def test_without_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object) -> Compiled:
        raise NotInstalled("not installed: ptxas (pip install '.[gpu]')")

    monkeypatch.setattr(command, "compiled_for", missing)
    assert command.main([f"{FILE}:double_by_tma", "--case", X]) == 2
    err = capsys.readouterr().err
    assert "jax lowers it for the h100; not checked: whether it compiles" in err
    assert "pip install '.[gpu]'" in err


def test_a_function_without_kernels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "compiled_for", lambda *_: Compiled("h100"))
    assert command.main([f"{FILE}:without_kernel", "--case", X]) == 1
    assert "It launches no plgpu.kernel" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{FILE}:nothing", "--case", X], "has no function nothing"),
        (["no_such_file.py:f", "--case", X], "no_such_file.py can't be imported"),
        (["kernel", "--case", X], "is not of the form FILE.py:NAME or MODULE:NAME"),
        ([f"{FILE}:sorts", "--case", f"{X} tile=64"], "sorts has no argument tile: it takes x"),
        ([f"{FILE}:sorts", "--case", "f33[2]"], "isn't a dtype"),
    ],
)
def test_misuse(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    assert command.main(arguments) == 2
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--timeout", "0"], ["--timeout", "soon"], ["--chip", "a100"]])
def test_options_that_are_none(capsys: pytest.CaptureFixture[str], more: list[str]) -> None:
    with pytest.raises(SystemExit):
        command.main([f"{FILE}:sorts", "--case", X, *more])
    assert more[1] in capsys.readouterr().err
