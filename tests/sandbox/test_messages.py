"""Of what a process says that has imported a learner's file, only what it may say is believed."""

from __future__ import annotations

import dataclasses
import json
import random
import struct
from typing import Any

import pytest

from grader.sandbox.messages import (
    MOST_TOLD,
    MOST_TRACED,
    FinishedTest,
    LaunchCalled,
    NoEstimate,
    Question,
    Returned,
    Shares,
    Traced,
    TraceLaunch,
    TryTest,
    understood,
)
from pallascope.kernels.serialization import encoding
from pallascope.model import (
    Array,
    Clues,
    KernelCall,
    Measured,
    OnGpu,
    Operation,
    Problem,
    SourceFile,
    SourceLine,
    Stage,
)
from pallascope.runs.questions import (
    MESSAGE_LIMIT,
    RunResult,
    TargetDevice,
    Warm,
    Warmed,
)
from pallascope.tools import codec
from pallascope.tools.text import MAX_CHARACTERS
from pallascope.tpu import OnChip
from pallascope.tpu.compiler import Estimate
from pallascope.tpu.pipeline_steps import LaunchMotion

SOURCE = SourceFile("/katas/kata.py", b"import jax\nx = 1  # \x1b[2J\n")
TRACE = TraceLaunch(SOURCE, "kata", (), {}, TargetDevice("v5e"))
TEST = TryTest(SOURCE, "kata")
PROBLEM = Problem(Stage.TRACE, "ValueError", "wrong", SourceLine(2, "a line of its choice"))
#: What each question may be answered, and what else a worker can say.
ALLOWED: tuple[tuple[Question, tuple[type, ...]], ...] = (
    (TRACE, (Traced,)),
    (TEST, (LaunchCalled, FinishedTest)),
    (Returned(SOURCE), (LaunchCalled, FinishedTest)),
    (Warm(), (Warmed,)),
)
SAID = (
    *(
        Shares(),
        NoEstimate(),
        Measured(()),
        LaunchCalled((), {}),
        FinishedTest(),
        Traced(),
        RunResult(),
        Clues(),
    ),
    *(OnChip(None, ()), OnGpu("h100"), LaunchMotion(None), Warmed(), PROBLEM, Estimate(1)),
)
NO_ANSWER = (TypeError, ValueError, struct.error, RecursionError)


def answer(said: object, question: Question = TRACE) -> Any:
    return understood(codec.pack(said), question, stranger=True)


@pytest.mark.parametrize(("question", "allowed"), ALLOWED, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("said", SAID, ids=lambda value: type(value).__name__)
def test_a_question_is_answered_in_its_own_type(
    question: Question, allowed: tuple[type, ...], said: object
) -> None:
    if isinstance(said, allowed):
        assert isinstance(answer(said, question), type(said))
    else:
        with pytest.raises(TypeError, match="expected"):
            answer(said, question)


@pytest.mark.parametrize(("question", "kind"), [(TRACE, Traced), (TEST, FinishedTest)])
@pytest.mark.parametrize("stage", Stage)
def test_an_exception_comes_from_where_the_process_was(
    question: Question, kind: type[Traced] | type[FinishedTest], stage: Stage
) -> None:
    said = kind(dataclasses.replace(PROBLEM, stage=stage))
    if stage in (Stage.IMPORT, Stage.TRACE if kind is Traced else Stage.RUN):
        assert answer(said, question).problem.stage is stage
    else:
        with pytest.raises(ValueError, match=f"while it should {stage.value}"):
            answer(said, question)


def test_what_only_a_judge_knows_is_left_out() -> None:
    call = codec.from_builtins(KernelCall, codec.to_builtins(KernelCall("k", (), ())))
    problem = dataclasses.replace(PROBLEM, operation=Operation("mul", ()), call=call)
    said = answer(Traced(problem)).problem
    assert (said.operation, said.call) == (None, None)


@pytest.mark.parametrize(("line", "text"), [(1, "import jax"), (2, r"x = 1  # \x1b[2J"), (-5, "")])
def test_lines_are_those_of_the_file(line: int, text: str) -> None:
    place = SourceLine(line, "a line of its choice")
    said = answer(Traced(dataclasses.replace(PROBLEM, place=place, within=place))).problem
    assert said.place == said.within == SourceLine(line, text)


def test_texts_are_short_and_printable() -> None:
    text = "\ud800\x00\x1b[2J\u202e" * 6_000
    said = answer(Traced(Problem(Stage.TRACE, text, text, traceback=text), b"", text, text))
    texts = [said.broken_annotation, said.printed]
    texts += [said.problem.kind, said.problem.message, said.problem.traceback]
    for one in texts:
        assert one.startswith(r"\ud800\x00\x1b[2J\u202e")
        assert one.isprintable()
        assert len(one) < MAX_CHARACTERS + 1000
    assert len(said.problem.message) < MESSAGE_LIMIT + 1000


def test_an_answer_is_bounded() -> None:
    with pytest.raises(ValueError, match="a header of"):
        answer(Traced(printed="x" * MOST_TOLD))
    with pytest.raises(ValueError, match="an answer of"):
        answer(Traced(trace=bytes(MOST_TRACED)))


@pytest.mark.parametrize("count", [-3, 1 << 40, 2.0, True, "3", None, [3]])
def test_raw_bytes_lie_within_the_message(count: object) -> None:
    blobs = [{"$bytes": 3}, {"$bytes": count}]
    header = json.dumps(["LaunchCalled", {"inputs": blobs, "keywords": {}}]).encode()
    with pytest.raises(ValueError, match="raw bytes at"):
        understood(struct.pack("!Q", len(header)) + header + b"abc", TEST, stranger=True)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_said_it_is_an_answer_or_none(seed: int) -> None:
    """Values of an honest answer are replaced, or its bytes are."""
    chance = random.Random(seed)
    array = Array("float32", (2,), b"12345678")
    question, said = chance.choice(
        [
            (TRACE, Traced(PROBLEM, b"trace", "text", "text")),
            (TEST, LaunchCalled((array, array), {"size": 8})),
            (TEST, FinishedTest(dataclasses.replace(PROBLEM, stage=Stage.RUN), "text")),
        ]
    )
    message = codec.pack(said)
    (length,) = struct.unpack("!Q", message[:8])
    header = json.dumps(_mutated(json.loads(message[8 : 8 + length]), chance)).encode()
    message = bytearray(struct.pack("!Q", len(header)) + header + message[8 + length :])
    for _ in range(chance.choice([0, 0, 1, 5])):
        message[chance.randrange(len(message))] = chance.randrange(256)
    try:
        found = understood(bytes(message), question, stranger=True)
    except NO_ANSWER:
        return
    assert isinstance(found, type(said))
    codec.pack(found)


def _mutated(value: Any, chance: random.Random) -> Any:
    if chance.random() < 0.1:
        odd = (None, True, -1, 1 << 70, 1e300, "\ud800", "x" * 99_999, [], {}, [[]], {"$bytes": 1})
        return chance.choice(odd)
    if isinstance(value, list):
        return [_mutated(one, chance) for one in value]
    if isinstance(value, dict):
        return {name: _mutated(one, chance) for name, one in value.items()}
    return value


def test_a_trace_that_may_be_encoded_may_be_answered() -> None:
    """pytest's process has no jax, so it can't read the limit from the module that encodes."""
    assert MOST_TRACED == MOST_TOLD + encoding.MOST_BYTES
