"""Texts of anybody's: of any length, with any characters."""

from __future__ import annotations

import re

MOST = 20_000  # characters

#: Control characters but tab and line feed, with which a text could steer a terminal; those that
#: change the direction or the lines of a text; halves of surrogate pairs, which no UTF-8 has; and
#: what XML forbids.
_UNPRINTABLE = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""A text that every file and terminal takes: other characters as Python escapes them, \x1b."""
    return _UNPRINTABLE.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode("ascii")


def shortened(text: str, most: int = MOST, unseen: int = 0) -> str:
    """The beginning of a text of more than `most` characters, and how much more there is.

    `unseen` is how many bytes follow that are not in `text`.
    """
    more = len(text[most:].encode(errors="replace")) + unseen
    return f"{text[:most]}\n… {_amount(more)} more" if more else text


def _amount(count: int) -> str:
    """ "29.9 MB", "3 KB", "12 bytes"."""
    if count >= 1_000_000:
        return f"{count / 1_000_000:.1f} MB"
    return f"{count / 1000:.0f} KB" if count >= 1000 else f"{count} byte{'s' * (count != 1)}"
