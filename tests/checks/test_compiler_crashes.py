"""What is said where the TPU's compiler gives no answer."""

from __future__ import annotations

import dataclasses
from importlib.util import find_spec

import pytest

from pallascope.checks.compiles import accident_finding
from pallascope.model import Accident, Check, SubWordInt
from tests.pallascope.support.calls import doubling, trace
from tests.support.factories import FILE, attempt, evidence
from tests.support.repositories import Repository

CRASHED = Accident(
    "crashed (SIGABRT)",
    "The process crashed.\nIt said: Operation not supported: kVectorAddS16",
    crashed=True,
    last_words="Operation not supported: kVectorAddS16",
)


def computing_in(*narrow: SubWordInt) -> str:
    """What is said of a crash at 16-bit integers, where the kernel computes with these."""
    traced = trace(dataclasses.replace(doubling(), sub_word_ints=narrow))
    finding = accident_finding(CRASHED, evidence(attempt(traced=traced)))
    assert finding.check is Check.COMPILES
    return f"{finding.phrase}\n" + " ".join(finding.message.split())


def test_a_crash_at_narrow_integers_names_them_and_their_line() -> None:
    said = computing_in(SubWordInt("int8", 5), SubWordInt("uint16", 7))
    assert said.startswith("uint16 arithmetic crashes the TPU's compiler\n")
    assert f"line {FILE}:7" in said
    assert "Compute in jnp.int32 instead of jnp.uint16" in said
    assert "kVectorAddS16" in said


def test_a_crash_at_anything_else_is_told_as_one() -> None:
    for narrow in ((), (SubWordInt("int8", 5),)):
        said = computing_in(*narrow)
        assert said.startswith("while compiling: crashed (SIGABRT)\n")
        assert "It said: Operation not supported: kVectorAddS16" in said


@pytest.mark.skipif(find_spec("libtpu") is None, reason="libtpu is not installed")
def test_an_iota_of_int16_is_told_with_its_line(repository: Repository) -> None:
    several_registers = Repository.KEY.replace("bm = [8, 16]", "bm = [32, 64]")
    kata = repository.add("double", key=several_registers)
    text = kata.solution.read_text()
    rows = "rows = jax.lax.broadcasted_iota('int16', x_ref.shape, 0)"
    masked = "o_ref[...] = jax.numpy.where(rows >= 0, x_ref[...] * 2, 0)"
    kata.path.write_text(text.replace("o_ref[...] = x_ref[...] * 2", f"{rows}\n    {masked}"))
    line = kata.path.read_text().splitlines().index(f"    {rows}") + 1
    ran = repository.pytest()
    assert "int16 arithmetic crashes the TPU's compiler" in ran.out
    assert f"line   katas/1_first/kata_01_double.py:{line}" in ran.out
