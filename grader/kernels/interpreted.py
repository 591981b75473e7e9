"""A trace whose kernels run in an interpreter, although they were traced for a TPU.

`force_tpu_interpret_mode` reaches only what is traced within it: what calls a kernel writes the
mode into the equation, and nobody asks again. So here it is written into equations that are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jax.extend import core

from grader.kernels.pallas_params import KERNELS
from grader.kernels.retrace import retraced
from grader.kernels.without_refs import without_refs


def interpreted(closed: core.ClosedJaxpr, interpret: object) -> core.ClosedJaxpr:
    """The same program, every kernel of which runs as `interpret` says, whatever it said before.

    `interpret` is what `running` yields: with False, kernels are compiled. To be called within
    `for_chip`, as the trace was made. What the program's inner jaxprs and effects must be follows
    from the mode: an interpreter's callbacks are ordered.
    """

    def in_this_mode(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        return eqn.primitive.bind(*inputs, **{**eqn.params, "interpret": interpret})

    return retraced(without_refs(closed), dict.fromkeys(KERNELS, in_this_mode))
