"""Lines that do nothing are noted, and only those."""

from __future__ import annotations

from pallascope.kernels.lints import notes_on
from pallascope.model import SourceFile


def noted(text: str) -> list[tuple[int, str]]:
    return [(note.line, note.text) for note in notes_on(SourceFile("a.py", text.encode()))]


def test_when_on_a_line_of_its_own() -> None:
    [(line, text)] = noted("def kernel(x_ref, o_ref):\n    pl.when(first)\n    o_ref[...] = 0\n")
    assert line == 2
    assert "this line alone guards nothing" in text


def test_when_without_its_condition() -> None:
    [(line, text)] = noted(
        "def kernel(o_ref):\n    @pl.when\n    def _():\n        o_ref[...] = 0\n"
    )
    assert line == 2
    assert "needs its condition" in text


def test_when_as_it_is_meant() -> None:
    assert not noted("@pl.when(first)\ndef _():\n    pass\n\n\npl.when(last)(store)\n")
    assert not noted("once = pl.when(first)\nonce(store)\njnp.where(a, b, c)\nother.when(a)\n")


def test_what_cannot_be_parsed_has_no_notes() -> None:
    assert not noted("pl.when(first)\ndef")
    assert not noted("pl.when(first)\n" + "(" * 500)
    assert not noted("pl.when(first)\n\0")
