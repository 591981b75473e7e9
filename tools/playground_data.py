"""Write docs/site/parts/playground.json: the solutions on several chips and sizes, predicted.

    python tools/playground_data.py             predicts all, in about half an hour
    python tools/playground_data.py NAME …      predicts these, and keeps the others' points
    python tools/playground_data.py --check     exits with 1 if a kata or a size is missing or no
                                                longer drawn, if the v5e's points aren't those of
                                                docs/roofline.json, or if CHECKED differ

With another jax than that in docs/roofline.json, times aren't compared. Nothing is run.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import roofline_data  # noqa: E402

from grader.exercise.cases import draw  # noqa: E402
from pallascope.tools.versions import versions  # noqa: E402
from pallascope.tpu.chips import named  # noqa: E402

if TYPE_CHECKING:
    from grader.exercise.catalog import Kata
    from grader.verdict import Case

DATA = ROOT / "docs/site/parts/playground.json"
CHIPS = ("v5e", "v6e", "v5p")
SIZES = 3  # of a kata at most
SEEDS = 12  # in which other sizes are looked for
#: Katas that --check predicts on all chips.
CHECKED = ("scale_2d", "tiled_matmul", "int8_matmul")
TOLERANCE = 0.1  # of a time: libtpu's versions differ


def cases(kata: Kata) -> list[Case]:
    """The case of the roofline, then others of production size with other sizes or dtypes."""
    found = [roofline_data.production_case(kata)]
    for seed in range(1, SEEDS):
        case = draw(kata.id, kata.key, seed, {})[-1]
        if len(found) < SIZES and roofline_data.words(case) not in map(roofline_data.words, found):
            found.append(case)
    return found


def points(kata: Kata) -> dict[str, Any]:
    """A kata's entry: its cases, each with [seconds, bytes] by chip; None without a time."""
    entry = {"kata": kata.name, "number": f"{kata.track.split('_')[0]}.{kata.number}"}
    entry |= {"track": kata.track, "cases": [_case(kata, case) for case in cases(kata)]}
    return entry


def _case(kata: Kata, case: Case) -> dict[str, Any]:
    told: dict[str, Any] = {"case": roofline_data.words(case), "on": {}}
    for chip in CHIPS:
        try:
            point = roofline_data.measured(kata, case, chip)
        except ValueError as error:  # another chip's compiler may refuse blocks that fit a v5e
            print(f"{kata.name}, {chip}, {roofline_data.words(case)}: {error}", file=sys.stderr)
            told["on"][chip] = None
            continue
        told |= {"dtype": point.dtype, "operations": point.operations}
        known = not math.isnan(point.seconds)
        told["on"][chip] = [point.seconds, point.bytes] if known else None
    return told


def chips() -> dict[str, Any]:
    """Each chip's roofs, with all of its cores: bytes a second, and operations a second."""
    told = {}
    for name in CHIPS:
        chip = named(name)
        peaks = {"bfloat16": chip.peak * chip.cores, "int8": chip.peak_of(8) * chip.cores}
        told[name] = {"bandwidth": chip.bandwidth * chip.cores, "peaks": peaks}
    return told


def main() -> int:
    parser = argparse.ArgumentParser(description="Predict the points of the roofline playground.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="predict only these katas")
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    options = parser.parse_args()
    every = roofline_data.every()
    known = _known()
    if options.check:
        faults = [*differences(every), *apart(every)]
        print("\n".join(faults) or "as predicted today")
        return int(bool(faults))
    for kata in every:
        if not options.names or kata.name in options.names:
            known[kata.name] = points(kata)
            entries = [known[one.name] for one in every if one.name in known]
            data = {**roofline_data.versions_used(), "chips": chips(), "katas": entries}
            DATA.write_text(json.dumps(data, separators=(",", ":")) + "\n", encoding="utf-8")
            print(kata.name, flush=True)
    return 0


def _data() -> dict[str, Any]:
    return json.loads(DATA.read_text("utf-8")) if DATA.is_file() else {"katas": []}


def _known() -> dict[str, Any]:
    return {entry["kata"]: entry for entry in _data()["katas"]}


def differences(every: list[Kata]) -> Iterator[str]:
    """A sentence for each entry whose chip, sizes or source isn't today's. Predicts nothing."""
    known = _known()
    if _data().get("chips") != chips():
        yield "the chips' roofs differ"
    drawn = {point.kata: point for point in roofline_data.points_of(roofline_data.data())}
    for kata in every:
        if kata.name not in known:
            yield f"{kata.name} is missing"
            continue
        there = [case["case"] for case in known[kata.name]["cases"]]
        if there != (here := list(map(roofline_data.words, cases(kata)))):
            yield f"{kata.name} has the sizes {there}, not {here}"
            continue
        first = known[kata.name]["cases"][0]["on"]["v5e"]
        if (point := drawn.get(kata.name)) and first != [point.seconds, point.bytes]:
            yield f"{kata.name} takes {first} here, and {point.seconds} s on the roofline"
    for name in known.keys() - {kata.name for kata in every}:
        yield f"{name} has no launch of production size any more"


def apart(every: list[Kata]) -> Iterator[str]:
    """A sentence for each point of CHECKED that is predicted otherwise by the same libtpu."""
    known = _known()
    if _data().get("libtpu") == versions()["libtpu"]:
        for kata in every:
            if kata.name in CHECKED and kata.name in known:
                yield from _apart(kata.name, known[kata.name], points(kata))


def _apart(name: str, known: dict[str, Any], today: dict[str, Any]) -> Iterator[str]:
    for old, new in zip(known["cases"], today["cases"], strict=True):
        for chip in CHIPS:
            was, now = old["on"][chip], new["on"][chip]
            if not (was == now or (was and now and _near(was, now))):
                yield f"{name} on a {chip}: {was} became {now}"


def _near(was: list[float], now: list[float]) -> bool:
    return was[1] == now[1] and abs(was[0] / now[0] - 1) <= TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
