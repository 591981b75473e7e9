"""Texts of any length."""

from __future__ import annotations

import pytest

from pallascope.tools.text import shortened


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ""),
        ("abc", "abc"),
        ("abcd", "abc\n… 1 byte more"),
        ("abcéé", "abc\n… 4 bytes more"),
        ("abc" + "d" * 1600, "abc\n… 2 KB more"),
        ("abc" + "d" * 29_900_000, "abc\n… 29.9 MB more"),
        ("abc\udc80", "abc\n… 1 byte more"),
    ],
    ids=["none", "short", "long", "not-ascii", "longer", "huge", "no-unicode"],
)
def test_a_long_text_is_cut_and_says_so(text: str, said: str) -> None:
    assert shortened(text, 3) == said


def test_what_was_never_read_counts_too() -> None:
    assert shortened("abc", 3, unread_bytes=7) == "abc\n… 7 bytes more"
