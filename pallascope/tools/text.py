"""Texts: sizes, times and routes; suggestions for mistyped names; untrusted text made printable.

Rich output as text, with or without colour and Unicode.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from pallascope.model import Route

MAX_SUGGESTIONS = 3


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A question such as "did you mean hint?", the most similar names first; "" for none."""
    import difflib  # only needed for mistyped names

    close = difflib.get_close_matches(name.lower(), list(dict.fromkeys(known)), MAX_SUGGESTIONS)
    if not close:
        return ""
    *others, last = close
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


MAX_CHARACTERS = 20_000

#: Control characters except tab and line feed, which could control a terminal; characters that
#: change a text's direction or lines; lone surrogates, which UTF-8 lacks; characters that XML
#: forbids.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""A text that any file and terminal accepts; other characters become escapes such as \x1b."""
    return _UNPRINTABLE.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")


def shortened(text: str, max_characters: int = MAX_CHARACTERS, unread_bytes: int = 0) -> str:
    """A text cut to `max_characters`, with a note on the length of the rest.

    `unread_bytes` more follow that are not in `text`.
    """
    more = len(text[max_characters:].encode(errors="replace")) + unread_bytes
    return f"{text[:max_characters]}\n… {_format_size(more)} more" if more else text


def _format_size(count: int) -> str:
    """ "29.9 MB", "3 KB", "12 bytes"."""
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1000:.0f} KB" if count >= 1000 else f"{count} byte{'s' * (count != 1)}"


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


def format_times(least: float, most: float) -> str:
    """A range of times: "252 to 299 µs", "950 ns to 1.1 µs"."""
    shortest, longest = format_time(least), format_time(most)
    number, _, unit = shortest.partition(" ")
    return f"{number if longest.endswith(f' {unit}') else shortest} to {longest}"


def _three_digits(value: float) -> str:
    return f"{value:.3g}" if value < 999.5 else f"{value:.0f}"


def format_route(route: Route) -> str:
    """A route along the axes of a mesh: '+1 along "x", 1 hop'."""
    steps = " and ".join(f'{number:+d} along "{name}"' for name, number in route.steps)
    return f"{steps}, {route.hops} hop{'s' * (route.hops > 1)}"


MIN_WIDTH, MAX_WIDTH = 40, 120

#: ASCII substitutes for terminals without Unicode.
_ASCII = {**str.maketrans("✔✘·★☆█░×−–…µ←→", "+x-*.#.x---u<>"), ord("≥"): ">="}


def render_text(
    renderable: RenderableType, width: int, colour: bool, encoding: str = "utf-8"
) -> str:
    """A renderable as text of the given width, with ANSI colours if `colour`."""
    from rich.console import Console

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
    from rich.console import Group
    from rich.text import Text

    # In a group, because rich ignores no_wrap for a text that isn't in one.
    show(Group(Text(line, no_wrap=True, overflow="ignore")), console)
