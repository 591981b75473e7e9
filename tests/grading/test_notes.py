"""Notes go from a trace into the grade, with their place; they change no verdict."""

from __future__ import annotations

from grader.grading.grader import notes_of
from grader.grading.ladder import Judgement, verdict
from grader.verdict import MAX_STARS, State
from pallascope.model import Accident, Note, Observation
from tests.pallascope.support.calls import doubling, trace
from tests.support.factories import FILE, attempt, evidence

NOTED = trace(doubling(), notes=(Note("interpret= is ignored", 7), Note("so is this")))


def test_a_note_names_its_place() -> None:
    told = notes_of(evidence(attempt(traced=NOTED)))
    assert told == (f"{FILE}:7: interpret= is ignored", f"{FILE}: so is this")


def test_a_note_changes_nothing() -> None:
    assert verdict(evidence(attempt(traced=NOTED))) == Judgement(State.PASSED, MAX_STARS)


def test_without_a_trace_there_is_no_note() -> None:
    assert notes_of(evidence(Observation())) == ()
    assert notes_of(evidence(Accident("crashed", "It crashed."))) == ()
