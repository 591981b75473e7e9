"""Texts that may be of any length, cut to what anyone reads."""

from __future__ import annotations

MOST = 20_000  # characters


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
