"""Renders rich output as text, with or without colour and Unicode."""

from __future__ import annotations

import io

from rich.console import Console, Group, RenderableType
from rich.text import Text

MIN_WIDTH, MAX_WIDTH = 40, 120

#: ASCII substitutes for terminals without Unicode.
_ASCII = {**str.maketrans("✔✘·★☆█░×−–…µ←→", "+x-*.#.x---u<>"), ord("≥"): ">="}


def render_text(
    renderable: RenderableType, width: int, colour: bool, encoding: str = "utf-8"
) -> str:
    """A renderable as text of the given width, with ANSI colours if `colour`."""
    console = Console(
        file=io.StringIO(),
        width=max(MIN_WIDTH, min(width, MAX_WIDTH)),
        height=100,  # otherwise rich falls back to 80 columns on a dumb terminal
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
    return encodable(text, encoding)


def encodable(text: str, encoding: str) -> str:
    """A text that this encoding can write, with ASCII substitutes for the signs of our messages."""
    if encoding.lower().startswith("utf"):
        return text.encode(encoding, "backslashreplace").decode(encoding)
    return text.translate(_ASCII).encode(encoding, "replace").decode(encoding)


def show(renderable: RenderableType, console: Console) -> None:
    """Write a renderable to the console's file, with the console's width, colours and encoding."""
    colour = console.color_system is not None
    console.file.write(render_text(renderable, console.width, colour, console.encoding))
    console.file.flush()


def print_line(console: Console, line: str) -> None:
    """Write one line without markup and without wrapping, so that a path can be copied."""
    # In a group, because rich ignores no_wrap for a text that isn't in one.
    show(Group(Text(line, no_wrap=True, overflow="ignore")), console)
