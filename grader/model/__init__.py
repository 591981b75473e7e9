"""The values that every room of the grader shares. Imports nothing of ours.

    verdict      checks, modes, hidden cases, findings, costs, grades
    kernel       arrays and kernels as data
    copied       what goes wrong with copies that a kernel starts by hand
    observed     what workers report about a launch
    devices      what goes wrong between several devices
    collectives  what devices send to each other outside of kernels
    side_by_side what devices do with each other, moment by moment
    links        what kernels send to other devices, and which way
    gpu          what a kernel for a GPU leaves to chance
    meshes       the devices that a launch is for
    measured     what is known of programs and of tests, for katas without a kernel

All are frozen and built from builtins, enums and each other, so that `codec` can carry them to
another process (the sandbox, an xdist worker) or into a JSON file.
"""

from grader.model.collectives import RESHARDING, Collective, carried_by, sent_by
from grader.model.copied import CopyFault, HandCopy, Hazard, LastWait
from grader.model.devices import Between, DeviceFault
from grader.model.gpu import Disorder, GpuCrash, GpuFault, GpuRun, GpuTimes, Times
from grader.model.kernel import (
    Array,
    ArrayType,
    Constant,
    CopyReason,
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
    XlaCopy,
)
from grader.model.links import Route, busiest, carried
from grader.model.measured import (
    QUANTITIES,
    Baseline,
    Measured,
    Moved,
    Program,
    Trial,
    Verdict,
)
from grader.model.meshes import Axes, devices_of
from grader.model.observed import (
    Access,
    Accident,
    Clues,
    LeftOver,
    Observation,
    OnGpu,
    Outcomes,
    Problem,
    Race,
    Reference,
    Repeats,
    Share,
    Source,
    Stage,
)
from grader.model.places import Place
from grader.model.side_by_side import Act, Deed, SideBySide
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
    "QUANTITIES",
    "RESHARDING",
    "Access",
    "Accident",
    "Act",
    "Array",
    "ArrayType",
    "Axes",
    "Baseline",
    "Between",
    "Case",
    "Check",
    "Clues",
    "Collective",
    "Conditions",
    "Constant",
    "CopyFault",
    "CopyReason",
    "Cost",
    "Deed",
    "Device",
    "DeviceFault",
    "Disorder",
    "Finding",
    "GpuCrash",
    "GpuFault",
    "GpuRun",
    "GpuTimes",
    "Grade",
    "Habit",
    "HandCopy",
    "Hazard",
    "KernelCall",
    "LastWait",
    "LeftOver",
    "Measured",
    "Mode",
    "Moved",
    "Narrow",
    "NotJudged",
    "Note",
    "Observation",
    "OnGpu",
    "Operand",
    "Operation",
    "Outcomes",
    "Place",
    "Problem",
    "Program",
    "Race",
    "Reference",
    "Repeats",
    "Role",
    "Route",
    "Runs",
    "Share",
    "SideBySide",
    "Source",
    "Stage",
    "State",
    "Times",
    "Touch",
    "Trace",
    "Trial",
    "Verdict",
    "Walk",
    "XlaCopy",
    "busiest",
    "carried",
    "carried_by",
    "devices_of",
    "sent_by",
]
