"""Which versions of the packages that judge are installed."""

from __future__ import annotations

import re
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
