"""Whether results come about by chance as they should; nothing here is timed, run or random.

bounds      how far chance may carry a sum, for one false alarm in a million sessions
throws      what each element of a result turned out to be
odds        how often, beside how often it should be
repetition  whether the same bits were used twice
told        what is said of it
"""

from grader.checks.chance.bounds import Budget
from grader.checks.chance.odds import Band, bands, off_by_chance
from grader.checks.chance.repetition import Again, repeated_between, repeated_within
from grader.checks.chance.throws import Throws

__all__ = [
    "Again",
    "Band",
    "Budget",
    "Throws",
    "bands",
    "off_by_chance",
    "repeated_between",
    "repeated_within",
]
