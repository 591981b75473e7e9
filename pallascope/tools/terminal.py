"""Renders rich output as text, with or without colour and Unicode."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.text import Text

NARROWEST, WIDEST = 40, 120

#: For terminals that can't show them.
_PLAIN = {**str.maketrans("✔✘·★☆█░×−–…µ←→", "+x-*.#.x---u<>"), ord("≥"): ">="}


def rendered(renderable: RenderableType, width: int, colour: bool, encoding: str = "utf-8") -> str:
    """A renderable as text of the given width, with ANSI colours if asked for."""
    console = Console(
        file=io.StringIO(),
        width=max(NARROWEST, min(width, WIDEST)),
        height=100,  # given too, or rich falls back to 80 columns on a dumb terminal
        force_terminal=colour,
        color_system="standard" if colour else None,
        highlight=False,
        markup=False,  # "[tpu]" is text
        emoji=False,
        legacy_windows=False,
    )
    with console.capture() as capture:
        console.print(renderable, crop=False)
    text = "\n".join(line.rstrip() for line in capture.get().splitlines()) + "\n"
    if encoding.lower().startswith("utf"):
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)


def show(renderable: RenderableType, console: Console) -> None:
    """Write a renderable where `console` writes, in its width, colours and encoding."""
    colour = console.color_system is not None
    console.file.write(rendered(renderable, console.width, colour, console.encoding))
    console.file.flush()


def say(console: Console, line: str) -> None:
    """Write one line whole: no markup in it, and no wrapping, so that a path can be copied."""
    # Within a group: rich takes a text that it is given alone apart, and wraps it after all.
    show(Group(Text(line, no_wrap=True, overflow="ignore")), console)
