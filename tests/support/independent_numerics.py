"""Low precision by code that is not ours: numpy in float64, ml_dtypes for int4 and roundings."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.independent import independent


@independent("bf16_accumulate")
def _(x: Any, w: Any) -> Any:
    """numpy's own weighted mean, in float64."""
    x, w = np.asarray(x, np.float64), np.asarray(w, np.float64)
    return np.average(x, axis=0, weights=w)[None]
