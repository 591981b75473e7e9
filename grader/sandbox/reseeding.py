"""The inputs of a launch with another seed in them: the next one, which is the hardest to tell."""

from __future__ import annotations

import numpy as np

from grader.model import Array, Reference
from grader.tools.arrays import from_numpy, to_numpy


def reseeded(reference: Reference, name: str, word: int) -> tuple[tuple[Array, ...], str]:
    """The inputs with one word of the seed `name` raised by one, and what was changed, in words.

    `word` counts round and round. Raises ValueError where the spec has no such integers.
    """
    if name not in reference.names:
        raise ValueError(f"[random] names {name!r}, and the spec takes no such array")
    position = reference.names.index(name)
    seed = to_numpy(reference.inputs[position]).copy()
    if not np.issubdtype(seed.dtype, np.integer) or not seed.size:
        raise ValueError(f"[random] names {name!r}, which holds no integers")
    at = word % seed.size
    before = int(seed.flat[at])
    after = before + 1 if before < np.iinfo(seed.dtype).max else np.iinfo(seed.dtype).min
    seed.flat[at] = after
    inputs = list(reference.inputs)
    inputs[position] = from_numpy(seed)
    index = ", ".join(str(int(i)) for i in np.unravel_index(at, seed.shape))
    return tuple(inputs), f"{name}[{index}] = {after} instead of {before}"
