"""Answer keys: what they hold, and how they are read.

key     the values: Key and its parts
kinds   the kinds of kata, and what only one of them has
randomness what only katas with random results have
problem what is said of a key that can't be used
table   one TOML table, and how it complains
sizes   [cases] and [production]
mesh    the devices that a launch is for
target  TPUs, or GPUs, and what only a launch for GPUs has
reader  the whole file
"""

from grader.exercise.keys.key import (
    DTYPES,
    HINTS,
    LAYOUT,
    Choices,
    Key,
    Mistake,
    Roundings,
    Sizes,
    Slack,
)
from grader.exercise.keys.kinds import Kind, Planted, Predictions, Tested
from grader.exercise.keys.mesh import MESH, MOST_DEVICES
from grader.exercise.keys.problem import KeyProblem
from grader.exercise.keys.randomness import Randomness
from grader.exercise.keys.reader import AFTER_WORDS, DEFAULT_CASES, MOST_CASES, load
from grader.exercise.keys.sizes import DTYPE, cards
from grader.exercise.keys.target import GPUS, UNITS, GpuTarget

__all__ = [
    "AFTER_WORDS",
    "DEFAULT_CASES",
    "DTYPE",
    "DTYPES",
    "GPUS",
    "HINTS",
    "LAYOUT",
    "MESH",
    "MOST_CASES",
    "MOST_DEVICES",
    "UNITS",
    "Choices",
    "GpuTarget",
    "Key",
    "KeyProblem",
    "Kind",
    "Mistake",
    "Planted",
    "Predictions",
    "Randomness",
    "Roundings",
    "Sizes",
    "Slack",
    "Tested",
    "cards",
    "load",
]
