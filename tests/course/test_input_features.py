"""The features that every session must have, on masks and groups that have them or lack them."""

from __future__ import annotations

import numpy as np

from tests.support.input_features import BLOCKS, GROUPS, MASKS, Groups, Mask


def of_mask(rows: list[str]) -> set[int]:
    """Which features, by number, a mask has whose blocks are 2 queries of 2 keys."""
    sees = np.array([[c == "x" for c in row] for row in rows])
    return {n for n, holds in enumerate(MASKS.values()) if holds(Mask(sees, 2, 2))}


def of_groups(*offsets: int) -> set[int]:
    """Which features, by number, groups have in tiles of 4 rows."""
    return {n for n, holds in enumerate(GROUPS.values()) if holds(Groups(offsets, 4))}


def test_masks() -> None:
    full, partial, empty, unseen, keyless, late, early = range(len(MASKS))
    assert of_mask(["xxxx", "xxxx"]) == {full}
    assert of_mask(["xx..", "xx.."]) == {full, empty}
    assert of_mask(["xx..", "xx..", "....", "...."]) == {full, empty, unseen}
    assert of_mask(["xxx.", "xxxx"]) == {full, partial}
    assert of_mask(["xx..", "xx.x"]) == {full, partial, early}
    assert of_mask([".xxx", "..xx"]) == {full, partial, late}
    assert of_mask(["....", "x..."]) == {partial, empty, keyless}


def test_blocks() -> None:
    def holding(*rows: str) -> set[int]:
        mask = Mask(np.array([[c == "x" for c in row] for row in rows]), 3, 3)
        return {n for n, holds in enumerate(BLOCKS.values()) if holds(mask)}

    hidden, seen, equal, differ, gap, whole, after = range(len(BLOCKS))
    assert holding("...", ".x.", "...") == {hidden}
    assert holding("xxx", "x.x", "xxx") == {seen}
    assert holding("x..x..", "......", "......") == {equal}
    assert holding("x..xx.", "......", "......") == {differ}
    assert holding("...xxx", "...xxx", "...xxx") == {gap, whole}
    assert holding("xxxx..", "xxx...", "xxx...") == {after}


def test_groups() -> None:
    first, last, between, inside, edge, three, long, unused = range(len(GROUPS))
    assert of_groups(0, 6, 12) == {inside}
    assert of_groups(0, 4, 12) == {edge, unused}
    assert of_groups(0, 0, 6, 12) == {first, inside, unused}
    assert of_groups(0, 6, 12, 12) == {last, inside, unused}
    assert of_groups(0, 6, 6, 12) == {between, inside, unused}
    assert of_groups(0, 1, 2, 4) == {inside, three}
    assert of_groups(0, 1, 12) == {inside, long}
