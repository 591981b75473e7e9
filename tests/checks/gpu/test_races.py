"""Two accesses that nothing orders, in words: texts as jax 0.10.2 and 0.12.0.1 have them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from grader.checks.gpu_interpreted import race_finding

Told = Callable[[str, int], str]
FILE = "katas/10_gpu/kata_01_x.py"
LINES = ("plgpu.copy_gmem_to_smem(x, s, b)", "v = s[...]", "o[at] = v", "copy_smem_to_gmem(s, o)")
KEY = "HostAllocationKey(memory_space_id=1, device_id=0, thread_id=0, initial_ref_count=1)"


def old(kind: str, line: int) -> str:
    return f"  {kind} of {KEY}[(slice(0, 128, 1),)] from 0, 1, /w/kata_01_x.py:{line}:8 (body)"


def new(kind: str, line: int) -> str:
    who = "Warpgroup(device_id=0, block_id=1)"
    return f"  {kind} of {KEY}[()] from {who}, /w/kata_01_x.py:{line}:8 (make.<locals>.body)"


@pytest.mark.parametrize("told", [old, new], ids=["jax 0.10", "jax 0.12"])
@pytest.mark.parametrize(
    ("accesses", "phrase"),
    [
        ((("read", 2), ("write", 1)), "memory is read while a copy into it is under way"),
        ((("write", 3), ("write", 3)), "the same elements are written twice"),
        ((("write", 4), ("write", 4)), "the same elements are written twice"),
        ((("write", 1), ("read", 4)), "a copy into shared memory, while a copy out"),
        ((("read", 4), ("write", 3)), "memory is copied out while it is being written"),
        ((("read", 2), ("write", 3)), "the same elements are read and written"),
    ],
)
def test_which_two(told: Told, accesses: tuple[tuple[str, int], ...], phrase: str) -> None:
    text = "\n".join(["RuntimeError: RACE DETECTED", *(told(*one) for one in accesses), "  clock"])
    finding = race_finding([text], FILE, LINES)
    assert finding
    assert phrase in finding.phrase or phrase in finding.message
    for kind, line in accesses:
        assert f"  {kind:<6} {FILE}:{line}" in finding.message
    assert "clock" not in finding.message


def test_no_race_no_finding() -> None:
    assert race_finding(["ValueError: another"], FILE, LINES) is None
