"""What the katas of 6_serving compute, by code that is not ours: numpy in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.support.independent.registry import independent


@independent("kv_cache_write")
def _(positions: Any, new: Any, cache: Any) -> Any:
    cache = np.array(cache, np.float64)
    for b, position in enumerate(np.asarray(positions)):
        cache[b, :, position] = new[b]
    return cache
