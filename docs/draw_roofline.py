"""Draw the roofline of docs/why-write-a-kernel.md, with every solution on it.

    python docs/draw_roofline.py             draws docs/roofline.svg from docs/roofline.json
    python docs/draw_roofline.py --check     only compares; exits with 1 if it differs
    python docs/draw_roofline.py --measure [NAME …]
                                             predicts these solutions anew, or all, for the JSON

Only --measure needs jax, libtpu and some minutes. It predicts the case of production size that
`kata cost NAME` shows, in bfloat16 where the kata takes it.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from drawing import BOLD, SMALL, Picture, Point

if TYPE_CHECKING:
    from types import ModuleType

    from grader.exercise.catalog import Kata
    from grader.model import Case

ROOT = Path(__file__).parents[1]
DATA, PICTURE = ROOT / "docs/roofline.json", ROOT / "docs/roofline.svg"
CHIP = "v5e"


@dataclasses.dataclass(frozen=True, slots=True)
class Measured:
    """One solution at production size: what its spec asks for, and what its launch takes."""

    kata: str  # its name
    number: str  # "1.10"
    dtype: str
    operations: float  # that the result needs: what a mask or a router leaves out is not counted
    bytes: int  # between HBM and the chip
    seconds: float

    @property
    def intensity(self) -> float:
        """Operations per byte moved."""
        return self.operations / self.bytes

    @property
    def speed(self) -> float:
        """Operations a second."""
        return self.operations / self.seconds


# ---- measuring ----


def measure(names: Sequence[str]) -> None:
    """Predict these solutions, or all; what is known of the others is kept."""
    import jax

    from grader.exercise.catalog import SOLUTIONS, katas
    from grader.tools.versions import versions
    from grader.tpu.chips import named

    chip = named(CHIP)
    every = [kata for kata in katas(ROOT, SOLUTIONS) if kata.key.kernel and kata.key.production]
    known = {point.kata: point for point in _points(_data())} if DATA.is_file() else {}
    for kata in every:
        if not names or kata.name in names:
            known[kata.name] = _measured(kata)
            print(f"{kata.name}: {known[kata.name].seconds * 1e6:.0f} µs", flush=True)
            points = [known[one.name] for one in every if one.name in known]
            told = {
                "chip": CHIP,
                "jax": jax.__version__,
                "libtpu": versions()["libtpu"],
                "peak": chip.peak,
                "bandwidth": chip.bandwidth,
                "points": [dataclasses.asdict(point) for point in points],
            }
            DATA.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")


def _measured(kata: Kata) -> Measured:
    from grader.exercise import specs
    from grader.exercise.cases import draw
    from grader.kernels import flops
    from grader.tools.modules import load_module
    from grader.tpu import predictions

    case = draw(kata.id, kata.key, 0, {})[-1]
    if kata.key.production and "bfloat16" in kata.key.production.dtypes:
        case = dataclasses.replace(case, dtype="bfloat16")
    solution = load_module(kata.solution)
    reference = specs.reference(solution, kata.name, case, evaluated=False)
    inputs = [specs.argument(array) for array in reference.inputs]
    spec, keywords = specs.spec_of(solution, kata.name, case)
    launch = functools.partial(getattr(solution, kata.name), **reference.keywords)
    kernels = predictions(launch, *inputs, chip=CHIP)
    operations = flops(functools.partial(spec, **keywords), inputs)
    share = SHARES.get(kata.name, _whole)(solution, case, inputs)
    return Measured(
        kata=kata.name,
        number=f"{kata.track[0]}.{kata.number}",
        dtype=case.dtype,
        operations=float(f"{operations * share:.4g}"),
        bytes=sum(kernel.bytes for kernel in kernels),
        seconds=float(f"{sum(kernel.seconds or math.nan for kernel in kernels):.4g}"),
    )


def _whole(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return 1.0


def _causal(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return (case.sizes["T"] + 1) / (2 * case.sizes["T"])


def _mask(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return float((inputs[3] != 0).mean())


def _tables(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    partial, kind, *_ = inputs[-4:]
    seen = ((kind == 1) * partial.mean((1, 2))[inputs[-1]]).sum() + (kind == 2).sum()
    blocks = case.sizes["T"] * case.sizes["S"] / (case.sizes["bq"] * case.sizes["bkv"])
    return float(seen / blocks)


def _segments(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    q_ids, kv_ids = inputs[3:]
    return float((q_ids[:, :, None] == kv_ids[:, None, :]).mean())


def _window(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    tokens, window, sinks = (case.sizes[name] for name in ("T", "window", "sinks"))
    pairs = sum(min(q + 1, window) + max(0, min(sinks, q + 1 - window)) for q in range(tokens))
    return pairs / tokens**2


def _one_group(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return 1 / case.sizes["G"]


def _top_k(solution: ModuleType, case: Case, inputs: Sequence[Any]) -> float:
    return case.sizes["top_k"] / case.sizes["E"]


#: How much of its spec's work a result needs, where a mask or a router leaves some out.
SHARES: Mapping[str, Callable[[ModuleType, Case, Sequence[Any]], float]] = {
    "causal_flash": _causal,
    "flash_custom_vjp": _causal,
    "block_sparse_attention": _mask,
    "splash_attention": _tables,
    "splash_backward_dkv": _tables,
    "splash_backward_dq": _tables,
    "segment_ids_and_soft_cap": _segments,
    "sliding_window_and_sinks": _window,
    "ragged_grouped_matmul": _one_group,
    "launch_grouped_matmul": _one_group,
    "transposed_grouped_matmul": _one_group,
    "grouped_matmul_vjp": _one_group,
    "moe_layer": _top_k,
}


# ---- drawing ----

TRACKS = {
    "1": ("blue", "1_basics"),
    "3": ("gold", "3_attention"),
    "4": ("green", "4_grouped_matmul"),
}
#: In the picture above: what is named there, with where the words begin, seen from the point.
NAMED_ABOVE: Mapping[str, Point] = {
    "tiled_vector_add": (9, 4),
    "right_on_one_core": (9, 13),
    "row_sum": (9, 12),
    "two_memories": (10, 4),
}
#: The same in the picture below, of the upper right corner. Words at the left end there.
NAMED_BELOW: Mapping[str, Point] = {
    "vmap_a_kernel": (8, 0),
    "tiled_matmul": (9, 8),
    "permuted_matmul": (9, 0),
    "flash_backward_dq": (9, 4),
    "flash_attention": (10, 7),
    "dot_product_attention": (8, 8),
    "causal_flash": (8, -2),
    "flash_backward_dkv": (8, 5),
    "flash_custom_vjp": (8, 11),
    "segment_ids_and_soft_cap": (9, 5),
    "splash_attention": (8, 14),
    "splash_backward_dkv": (9, 5),
    "sliding_window_and_sinks": (9, 8),
}


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


def roofline(data: dict[str, Any]) -> Picture:
    """All solutions that compute something under the roof of the chip, and its corner enlarged."""
    points = [point for point in _points(data) if point.operations]
    peak, bandwidth = data["peak"], data["bandwidth"]
    shares = [point.speed / min(peak, point.intensity * bandwidth) for point in points]
    assert max(shares) <= 1.005, "a solution above the roof: its operations are counted wrong"
    p = Picture(
        "roofline",
        f"{len(points)} solutions on the roofline of a TPU {data['chip']}",
        "Operations a second over operations per byte, both axes logarithmic. The roof rises with "
        f"the bandwidth of HBM, {bandwidth / 1e9:.0f} GB/s, up to {peak / bandwidth:.0f} "
        f"operations per byte, and is flat from there on at {peak / 1e12:.0f} T operations a "
        "second. Sums and other elementwise kernels lie below 1 operation per byte, most of them "
        "on the slope. "
        "Matmuls and attention lie between 90 and 600.",
        696,
    )
    whole = Axes(52, 60, 418, 250, (0.1, 2e10), (1500, 4e14))
    corner = Axes(52, 378, 418, 266, (70, 2e13), (1400, 2.4e14))
    p.text(
        0, 16, f"{len(points)} solutions on the roofline of a TPU {data['chip']}", *BOLD, size=15
    )
    for x, (colour, track) in zip((7, 117, 247), TRACKS.values(), strict=True):
        _circle(p, (x, 34), colour, track)
        p.text(x + 10, 38, track, "ink halo", "start", 12)
    _frame(p, whole, (0.1, 1, 10, 100, 1000), (1e11, 1e12, 1e13, 1e14))
    left, top = whole.x(corner.lowest[0]), whole.y(corner.highest[1])
    right, bottom = whole.x(corner.highest[0]), whole.y(corner.lowest[1])
    p.box(left, top, right - left, bottom - top, "bare dash")
    p.text(right, bottom + 16, "enlarged below", "soft halo", "end", 12)
    _roof(p, whole, peak, bandwidth)
    slope = f"HBM: {bandwidth / 1e9:.0f} GB/s"
    p.text(whole.x(4.3), whole.y(4.6e12), slope, "soft halo", "end", 12)
    p.text(whole.x(64), whole.y(peak) + 4, f"MXU: {peak / 1e12:.0f} T/s", "soft halo", "end", 12)
    _frame(p, corner, (100, 200, 400, 800), (2e13, 5e13, 1e14, 2e14))
    _roof(p, corner, peak, bandwidth)
    ridge = peak / bandwidth
    p.text(corner.x(ridge), corner.y(peak) - 8, f"ridge: {ridge:.0f}", "soft halo", size=12)
    for axes, named in ((whole, NAMED_ABOVE), (corner, NAMED_BELOW)):
        inside = [point for point in points if _inside(axes, point)]
        for point in inside:
            if point.kata in named:
                dx, dy = named[point.kata]
                x, y = axes.at(point)
                p.text(x + dx, y + dy, point.kata, "ink halo", "start" if dx > 0 else "end", 11)
        for point in inside:
            _circle(p, axes.at(point), TRACKS[point.number[0]][0], _told(point))
    for axes in (whole, corner):
        p.text(axes.left, axes.top - 8, "operations a second", *SMALL)
        bottom = axes.top + axes.height
        p.text(
            axes.left + axes.width, bottom + 32, "operations per byte moved", "soft halo", "end", 12
        )
    return p


def _inside(axes: Axes, point: Measured) -> bool:
    x = axes.lowest[0] <= point.intensity <= axes.highest[0]
    return x and axes.lowest[1] <= point.speed <= axes.highest[1]


def _told(point: Measured) -> str:
    """What a browser says over a point."""
    return (
        f"{point.number} {point.kata}: {point.intensity:.3g} operations per byte, "
        f"{point.speed / 1e12:.3g} T operations a second"
    )


def _circle(p: Picture, at: Point, colour: str, words: str) -> None:
    p.parts.append(
        f'<circle cx="{at[0]:.1f}" cy="{at[1]:.1f}" r="4" class="edge {colour}">'
        f"<title>{words}</title></circle>"
    )


def _roof(p: Picture, axes: Axes, peak: float, bandwidth: float) -> None:
    ridge = peak / bandwidth
    left = max(axes.lowest[0], axes.lowest[1] / bandwidth)
    corners = [(left, left * bandwidth), (ridge, peak), (axes.highest[0], peak)]
    ends = [(axes.x(x), axes.y(y)) for x, y in corners]
    p.line(ends[0], ends[1], "thick")
    p.line(ends[1], ends[2], "thick")


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


def _data() -> dict[str, Any]:
    return json.loads(DATA.read_text(encoding="utf-8"))


def _points(data: dict[str, Any]) -> list[Measured]:
    return [Measured(**point) for point in data["points"]]


def main() -> int:
    parser = argparse.ArgumentParser(description="Draw the roofline with every solution on it.")
    parser.add_argument("--check", action="store_true", help="only compare; exit 1 if it differs")
    parser.add_argument("--measure", nargs="*", metavar="NAME", help="predict anew: these, or all")
    options = parser.parse_args()
    if options.measure is not None:
        measure(options.measure)
    text = roofline(_data()).svg().encode()
    if PICTURE.is_file() and PICTURE.read_bytes() == text:
        return 0
    print(f"{PICTURE.relative_to(ROOT)}: {'differs' if options.check else 'written'}")
    if not options.check:
        PICTURE.write_bytes(text)
    return int(options.check)


if __name__ == "__main__":
    sys.exit(main())
