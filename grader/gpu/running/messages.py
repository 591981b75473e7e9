"""What is asked of the process that runs a program on a GPU, and what it answers."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from grader.gpu.programs import Program
from grader.model import Array, GpuCrash, Times


@dataclass(frozen=True, slots=True)
class Question:
    """Run `own` once on these inputs; beside `par`, compare the results and time both.

    Inputs without contents are drawn on the GPU, from `seed`.
    """

    own: Program
    inputs: tuple[Array, ...]
    seed: int = 0
    par: Program | None = None


class Stage(enum.Enum):
    """How far the process had come; what it writes down before each."""

    STARTING = "starting"
    COMPILING = "compiling"
    RUNNING = "running"
    PAR = "running par"
    TIMING = "timing"


@dataclass(frozen=True, slots=True)
class Failure:
    """What was printed or raised last, in a line, and all of it in `text`."""

    crash: GpuCrash
    stage: Stage
    said: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of it on the GPU that jax calls `device`.

    `changed` are the inputs, by position, that hold something else afterwards; `trampled` are the
    guards that do, in words ("4 bytes right after result 0"). `guarded` is how many of the `sides`
    of all buffers had a guard next to them. Beside par there are no `outputs`, but `far`: how far
    they are from par's, as a share of par's largest element, infinite where only one side has NaN.
    `floor` is the time of a launch that does nothing.
    """

    device: str = ""
    outputs: tuple[Array, ...] = ()
    changed: tuple[int, ...] = ()
    trampled: tuple[str, ...] = ()
    guarded: int = 0
    sides: int = 0
    far: float = 0.0
    own: Times | None = None
    par: Times | None = None
    floor: float = 0.0
    failure: Failure | None = None
