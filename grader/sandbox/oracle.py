"""The launch that a learner's test is given: it asks the bench for each result.

The test runs where the learner's file is imported. The kernels under test are not there, and
nothing tells it which of them it is looking at.
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax.numpy as jnp
import numpy as np

from grader.model import Source, Stage
from grader.sandbox import problems
from grader.sandbox.handing_over import handed_over
from grader.sandbox.messages import Called, Returned, Tried
from grader.tools.arrays import from_numpy, to_numpy

#: Sends a call to the bench, and waits for what comes back.
Ask = Callable[[Called], Returned]


class LaunchFailed(Exception):
    """The kernel under test raised; the text is what it raised."""


def launch_by(ask: Ask) -> Callable[..., Any]:
    """A launch: arrays, and whole numbers by name; its results are the bench's."""

    def launch(*arrays: Any, **keywords: int) -> Any:
        for name, size in keywords.items():
            if type(size) is not int:
                raise TypeError(f"{name}={size!r}: block sizes are whole numbers")
        inputs = tuple(from_numpy(np.asarray(array)) for array in arrays)
        returned = ask(Called(inputs, keywords))
        if returned.error:
            raise LaunchFailed(returned.error)
        results = tuple(jnp.asarray(to_numpy(array)) for array in returned.outputs)
        return results[0] if len(results) == 1 else results

    return launch


def tried(source: Source, module: ModuleType, name: str, ask: Ask) -> Tried:
    """Call the test that a file hands over with a launch of the bench's."""
    with problems.caught(source, Stage.IMPORT) as caught:
        test = handed_over(module, name)
    if caught.problem:
        return Tried(caught.problem)
    with problems.caught(source, Stage.RUN) as caught:
        test(launch_by(ask))
    return Tried(caught.problem)
