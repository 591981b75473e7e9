"""Suggestions for mistyped names, and texts cut to a readable length.

Mistyped names: which known ones they may stand for.

Texts of anybody's: of any length, with any characters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MAX_SUGGESTIONS = 3  # names that are offered


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question such as "did you mean hint?", the most similar names first; "" for none."""
    import difflib  # only needed once something is mistyped

    close = difflib.get_close_matches(word.lower(), list(dict.fromkeys(known)), MAX_SUGGESTIONS)
    if not close:
        return ""
    *others, last = close
    return f"did you mean {', '.join(others)} or {last}?" if others else f"did you mean {last}?"


MAX_CHARACTERS = 20_000  # characters

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


def shortened(text: str, most: int = MAX_CHARACTERS, unseen: int = 0) -> str:
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
