"""Which versions of the packages that judge are installed."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

PACKAGE = "pallas-katas"


def versions() -> dict[str, str | None]:
    """What judged, by package; None for one that is not installed."""
    return {name: _version(name) for name in (PACKAGE, "jax", "jaxlib", "libtpu")}


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
