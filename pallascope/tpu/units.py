"""Formats sizes, times and routes."""

from __future__ import annotations

from pallascope.model import Route


def format_bytes(size: float) -> str:
    """A size in bytes: "512 B", "1.5 MiB"."""
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{_three_digits(size)} {unit}"
        size /= 1024
    return f"{_three_digits(size)} GiB"


def format_time(seconds: float) -> str:
    """A time: "440 ns", "12.5 µs", "1.2 ms"."""
    if seconds < 1e-6:
        return f"{_three_digits(seconds * 1e9)} ns"
    if seconds < 1e-3:
        return f"{_three_digits(seconds * 1e6)} µs"
    return f"{_three_digits(seconds * 1e3)} ms"


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def format_route(route: Route) -> str:
    """A route along the axes of a mesh: '+1 along "x", 1 hop'."""
    steps = " and ".join(f'{number:+d} along "{name}"' for name, number in route.steps)
    return f"{steps}, {route.hops} hop{'s' * (route.hops > 1)}"
