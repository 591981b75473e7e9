"""The values that every room of the grader shares. Imports nothing of ours.

    verdict    checks, modes, hidden cases, findings, costs, grades
    kernel     arrays and kernels as data
    observed   what workers report about a launch

All are frozen and built from builtins, enums and each other, so that `codec` can carry them to
another process (the sandbox, an xdist worker) or into a JSON file.
"""

from grader.model.kernel import (
    Array,
    ArrayType,
    Constant,
    Habit,
    KernelCall,
    Narrow,
    Note,
    Operand,
    Operation,
    Role,
    Runs,
    Touch,
    Trace,
    Walk,
)
from grader.model.observed import (
    Access,
    Accident,
    Clues,
    LeftOver,
    Observation,
    Place,
    Problem,
    Race,
    Reference,
    Share,
    Source,
    Stage,
)
from grader.model.verdict import (
    MOST_STARS,
    Case,
    Check,
    Conditions,
    Cost,
    Device,
    Finding,
    Grade,
    Mode,
    NotJudged,
    State,
)

__all__ = [
    "MOST_STARS",
    "Access",
    "Accident",
    "Array",
    "ArrayType",
    "Case",
    "Check",
    "Clues",
    "Conditions",
    "Constant",
    "Cost",
    "Device",
    "Finding",
    "Grade",
    "Habit",
    "KernelCall",
    "LeftOver",
    "Mode",
    "Narrow",
    "NotJudged",
    "Note",
    "Observation",
    "Operand",
    "Operation",
    "Place",
    "Problem",
    "Race",
    "Reference",
    "Role",
    "Runs",
    "Share",
    "Source",
    "Stage",
    "State",
    "Touch",
    "Trace",
    "Walk",
]
