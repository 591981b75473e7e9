"""The tracks' pictures read alike wherever they are shown."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from tests.support.repositories import ROOT

TEXT = "{http://www.w3.org/2000/svg}text"
PICTURES = sorted((ROOT / "katas").glob("*/pictures/*.svg"))


@pytest.mark.parametrize("file", PICTURES, ids=lambda file: file.stem)
def test_a_halo_lies_beneath_its_letters(file: Path) -> None:
    """As an element of its own: a renderer that does not know paint-order draws strokes on top."""
    assert "paint-order" not in file.read_text(encoding="utf-8")
    texts = list(ET.parse(file).getroot().iter(TEXT))
    halos = [n for n, text in enumerate(texts) if "halo" in text.attrib["class"].split()]
    assert halos
    for n in halos:
        halo, letters = texts[n].attrib, texts[n + 1].attrib
        assert texts[n].text == texts[n + 1].text
        assert {**halo, "class": ""} == {**letters, "class": ""}
        assert "halo" not in letters["class"].split()
