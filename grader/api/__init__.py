"""Grading for other programs: text in, frozen data out, without pytest and without files.

    from grader.api import Examiner

These names are stable: CHANGELOG.md lists their changes. See docs/grading-many.md.

examiner  Examiner, ExaminerPool and Report: grading for other programs
"""

from grader.api.examiner import Examiner, ExaminerPool, Report, UnknownKata
from grader.exercise.key_tables import KeyProblem
from grader.sandbox.isolation import Isolation, NotIsolated
from grader.sandbox.launch_client import BrokenKata
from grader.sandbox.launcher import SandboxError
from grader.verdict import Cost, Grade, State
from pallascope.model import Finding, NotJudged

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
