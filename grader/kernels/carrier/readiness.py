"""What is looked up for every trace, built ahead of time."""

from __future__ import annotations

import functools

from grader.kernels.carrier import mosaic_gpu, operations, table


def make_ready() -> None:
    """Build the tables of classes and primitives: 12 to 25 ms that each process would take later.

    What counts as JAX's own is then decided before any learner's file is imported.
    """
    table.by_class()
    operations.of_jax()


@functools.cache
def make_ready_for_gpus() -> None:
    """The same for launches on a GPU, once in a process: half a second, which no other one pays.

    Call it before a learner's file is imported. Raises ImportError where absl-py is missing.
    """
    mosaic_gpu.make_known()
    table.forget()
    operations.forget()
    make_ready()
