"""A kata's file asks about devices while it is imported, and is answered as on the chip."""

from __future__ import annotations

import pytest

from grader.sandbox.messages import (
    FinishedTest,
    LaunchCalled,
    Returned,
    Traced,
    TraceLaunch,
    TryTest,
)
from grader.sandbox.trace_worker import Tracer, loaded_for, traced
from pallascope.kernels import TracedLaunch, for_chip
from pallascope.model import SourceFile
from pallascope.runs.questions import TargetDevice
from pallascope.tpu.chips import CHIPS
from tests.pallascope.kernels.test_device_queries import FILE, X

SHARDED = """
import jax
from jax.sharding import PartitionSpec as P

def given(x, *, mesh):
    return jax.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)

def in_context(x, *, mesh):
    return jax.shard_map(lambda x: 2 * x, in_specs=P("x"), out_specs=P("x"))(x)

def asked(x, *, mesh):
    mesh = jax.sharding.get_abstract_mesh()
    return jax.shard_map(lambda x: 2 * x, mesh=mesh, in_specs=P("x"), out_specs=P("x"))(x)
"""


def test_a_launch_is_called_without_a_mesh_in_context() -> None:
    """As users call it: a shard_map without a mesh, or with that of the context, fails for them."""
    source = SourceFile("katas/sharded.py", SHARDED.encode())
    question = TraceLaunch(source, "given", (X,), {}, TargetDevice("v5e", mesh=(("x", 2),)))
    module = loaded_for(question)
    assert traced(module.given, question)
    for launch in (module.in_context, module.asked):
        with pytest.raises(ValueError, match="mesh"):
            traced(launch, question)


@pytest.mark.parametrize(("chip", "steps"), [("v5e", 6), ("v6e", 5)])
def test_a_learners_file_is_imported_and_traced_as_on_the_chip(chip: str, steps: int) -> None:
    source = SourceFile(f"katas/asks_{chip}.py", FILE.encode())
    question = TraceLaunch(source, "doubled", (X,), {}, TargetDevice(chip))
    heard = traced(loaded_for(question).doubled, question)
    with for_chip(CHIPS[chip].kind, CHIPS[chip].cores):
        (call,) = TracedLaunch.carried(heard).trace().calls
    assert call.grid == (steps,)


PREDICTS = """
import jax
import jax.numpy as jnp

def program(x):
    return x + x

def counted(x):
    jax.eval_shape(program, x)
    return x

def told(x):
    return 2 * x

def test_counted(hidden_case):
    hidden_case.grade(counted)

def test_told(hidden_case):
    hidden_case.grade(told)
"""


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("", "told", ""),
        ("", "counted", ""),
        ("import pallascope.tpu", "told", "may not import pallascope.tpu"),
        ("from grader.exercise import specs", "told", "may not import grader.exercise"),
        ("import sys; sys.modules['pallascope.tpu']", "told", "may not import pallascope.tpu"),
    ],
)
def test_predictions_are_made_without_the_grader(text: str, name: str, says: str) -> None:
    def ask(_: LaunchCalled) -> Returned:
        raise AssertionError

    source = SourceFile("katas/predicts.py", f"{PREDICTS}\n{text}".encode())
    question = TraceLaunch(source, name, (X,), {}, TargetDevice("v5e"), predicts=True)
    answer = Tracer(ask).answer(question)
    assert isinstance(answer, Traced)
    problem = answer.problem.message if answer.problem else ""
    assert says in problem if says else not problem


@pytest.mark.parametrize(
    "text", ["import grader", "import importlib as i; i.import_module('pallascope')"]
)
def test_a_learners_test_does_not_import_the_grader(text: str) -> None:
    def ask(_: LaunchCalled) -> Returned:
        raise AssertionError

    answer = Tracer(ask).answer(TryTest(SourceFile("katas/t.py", text.encode()), "t"))
    assert isinstance(answer, FinishedTest)
    assert answer.problem
    assert "may not import" in answer.problem.message
