"""What the pictures of all tracks share: an SVG, its colours, and texts for numbers.

Each picture is a function that names its shapes and computes every number that it shows from them.
The same input gives the same bytes. Lengths are in units of the SVG's view box, which is 480 wide.
"""

from __future__ import annotations

import argparse
import itertools
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
KATAS = ROOT / "katas"
WIDTH = 480  # narrow, so that the words stay readable when a phone shows it at 350 pixels
SHOWN = 600  # pixels, where there is room

SUBLANES, LANES = 8, 128  # of a vector register, and so of a tile
F32, BF16 = 4, 2  # bytes
BOLD = ("ink halo bold", "start")  # of a text: look and anchor
SMALL = ("soft halo", "start", 12)  # and size

Block = tuple[int, ...]
Point = tuple[float, float]

# class -> the property that is coloured, light, dark
COLOURS = {
    "ink": ("fill", "#1f2328", "#e6edf3"),
    "soft": ("fill", "#57606a", "#9aa4af"),
    "halo": ("stroke", "#ffffff", "#0d1117"),  # readable where the page is not what the OS says
    "edge": ("stroke", "#6e7781", "#8b949e"),
    "head": ("fill", "#6e7781", "#8b949e"),
    "bare": ("fill", "none", "none"),
    "grey": ("fill", "#eaeef2", "#262c36"),
    "blue": ("fill", "#b6dcff", "#174a80"),
    "gold": ("fill", "#ffdca0", "#6b4708"),
    "green": ("fill", "#b9e8c0", "#1a5a2c"),
    "red": ("fill", "#ffc4be", "#7a2620"),
}
LETTERS = """\
text { font-family: system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; }
.code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
.bold { font-weight: 600; }
.halo { fill: none; stroke-width: 3; stroke-linejoin: round; }
.thick { stroke-width: 2.5; }
.dash { stroke-dasharray: 4 3; }"""


@dataclass
class Picture:
    """An SVG that is being drawn. Positions are the top left of a box, the baseline of a text."""

    name: str
    title: str
    description: str
    height: int
    parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        words: str,
        look: str = "ink halo",
        at: str = "middle",
        size: int = 13,
    ) -> None:
        place = f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{at}"'
        classes = look.split()
        if "halo" in classes:  # beneath the letters: not every renderer knows paint-order
            letters = [one for one in classes if one in ("halo", "code", "bold")]
            self.parts.append(f'{place} class="{" ".join(letters)}">{escape(words)}</text>')
            classes.remove("halo")
        self.parts.append(f'{place} class="{" ".join(classes)}">{escape(words)}</text>')

    def box(
        self,
        x: float,
        y: float,
        w: float,
        h: float,
        look: str = "bare",
        words: str = "",
        size: int = 13,
    ) -> None:
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" class="edge {look}"/>'
        )
        if words:
            ink = "ink halo" if look == "bare" else "ink"
            self.text(x + w / 2, y + h / 2 + size * 0.36, words, ink, size=size)

    def line(self, start: Point, end: Point, look: str = "") -> None:
        ends = f'x1="{start[0]:g}" y1="{start[1]:g}" x2="{end[0]:g}" y2="{end[1]:g}"'
        self.parts.append(f'<line {ends} class="{f"edge {look}".strip()}"/>')

    def arrow(self, start: Point, end: Point) -> None:
        self.line(start, end)
        self.parts[-1] = self.parts[-1].replace("/>", ' marker-end="url(#head)"/>')

    def svg(self) -> str:
        size = f'width="{SHOWN}" height="{SHOWN * self.height // WIDTH}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" '
                f'{size} role="img" aria-labelledby="title desc">',
                f'<title id="title">{escape(self.title)}</title>',
                f'<desc id="desc">{escape(self.description)}</desc>',
                f"<style>\n{_colours(1)}\n{LETTERS}",
                f"@media (prefers-color-scheme: dark) {{\n{_colours(2)}\n}}\n</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                'markerHeight="7" orient="auto"><path d="M0 0 8 4 0 8z" class="head"/></marker>'
                "</defs>",
                *self.parts,
                "</svg>\n",
            ]
        )


def _colours(mode: int) -> str:
    return "\n".join(f".{name} {{ {of[0]}: {of[mode]}; }}" for name, of in COLOURS.items())


# ---- what the numbers are made from ----


def amount(size: int) -> str:
    """Bytes in words: 4096 is "4 KiB", 16e9 is "16 GB"."""
    for unit, name in ((10**9, "GB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} bytes"


def moves(blocks: Iterable[object]) -> int:
    """How often a block is copied: once for each run of equal block indices."""
    return sum(1 for _ in itertools.groupby(blocks))


def production(kata: str) -> dict[str, Any]:
    """The production sizes in the key of a kata such as "5_pipelines/kata_04_ring_of_slots"."""
    key = ROOT / "solutions" / f"{kata}.toml"
    return tomllib.loads(key.read_text(encoding="utf-8"))["production"]


def comma(index: Iterable[int]) -> str:
    return ",".join(map(str, index))


# ---- the command ----


def kept(texts: Iterable[tuple[Path, str]], check: bool) -> bool:
    """Whether the files have these texts; prints those that don't, and writes unless `check`."""
    same = True
    for file, text in texts:
        if file.is_file() and file.read_bytes() == text.encode():
            continue
        same = False
        print(f"{file.relative_to(ROOT)}: {'differs' if check else 'written'}")
        if not check:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(text.encode())
    return same


def main(track: str, pictures: Iterable[Callable[[], Picture]]) -> int:
    """Write a track's pictures, or with --check compare them; returns the exit status."""
    parser = argparse.ArgumentParser(description=f"Draw the pictures of katas/{track}.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if one differs")
    check: bool = parser.parse_args().check
    folder = KATAS / track / "pictures"
    drawn = (draw() for draw in pictures)
    same = kept(((folder / f"{one.name}.svg", one.svg()) for one in drawn), check)
    return int(check and not same)
