"""What each machine is told to install, and none is told to install what doesn't exist for it."""

from __future__ import annotations

import importlib.util
import platform
import re
import sys

import pytest

from grader.plugin import hooks
from pallascope.gpu import __main__ as gpu_command
from pallascope.gpu import toolchain
from pallascope.tools.versions import install_hint, reinstall_hint
from pallascope.tpu import __main__ as tpu_command
from pallascope.tpu import libtpu

LINUX, ARM = ("linux", "x86_64"), ("linux", "aarch64")
APPLE, INTEL_MAC = ("darwin", "arm64"), ("darwin", "x86_64")


@pytest.fixture(params=[LINUX, ARM, APPLE, INTEL_MAC], ids=" ".join)
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    """This machine is another one, with nothing installed."""
    monkeypatch.setattr(sys, "platform", request.param[0])
    monkeypatch.setattr(platform, "machine", lambda: request.param[1])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(toolchain, "_found", lambda inside: None)
    return request.param


def said() -> dict[str, str]:
    """Every text that names a way to install something."""
    return {
        "header": hooks._compiler_note(),
        "libtpu": libtpu.unavailable_reason(),
        "gpu": toolchain.why_not(),
        "remedies": f"{install_hint('tpu')}, {install_hint('gpu')}",
        "update": reinstall_hint(),
        "pallascope.tpu": tpu_command._parser().format_help(),
        "pallascope.gpu": gpu_command._parser().format_help(),
    }


def test_only_an_extra_that_exists_here_is_named(machine: tuple[str, str]) -> None:
    named = {what for what, text in said().items() if re.search(r"\.\[(tpu|gpu)\]", text)}
    assert named == (set(said()) if machine == LINUX else set())


def test_elsewhere_the_header_says_once_what_can_be_done(machine: tuple[str, str]) -> None:
    header = hooks._compiler_note()
    assert header.count("docs/colab.ipynb") == (machine != LINUX)
    assert ("Linux on x86-64 only, and this is" in header) == (machine != LINUX)


def test_a_gpu_under_linux_on_arm_has_jaxs_own_extra(machine: tuple[str, str]) -> None:
    assert ("jax[cuda12]" in install_hint("gpu")) == (machine == ARM)
