"""Installed versions of jax, libtpu and this package, and how to install its extras."""

from __future__ import annotations

import functools
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, metadata, version

PACKAGE = "pallas-katas"
#: The range of tested jax versions, from the oldest to the first that is too new; pyproject.toml
#: requires it.
TESTED_JAX = ("0.10.2", "0.13")


def versions() -> dict[str, str | None]:
    """The versions of the packages that affect verdicts; None for one that isn't installed."""
    return {name: _installed_version(name) for name in (PACKAGE, "jax", "jaxlib", "libtpu")}


def repository_address() -> str:
    """The address of the course's repository, from the metadata; "" if they have none."""
    return _project_address("Repository")


def site_address() -> str:
    """The address of the course's site, from the metadata; "" if they have none."""
    return _project_address("Documentation")


@functools.cache
def _project_address(name: str) -> str:
    try:
        links = metadata(PACKAGE).get_all("Project-URL") or ()
    except PackageNotFoundError:
        return ""
    return dict(link.split(", ", 1) for link in links).get(name, "")


def untested_jax() -> str:
    """A warning if the installed jax is outside of the tested range, otherwise ""."""
    installed = _installed_version("jax")
    oldest, too_new = map(_release, TESTED_JAX)
    if installed is None or oldest <= _release(installed) < too_new:
        return ""
    tested = f"'jax>={TESTED_JAX[0]},<{TESTED_JAX[1]}'"
    return (
        f"jax {installed} isn't one of the versions that the katas are tested with: grading goes "
        f"on, but a verdict may be wrong. To install a tested version: pip install {tested}"
    )


def _release(text: str) -> tuple[int, ...]:
    """The release part of a version; a pre-release counts as its release."""
    release = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, release[0].split("."))) if release else ()


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


#: Machines with wheels for the extras "tpu" and "gpu", as in pyproject.toml's markers.
_SUPPORTED_PLATFORM = ("linux", "x86_64")
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_ALTERNATIVES = {
    "tpu": "use GitHub or Colab: push to your fork, or open docs/colab.ipynb",
    "gpu": "use Colab or any Linux on x86-64",
}
#: jax's own extra has wheels for Linux on ARM too.
_JAX_FOR_GPUS = "pip install 'jax[cuda12]'"


def extras_available() -> bool:
    """Whether the extras have wheels for this machine."""
    return _platform() == _SUPPORTED_PLATFORM


def linux_only_message(part: str) -> str:
    """The message that a part of an extra doesn't exist for this machine."""
    system, processor = _platform()
    here = f"{_SYSTEMS.get(system, system)} on {processor.replace('_', '-')}"
    return f"{part} exists for Linux on x86-64 only, and this is {here}"


def install_hint(extra: str) -> str:
    """How to install the extra "tpu" or "gpu", or where else to find a machine with it."""
    if extras_available():
        # without the course, this is its package alone
        where = "." if _installed_version(PACKAGE) else "pallascope"
        return f"pip install '{where}[{extra}]'"
    if extra == "gpu" and sys.platform == "linux":
        return _JAX_FOR_GPUS
    return _ALTERNATIVES[extra]


def reinstall_hint() -> str:
    """The command that updates the environment."""
    return "pip install -e '.[tpu]'" if extras_available() else "pip install -e ."


def _platform() -> tuple[str, str]:
    return sys.platform, platform.machine()
