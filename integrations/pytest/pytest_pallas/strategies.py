"""Strategies for hypothesis: shapes and blocks that a TPU takes, ragged sizes, sizes of groups.

Every new shape is compiled again, which takes about a second, and shrinking tries many shapes. So
use the settings `QUICK`, which try few examples, always the same, and don't shrink.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

LANES, SUBLANES = 128, 8

#: Settings for tests of kernels: @QUICK above @given(…).
QUICK = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


def _rows(dtype: Any) -> int:
    """The rows of a tile: 8, times the elements of `dtype` in 32 bits."""
    bits = jnp.finfo(dtype).bits if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).bits
    return SUBLANES * max(1, 32 // bits)


@st.composite
def blocks(
    draw: st.DrawFn, dtype: Any = "float32", rank: int = 2, most: int = 512
) -> tuple[int, ...]:
    """Block shapes of at least two dimensions that a TPU takes for arrays of any size.

    The last two dimensions have at most `most` elements each.
    """
    if rank < 2:
        raise ValueError(f"rank={rank}: blocks have at least two dimensions")
    rows = _rows(jnp.dtype(dtype))
    leading = tuple(draw(st.integers(1, 4)) for _ in range(rank - 2))
    return (
        *leading,
        rows * draw(st.integers(1, max(1, most // rows))),
        LANES * draw(st.integers(1, max(1, most // LANES))),
    )


@st.composite
def sizes(draw: st.DrawFn, block: int, steps: int = 3, ragged: bool = True) -> int:
    """Sizes of a dimension that is cut into at most `steps` blocks.

    If it is `ragged`, the last block may lie partly outside.
    """
    count = draw(st.integers(1, steps))
    missing = draw(st.integers(0, block - 1)) if ragged else 0
    return block * count - missing


@st.composite
def group_sizes(draw: st.DrawFn, groups: int, total: int) -> np.ndarray:
    """int32[groups]: sizes of groups that are `total` together; empty groups are likely."""
    cuts = sorted(draw(st.lists(st.integers(0, total), min_size=groups - 1, max_size=groups - 1)))
    return np.diff([0, *cuts, total]).astype(np.int32)
