"""Answer keys: what they hold, and how they are read.

key     the values: Key and its parts
table   one TOML table, and how it complains
sizes   [cases] and [production]
reader  the whole file
"""

from grader.exercise.keys.key import (
    DTYPES,
    HINTS,
    LAYOUT,
    Key,
    KeyProblem,
    Mistake,
    Production,
    Roundings,
    Slack,
)
from grader.exercise.keys.reader import DEFAULT_CASES, MOST_CASES, load

__all__ = [
    "DEFAULT_CASES",
    "DTYPES",
    "HINTS",
    "LAYOUT",
    "MOST_CASES",
    "Key",
    "KeyProblem",
    "Mistake",
    "Production",
    "Roundings",
    "Slack",
    "load",
]
