"""Matmuls that are right but not written for speed: what the cost rung says of each.

Each is graded beside the solution of tiled_matmul, on a case that shows the difference.
"""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from grader.checks import cost
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import Grader
from grader.sandbox.client import WorkerClient
from grader.verdict import MAX_STARS, Case, State
from pallascope.model import Check, Finding
from tests.support.factories import OwnAndPar, attempt, evidence
from tests.support.repositories import ROOT, with_text

pytest.importorskip("libtpu")

MATMUL = next(kata for kata in katas(ROOT, "solutions") if kata.name == "tiled_matmul")

#: Columns of blocks outermost: y's block stays, and all of x is fetched again for each of them.
COLUMNS_FIRST = {
    "grid=(M // bm, N // bn, K // bk)": "grid=(N // bn, M // bm, K // bk)",
    "lambda i, j, k": "lambda j, i, k",
}
#: Blocks of 128, whatever sizes the caller asks for.
BLOCKS_OF_128 = {"    M, K = x.shape\n": "    bm = bn = bk = 128\n    M, K = x.shape\n"}
#: The output in place of the scratch.
IN_THE_OUTPUT = {
    "o_ref, acc_ref): ": "o_ref): ",
    "y_ref, o_ref, acc_ref)": "y_ref, o_ref)",
    "acc_ref": "o_ref",
    "        o_ref[...] = o_ref[...].astype(o_ref.dtype)\n": "        pass\n",
    "        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],\n": "",
}


def variant(root: Path, changes: dict[str, str]) -> Kata:
    """tiled_matmul solved, with changes anywhere in its file."""
    text = MATMUL.solution.read_text()
    for old, new in changes.items():
        text = text.replace(old, new)
    assert text != MATMUL.solution.read_text()
    return with_text(MATMUL, root, text)


def case(dtype: str, **sizes: int) -> Case:
    drawn = draw(MATMUL.id, MATMUL.key, 1, sizes)[0]
    assert drawn.sizes == sizes
    return dataclasses.replace(drawn, dtype=dtype, production=True)


def test_grid_order_that_refetches(grader: Grader, tmp_path: Path) -> None:
    slow = variant(tmp_path, COLUMNS_FIRST)
    wide = case("float32", bm=256, bn=128, bk=256, M=512, N=2048, K=256)
    grade = grader.grade(slow, wide, 60)
    assert (grade.state, grade.stars) == (State.PASSED, 2)
    assert grade.finding
    assert grade.finding.check is Check.COST
    # x in 2 blocks for each of y's 16, in place of once.
    assert "reads x_ref 16.0× as much as par" in grade.finding.phrase
    words = " ".join(grade.finding.message.split())
    assert "Order the grid so that this operand's index map doesn't use the innermost axis" in words


def test_small_blocks(asking: WorkerClient, tmp_path: Path) -> None:
    """Of a size that no interpreter runs in reasonable time: the cost is judged alone."""
    slow = variant(tmp_path, BLOCKS_OF_128)
    large = case("bfloat16", bm=512, bn=512, bk=512, M=2048, N=2048, K=2048)
    reference = asking.inputs(slow, large)
    own = asking.learner(slow, large, reference, 60)
    both = OwnAndPar(own.compiled(), asking.solution(slow, large, reference).compiled())
    found = cost.check(evidence(attempt(), on_chips=both))
    assert isinstance(found, Finding)
    assert found.phrase.startswith("3.7× par's HBM bytes")
    words = " ".join(found.message.split())
    assert "Take larger blocks, as par does" in words
    assert re.search(r"4,096 grid steps of \d+ ns each; par has 64", words)
    compared = cost.cost_beside_par(evidence(attempt(), on_chips=both))
    assert compared
    assert compared.cycles
    assert compared.par_cycles
    # At 4096, JAX's matmul tutorial measured 11.67 ms against 0.78 for 512 by 1024 by 1024.
    assert compared.cycles > 8 * compared.par_cycles


def test_accumulating_in_the_output_costs_nothing(grader: Grader, tmp_path: Path) -> None:
    """In float32 that is: the output's block stays in VMEM, as scratch does, and is sent once.

    Scratch buys float32 sums for a bfloat16 result, not time.
    """
    other = variant(tmp_path, IN_THE_OUTPUT)
    assert "acc_ref" not in other.path.read_text().partition('"""\n\nimport')[2]
    square = case("float32", bm=128, bn=128, bk=128, M=256, N=256, K=512)
    grade = grader.grade(other, square, 60)
    assert (grade.stars, grade.finding) == (MAX_STARS, None)
    assert grade.cost
    assert grade.cost.bytes == grade.cost.par_bytes
    assert grade.cost.cycles
    assert grade.cost.par_cycles
    assert grade.cost.cycles <= grade.cost.par_cycles
