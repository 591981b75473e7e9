"""The package's extras, which only Linux on x86-64 can have, and what to do elsewhere."""

from __future__ import annotations

import platform
import sys

#: Where the wheels of the extras "tpu" and "gpu" exist, as pyproject.toml's markers say.
_HOME = ("linux", "x86_64")
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ELSEWHERE = {
    "tpu": "GitHub and Colab have it: push to your fork, or open docs/colab.ipynb",
    "gpu": "Colab, or any Linux on x86-64, can have it",
}
#: jax's own extra has wheels for Linux on ARM, too.
_JAX_FOR_GPUS = "pip install 'jax[cuda12]'"


def exist_here() -> bool:
    """Whether the extras bring anything on this machine."""
    return _machine() == _HOME


def only_on_linux(part: str) -> str:
    """Why this machine can't have a part of an extra, where it can't."""
    system, processor = _machine()
    here = f"{_SYSTEMS.get(system, system)} on {processor.replace('_', '-')}"
    return f"{part} exists for Linux on x86-64 only, and this is {here}"


def remedy(extra: str) -> str:
    """How to get what the extra "tpu" or "gpu" brings, or where else it is."""
    if exist_here():
        return f"pip install '.[{extra}]'"
    if extra == "gpu" and sys.platform == "linux":
        return _JAX_FOR_GPUS
    return _ELSEWHERE[extra]


def reinstall() -> str:
    """How to bring the environment up to date."""
    return "pip install -e '.[tpu]'" if exist_here() else "pip install -e ."


def _machine() -> tuple[str, str]:
    return sys.platform, platform.machine()
