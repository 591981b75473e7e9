"""A strict reader of the trace-event format, as much of it as a predicted timeline uses."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

_KEYS = {"ph", "name", "pid", "tid"}
_METADATA = {
    "process_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_name": ("name", str),
    "thread_sort_index": ("sort_index", int),
}


@dataclass(frozen=True)
class Drawn:
    """One slice: nanoseconds, so that sums are exact."""

    name: str
    start: int
    end: int
    args: dict[str, Any]


Lanes = dict[str, list[Drawn]]


def read(text: str) -> dict[str, Lanes]:
    """The lanes of each process, by their names. Raises AssertionError for what is not well-formed.

    Every event is complete or metadata, with all of its keys and no others; processes and threads
    have names, each its own; slices stand in order of time and do not overlap on a lane.
    """
    content = json.loads(text, parse_constant=_no_number)
    assert set(content) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert content["displayTimeUnit"] in ("ms", "ns")
    processes: dict[int, str] = {}
    threads: dict[tuple[int, int], str] = {}
    slices: defaultdict[tuple[int, int], list[Drawn]] = defaultdict(list)
    for event in content["traceEvents"]:
        place = event["pid"], event["tid"]
        assert all(type(number) is int and number >= 0 for number in place)
        assert event["name"]
        if event["ph"] == "M":
            assert set(event) == _KEYS | {"args"}
            key, kind = _METADATA[event["name"]]
            assert set(event["args"]) == {key}
            assert type(event["args"][key]) is kind
            if event["name"] == "process_name":
                assert event["pid"] not in processes
                processes[event["pid"]] = event["args"]["name"]
            elif event["name"] == "thread_name":
                assert place not in threads
                threads[place] = event["args"]["name"]
        else:
            assert event["ph"] == "X"
            assert set(event) == _KEYS | {"ts", "dur", "args"}
            slices[place].append(_drawn(event))
    assert set(slices) == set(threads), "a lane without a name, or a name without a lane"
    assert {pid for pid, _ in threads} == set(processes)
    assert len(set(processes.values())) == len(processes)
    found: dict[str, Lanes] = {name: {} for name in processes.values()}
    for (pid, tid), lane in threads.items():
        assert lane not in found[processes[pid]]
        drawn = slices[pid, tid]
        assert all(a.end <= b.start for a, b in itertools.pairwise(drawn)), lane
        found[processes[pid]][lane] = drawn
    return found


def _drawn(event: dict[str, Any]) -> Drawn:
    for key in ("ts", "dur"):
        assert type(event[key]) in (int, float)
        assert event[key] >= 0
        assert abs(event[key] * 1000 - round(event[key] * 1000)) < 1e-3, "finer than a nanosecond"
    start = round(event["ts"] * 1000)
    assert isinstance(event["args"], dict)
    return Drawn(event["name"], start, start + round(event["dur"] * 1000), event["args"])


def _no_number(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")
