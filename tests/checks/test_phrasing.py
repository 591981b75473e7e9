"""Small pieces of prose."""

from __future__ import annotations

import textwrap

import pytest

from pallascope.checks import phrasing


@pytest.mark.parametrize("word", ["x" * 50_000, "words and " * 5_000], ids=["one-word", "many"])
def test_long_lines_are_wrapped_piece_by_piece(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """textwrap takes the square of the time for a long word: 30 MB of it never end."""
    wrap, lengths = textwrap.wrap, list[int]()

    def watched(text: str, *arguments: object, **options: object) -> list[str]:
        lengths.append(len(text))
        return wrap(text, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(textwrap, "wrap", watched)
    paragraph = phrasing.paragraph("error", word)
    assert max(lengths) <= phrasing.PIECE
    assert "".join(paragraph.removeprefix("  error").split()) == "".join(word.split())
    assert all(len(line) <= phrasing.WIDTH for line in paragraph.splitlines())


def test_a_short_line_is_wrapped_as_by_textwrap() -> None:
    text = "a hyphen-ated line of words, " * 9
    assert phrasing.paragraph("why", text) == "  why    " + textwrap.fill(
        text, phrasing.WIDTH, initial_indent=" " * 9, subsequent_indent=" " * 9
    ).removeprefix(" " * 9)
