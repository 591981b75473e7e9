"""Which versions and extras are installed, and how to install them.

Which versions of the packages that judge are installed.

The package's extras, which only Linux on x86-64 can have, and what to do elsewhere.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, version

PACKAGE = "pallas-katas"
#: The versions of jax that are tested, from the oldest to the first that is too new; pyproject.toml
#: asks for these.
TESTED_JAX = ("0.10.2", "0.13")


def versions() -> dict[str, str | None]:
    """What judged, by package; None for one that is not installed."""
    return {name: _version(name) for name in (PACKAGE, "jax", "jaxlib", "libtpu")}


def untested_jax() -> str:
    """A sentence on a jax outside of the tested range; "" for one within it, or none at all."""
    installed = _version("jax")
    oldest, too_new = map(_numbers, TESTED_JAX)
    if installed is None or oldest <= _numbers(installed) < too_new:
        return ""
    tested = f"'jax>={TESTED_JAX[0]},<{TESTED_JAX[1]}'"
    return (
        f"jax {installed} isn't one of the versions that the katas are tested with: grading goes "
        f"on, but a verdict may be wrong. To install a tested version: pip install {tested}"
    )


def _numbers(text: str) -> tuple[int, ...]:
    """The release of a version: a pre-release counts as the release that it comes before."""
    release = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, release[0].split("."))) if release else ()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


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
