"""Occupancy, by hand: an SM has 64 warps, 65,536 registers and 228 KiB of shared memory."""

from __future__ import annotations

import pytest

from pallascope.gpu.gpu_resources import Occupancy, occupancy
from pallascope.gpu.gpus import CHIPS, description, named

H100 = named("h100")


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "bound"),
    [
        (128, 32, 0, 16, "warps and registers"),  # 4 warps of 64; 64 of 1,024 registers
        (128, 33, 0, 12, "registers"),  # 1,056 are handed out as 1,280: 12 warps of each quarter
        (384, 168, 0, 1, "registers"),  # 5,376 a warp: 3 of each quarter, 12 in all
        (128, 90, 65552, 3, "shared memory"),  # 65,552 + 1,024 are 66,688 of 233,472
        (128, 24, 227 << 10, 1, "shared memory"),
        (32, 16, 0, 32, "blocks"),
        (128, 24, (227 << 10) + 1, 0, "shared memory"),
        (2048, 12, 0, 0, "warps"),
    ],
)
def test_the_least_of_the_bounds(
    threads: int, registers: int, shared: int, blocks: int, bound: str
) -> None:
    warps = blocks * threads // 32
    expected = Occupancy(blocks, warps, bound, warps / 64)
    assert occupancy(H100, threads, registers, shared) == expected


def test_a_block_has_threads() -> None:
    with pytest.raises(ValueError, match="at least one thread"):
        occupancy(H100, 0, 32, 0)


def test_the_table_of_chips() -> None:
    assert list(CHIPS) == ["h100", "b200"]
    for chip in CHIPS.values():
        assert chip.shared_of_block + chip.shared_reserved == chip.shared
        assert f'"{chip.title}"' in description(chip)
    assert [chip.target for chip in CHIPS.values()] == ["sm_90a", "sm_100a"]


def test_a_name_that_is_none() -> None:
    with pytest.raises(ValueError, match="unknown GPU 'a100': choose from h100, b200"):
        named("a100")
