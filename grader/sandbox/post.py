"""The posts at which worker processes stand: what each of them is there for."""

from __future__ import annotations

import enum


class Post(enum.Enum):
    """What a worker is there for."""

    TRUSTED = "trusted"  # imports solutions: inputs, what must come back, the solution's traces
    ATTEMPTING = "attempting"  # imports the learner's present kata, and traces it
    SPARE = "spare"  # will attempt; it is warm, and has imported no kata yet
    RUNNING = "running"  # runs traces
    MESHED = "meshed"  # runs traces of launches that are for several devices
    COMPILING = "compiling"  # lowers and compiles traces for TPUs
