"""Sizes, times and routes in words."""

from __future__ import annotations

from pallascope.model import Route


def bytes_of(size: float) -> str:
    """A size in bytes: "512 B", "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{_short(size)} {unit}"
        size /= 1024
    return f"{_short(size)} GiB"


def time_of(seconds: float) -> str:
    """A time: "440 ns", "12.5 µs", "1.2 ms"."""
    if seconds < 1e-6:
        return f"{_short(seconds * 1e9)} ns"
    if seconds < 1e-3:
        return f"{_short(seconds * 1e6)} µs"
    return f"{_short(seconds * 1e3)} ms"


def _short(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def way_of(route: Route) -> str:
    """Which way something goes along the axes of a mesh."""
    steps = " and ".join(f'{number:+d} along "{name}"' for name, number in route.steps)
    return f"{steps}, {route.hops} hop{'s' * (route.hops > 1)}"
