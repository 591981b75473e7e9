"""Grading for other programs: text in, frozen data out. Without pytest, and without files.

    from grader.api import Examiner

    with Examiner(isolation="require") as examiner:
        report = examiner.grade("1_basics/kata_01_constant_add", source, seed=7)
        print(report.state, report.stars, report.reward())

examiner   grades one text after another in processes that stay warm
pool       several of them, for many threads or an event loop
limits     how long one may take
reports    what comes back: state, stars, findings, cost, reward

What is named here is stable: changes are told in CHANGELOG.md. See docs/grading-many.md.
"""

from grader.api.examiner import Examiner, UnknownKata
from grader.api.pool import ExaminerPool
from grader.api.reports import Report
from grader.exercise.keys import KeyProblem
from grader.model import Cost, Finding, Grade, NotJudged, State
from grader.sandbox.asking import BrokenKata
from grader.sandbox.isolation import Isolation, NotIsolated
from grader.sandbox.launcher import SandboxError

__all__ = [
    "BrokenKata",
    "Cost",
    "Examiner",
    "ExaminerPool",
    "Finding",
    "Grade",
    "Isolation",
    "KeyProblem",
    "NotIsolated",
    "NotJudged",
    "Report",
    "SandboxError",
    "State",
    "UnknownKata",
]
