"""What is told of an exception that JAX or Python really raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from pallascope.checks.exceptions import check
from pallascope.kernels import TracedLaunch
from pallascope.model import Observation, SourceFile, Stage
from pallascope.runs.exception_reports import caught
from tests.support.factories import evidence

ROWS = pl.BlockSpec((8, 128), lambda i: (i, 0))
ARRAY = jax.ShapeDtypeStruct((32, 128), jnp.float32)
#: pallas_call, pl and pltpu as whoever writes wrongly calls them: of any type.
WRONGLY: Any = pl


def launching(kernel: Any, **changes: Any) -> None:
    """Traces a launch of a kernel on rows of a matrix, with some of its arguments changed."""
    given = {"grid": (4,), "in_specs": [ROWS], "out_specs": ROWS, "out_shape": ARRAY, **changes}
    call = WRONGLY.pallas_call(kernel, **given)
    TracedLaunch.of(lambda x: call(x), [np.ones((32, 128), np.float32)], {}).trace()


def told(action: Callable[[], Any], file: str, content: bytes, kernel: bool = True) -> str:
    """What a learner reads of what `action` raises in a file, in one line of text."""
    with caught(SourceFile(file, content), Stage.TRACE) as found:
        action()
    assert found.problem, "nothing was raised"
    observed = Observation(problem=found.problem)
    finding = check(evidence(observed, kernel=kernel))
    assert finding is not None
    return " ".join(finding.message.split())


def copies(x_ref: Any, o_ref: Any) -> None:
    """A kernel in which nothing is wrong."""
    o_ref[...] = x_ref[...]
