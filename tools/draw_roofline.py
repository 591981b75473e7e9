"""Draw the roofline of docs/why-write-a-kernel.md, with every solution on it.

    python tools/draw_roofline.py             draws docs/roofline.svg from docs/roofline.json, and
                                             writes the numbers in the page's SENTENCES
    python tools/draw_roofline.py --check     only compares; exits with 1 if it differs,
                                             or if a key draws another case than was measured
    python tools/draw_roofline.py --measure [NAME …]
                                             predicts these solutions anew, or all, for the JSON

Only --measure needs jax, libtpu and some minutes. It predicts the case of production size that
`kata cost NAME` shows, in bfloat16 where the kata takes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from drawing import BOLD, SMALL, Picture, Point, kept
from roofline_data import INT8, ROOT, Measured, data, measure, points_of, stale

PICTURE = ROOT / "docs/roofline.svg"
PAGE = ROOT / "docs/why-write-a-kernel.md"


@dataclasses.dataclass(frozen=True, slots=True)
class Mark:
    """The points of a track: its name, their colour in light and dark, and a shape around (0, 0).

    Tracks differ in both, so that they can be told apart without colours too.
    """

    track: str
    light: str
    dark: str
    shape: str  # of an SVG path


CIRCLE = "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z"
SQUARE = "M-3.7 -3.7h7.4v7.4h-7.4z"
UP, DOWN = "M0 -4.8 4.8 3.8H-4.8z", "M0 4.8 4.8 -3.8H-4.8z"
DIAMOND = "M0 -5.2 5.2 0 0 5.2 -5.2 0z"
PLUS = "M-1.7 -5h3.4v3.3h3.3v3.4h-3.3v3.3h-3.4v-3.3h-3.3v-3.4h3.3z"
STAR = "M0 -5.6 1.6 -1.8 5.4 -1.7 2.5 0.9 3.4 4.6 0 2.4 -3.4 4.6 -2.5 0.9 -5.4 -1.7 -1.6 -1.8z"

TRACKS = {
    "1": Mark("1_basics", "#0969da", "#58a6ff", CIRCLE),
    "2": Mark("2_fusion", "#cf222e", "#ff7b72", SQUARE),
    "3": Mark("3_attention", "#b07400", "#e3b341", UP),
    "4": Mark("4_grouped_matmul", "#1a7f37", "#3fb950", DIAMOND),
    "5": Mark("5_pipelines", "#8250df", "#bc8cff", DOWN),
    "6": Mark("6_serving", "#24292f", "#f0f6fc", PLUS),
    "7": Mark("7_numerics", "#d6299e", "#ff8fd8", STAR),
}
#: In the picture above: what is named there, with where the words begin, seen from the point.
NAMED_ABOVE: Mapping[str, Point] = {
    "tiled_vector_add": (9, 4),
    "row_sum": (9, 12),
    "two_memories": (14, 7),
}
#: The same in the picture below, of the upper right corner. Words at the left end there.
NAMED_BELOW: Mapping[str, Point] = {
    "tiled_matmul": (9, 8),
    "launch_matmul": (4, -17),
    "int8_matmul": (9, 4),
    "flash_backward_dq": (-16, 15),
    "flash_attention": (-20, 11),
    "dot_product_attention": (8, 13),
    "causal_flash": (8, -2),
    "flash_custom_vjp": (8, 11),
    "segment_ids_and_soft_cap": (9, 5),
    "splash_attention": (8, -5),
    "splash_backward_dkv": (9, 5),
    "sliding_window_and_sinks": (9, 8),
}
WIDTH = 6.2  # of a letter of these words


@dataclasses.dataclass(frozen=True, slots=True)
class Axes:
    """Two logarithmic axes: where on the page which intensity and speed are."""

    left: float
    top: float
    width: float
    height: float
    lowest: Point  # operations per byte, operations a second
    highest: Point

    def x(self, intensity: float) -> float:
        low, high = math.log(self.lowest[0]), math.log(self.highest[0])
        return self.left + self.width * (math.log(intensity) - low) / (high - low)

    def y(self, speed: float) -> float:
        low, high = math.log(self.lowest[1]), math.log(self.highest[1])
        return self.top + self.height * (high - math.log(speed)) / (high - low)

    def at(self, point: Measured) -> Point:
        return self.x(point.intensity), self.y(point.speed)


def roofline(told: dict[str, Any]) -> Picture:
    """All solutions that compute something under the roof of the chip, and its corner enlarged."""
    points = [point for point in points_of(told) if point.operations]
    peak, bandwidth = told["peak"], told["bandwidth"]
    shares = [point.speed / roof_over(point, told) for point in points]
    assert max(shares) <= 1.005, "a solution above the roof: its operations are counted wrong"
    p = Picture(
        "roofline",
        f"{len(points)} solutions on the roofline of a TPU {told['chip']}",
        "Operations a second over operations per byte, both axes logarithmic. The roof rises with "
        f"the bandwidth of HBM, {bandwidth / 1e9:.0f} GB/s, up to {peak / bandwidth:.0f} "
        f"operations per byte, and is flat from there on at {peak / 1e12:.0f} T operations a "
        f"second in bfloat16; in int8 it rises up to {INT8 * peak / 1e12:.0f} T. "
        "Sums and other elementwise kernels lie below 1 operation per byte, most of them on the "
        "slope. "
        "Matmuls and attention lie between 90 and 600.",
        712,
    )
    whole = Axes(52, 76, 418, 250, (0.1, 2e10), (1500, 8e14))
    corner = Axes(52, 394, 418, 266, (70, 2e13), (1400, 4.4e14))
    p.text(
        0, 16, f"{len(points)} solutions on the roofline of a TPU {told['chip']}", *BOLD, size=15
    )
    places = ((7, 34), (82, 34), (157, 34), (250, 34), (390, 34), (7, 50), (112, 50))
    p.parts.append(_style())
    for (x, y), (number, mark) in zip(places, TRACKS.items(), strict=True):
        _point(p, (x, y), number, mark.track)
        p.text(x + 10, y + 4, mark.track, "ink halo", "start", 12)
    _frame(p, whole, (0.1, 1, 10, 100, 1000), (1e11, 1e12, 1e13, 1e14))
    left, top = whole.x(corner.lowest[0]), whole.y(corner.highest[1])
    right, bottom = whole.x(corner.highest[0]), whole.y(corner.lowest[1])
    p.box(left, top, right - left, bottom - top, "bare")
    p.text(right, bottom + 16, "enlarged below", "soft halo", "end", 12)
    for axes in (whole, corner):
        _roof(p, axes, peak, bandwidth, "thick")
        _roof(p, axes, INT8 * peak, bandwidth, "dash")
    slope = f"HBM: {bandwidth / 1e9:.0f} GB/s"
    p.text(whole.x(4.3), whole.y(4.6e12), slope, "soft halo", "end", 12)
    for times, dtype in ((1, "bfloat16"), (INT8, "int8")):
        flat = f"MXU, {dtype}: {times * peak / 1e12:.0f} T/s"
        p.text(whole.x(64), whole.y(times * peak) + 4, flat, "soft halo", "end", 12)
    _frame(p, corner, (100, 200, 400, 800), (2e13, 5e13, 1e14, 2e14, 4e14))
    ridge = peak / bandwidth
    for times, dtype in ((1, "bfloat16"), (INT8, "int8")):
        right, y = corner.left + corner.width - 6, corner.y(times * peak)
        p.text(right, y + (14 if dtype == "int8" else -6), dtype, "soft halo", "end", 12)
    p.text(corner.x(ridge) - 8, corner.y(peak) - 6, f"ridge: {ridge:.0f}", "soft halo", "end", 12)
    for axes, named in ((whole, NAMED_ABOVE), (corner, NAMED_BELOW)):
        inside = [point for point in points if _inside(axes, point)]
        for point in inside:
            if point.kata in named:
                dx, dy = named[point.kata]
                x, y = axes.at(point)
                ends = x + dx + (WIDTH * len(point.kata) if dx > 0 else 0)
                assert ends < axes.left + axes.width, f"{point.kata} ends beyond the picture"
                p.text(x + dx, y + dy, point.kata, "ink halo", "start" if dx > 0 else "end", 11)
        for point in inside:
            _point(p, axes.at(point), point.number[0], _told(point))
    for axes in (whole, corner):
        p.text(axes.left, axes.top - 8, "operations a second", *SMALL)
        bottom = axes.top + axes.height
        p.text(
            axes.left + axes.width, bottom + 32, "operations per byte moved", "soft halo", "end", 12
        )
    return p


#: Sentences of the page whose numbers are those of a solution: its operations per byte, its share
#: of its roof, or its gigabytes.
SENTENCES = (
    ("`row_sum` has {} operations per byte and reaches {} % of", "row_sum", "intensity", "share"),
    ("`tiled_matmul` moves {} GB", "tiled_matmul", "gigabytes"),
    ("With {} operations per byte it is just left", "tiled_matmul", "intensity"),
    (
        "in VMEM: {} operations per byte, and {} % of the peak",
        "launch_matmul",
        "intensity",
        "share",
    ),
    (
        "`flash_attention` has {} operations per byte and is bound by computing: {} % of the peak",
        *("flash_attention", "intensity", "share"),
    ),
    ("`segment_ids_and_soft_cap` reaches {} % of its roof", "segment_ids_and_soft_cap", "share"),
)
NUMBER = r"[\d.]+"


def with_numbers(text: str, told: dict[str, Any]) -> str:
    """The page with the numbers of its SENTENCES as measured. Raises ValueError where one is not
    found."""
    points = {point.kata: point for point in points_of(told)}
    for sentence, kata, *fields in SENTENCES:
        point = points[kata]
        numbers = {
            "intensity": f"{point.intensity:.{2 if point.intensity < 10 else 0}f}",
            "share": f"{100 * point.speed / roof_over(point, told):.0f}",
            "gigabytes": f"{point.bytes / 1e9:.2f}",
        }
        words = re.escape(sentence).replace(r"\ ", r"\s+").replace(r"\{\}", "{}").split("{}")
        found = re.search(
            "".join(f"({part}){NUMBER}" for part in words[:-1]) + f"({words[-1]})", text
        )
        if not found:
            raise ValueError(f"{PAGE.name} has no sentence like {sentence!r}")
        values = [*(numbers[field] for field in fields), ""]
        new = "".join(part + value for part, value in zip(found.groups(), values, strict=True))
        text = text.replace(found[0], new)
    return text


def roof_over(point: Measured, told: dict[str, Any]) -> float:
    """Operations a second that are possible at most with this dtype at this intensity."""
    peak = told["peak"] * (INT8 if point.dtype == "int8" else 1)
    return min(peak, point.intensity * told["bandwidth"])


def _inside(axes: Axes, point: Measured) -> bool:
    x = axes.lowest[0] <= point.intensity <= axes.highest[0]
    return x and axes.lowest[1] <= point.speed <= axes.highest[1]


def _told(point: Measured) -> str:
    """What a browser says over a point."""
    return (
        f"{point.number} {point.kata}: {point.intensity:.3g} operations per byte, "
        f"{point.speed / 1e12:.3g} T operations a second"
    )


def _style() -> str:
    """The colours of the marks, and a thin edge that separates two marks in the same place."""
    light, dark = (
        "\n".join(
            f".track{number} {{ fill: {mark.dark if is_dark else mark.light}; stroke: {edge}; }}"
            for number, mark in TRACKS.items()
        )
        for is_dark, edge in ((False, "#ffffff"), (True, "#0d1117"))
    )
    return f"<style>\n{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}\n</style>"


def _point(p: Picture, at: Point, number: str, words: str) -> None:
    """A track's mark; a browser shows the words over it."""
    p.parts.append(
        f'<path transform="translate({at[0]:.1f} {at[1]:.1f})" d="{TRACKS[number].shape}" '
        f'class="track{number}"><title>{words}</title></path>'
    )


def _roof(p: Picture, axes: Axes, peak: float, bandwidth: float, look: str) -> None:
    """The slope of the bandwidth up to a dtype's peak, and that peak; as far as `axes` go."""
    low = max(axes.lowest[0], axes.lowest[1] / bandwidth)
    ridge = min(peak, axes.highest[1]) / bandwidth
    p.line(_at(axes, low, low * bandwidth), _at(axes, ridge, ridge * bandwidth), look)
    if peak <= axes.highest[1]:
        p.line(_at(axes, ridge, peak), _at(axes, axes.highest[0], peak), look)


def _at(axes: Axes, intensity: float, speed: float) -> Point:
    return axes.x(intensity), axes.y(speed)


def _frame(p: Picture, axes: Axes, xs: Sequence[float], ys: Sequence[float]) -> None:
    p.box(axes.left, axes.top, axes.width, axes.height)
    bottom = axes.top + axes.height
    for intensity in xs:
        x = axes.x(intensity)
        p.line((x, bottom), (x, bottom + 5))
        p.text(x, bottom + 18, f"{intensity:g}", "soft halo", size=12)
    for speed in ys:
        y = axes.y(speed)
        p.line((axes.left - 5, y), (axes.left, y))
        p.text(axes.left - 8, y + 4, f"{speed / 1e12:g} T", "soft halo", "end", 12)


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the roofline with every solution on it.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if it differs")
    parser.add_argument("--measure", nargs="*", metavar="NAME", help="predict anew: these, or all")
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
    if old := stale(data()):
        print(f"other sizes than measured: python tools/draw_roofline.py --measure {' '.join(old)}")
    page = PAGE.read_text(encoding="utf-8")
    texts = (PICTURE, roofline(data()).svg()), (PAGE, with_numbers(page, data()))
    same = kept(texts, options.check) and not old
    return int(options.check and not same)


if __name__ == "__main__":
    sys.exit(main())
