"""Files that are right and have not done the work: each is told what of it does not count."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import Grader
from grader.verdict import State
from pallascope.model import Check, Finding
from tests.support.repositories import ROOT, with_text

EVERY = {kata.name: kata for kata in katas(ROOT, "solutions")}
SECONDS = 60

DISGUISED = """
import jax as _jax
from jax.extend import core as _core
from jax.interpreters import mlir as _mlir
_p = _core.Primitive("reshape")
_p.multiple_results = False
_p.def_abstract_eval(lambda x, y: _jax.core.ShapedArray((x.shape[0], y.shape[1]), x.dtype))
_mlir.register_lowering(_p, _mlir.lower_fun(lambda x, y: x @ y, multiple_results=False))

def tiled_matmul(x, y, **sizes):
    return _p.bind(x, y)
"""
SHIPPED = """
from jax.experimental.pallas.ops.tpu.matmul import matmul as _matmul

def tiled_matmul(x, y, *, bm, bn, bk):
    return _matmul(x, y, block_shape=(bm, bn), block_k=bk)
"""
ALIASED = """
_same = [group_offsets_spec]

def group_offsets(*arrays, **sizes):
    return _same[0](*arrays, **sizes)
"""
COPIED = """
import types as _types
_copy = _types.FunctionType(group_offsets_spec.__code__, globals())

def group_offsets(*arrays, **sizes):
    return _copy(*arrays, **sizes)
"""
FORCED = "with __import__('jax').experimental.pallas.tpu.force_tpu_interpret_mode()"
ON_THE_HOST = """
import numpy as _np

def group_offsets(group_sizes, **sizes):
    shape = jax.ShapeDtypeStruct((len(group_sizes) + 1,), group_sizes.dtype)
    def host(given):
        return _np.concatenate([[0], _np.cumsum(given)]).astype(_np.int32)
    return jax.pure_callback(host, shape, group_sizes)
"""


def told(grader: Grader, tmp_path: Path, name: str, text: str) -> Finding:
    """What is said of the solution with its launch replaced by `text`."""
    kata = EVERY[name]
    source = kata.solution.read_text()
    launch = re.search(rf"def {name}\([\s\S]*?(?=\n\n\ndef test_)", source)
    assert launch
    changed: Kata = with_text(kata, tmp_path, source.replace(launch[0], text.strip()))
    grade = grader.grade(changed, draw(changed.id, changed.key, 1)[0], SECONDS)
    assert (grade.state, grade.stars) == (State.FAILED, 0)
    assert grade.finding
    return grade.finding


@pytest.mark.parametrize(
    ("name", "text", "check", "says"),
    [
        ("tiled_matmul", DISGUISED, Check.RUNS, "cannot be judged: the operation reshape"),
        ("tiled_matmul", SHIPPED, Check.OWN_WORK, "jax/experimental/pallas/ops/tpu/matmul.py"),
        ("group_offsets", ALIASED, Check.RUNS, "it calls group_offsets_spec"),
        ("group_offsets", COPIED, Check.RUNS, "MakesCode: it makes a function"),
        ("group_offsets", ON_THE_HOST, Check.OWN_WORK, "calls back to the host: pure_callback"),
    ],
    ids=["disguised", "shipped", "aliased", "copied", "on-the-host"],
)
def test_what_is_right_and_does_not_count(
    name: str, text: str, check: Check, says: str, grader: Grader, tmp_path: Path
) -> None:
    finding = told(grader, tmp_path, name, text)
    assert finding.check is check, finding
    assert says in f"{finding.phrase}\n{finding.message}"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("pl.pallas_call(", "pl.pallas_call(interpret=True, kernel="),
        ("    return pl.pallas_call(", f"    {FORCED}:\n        return pl.pallas_call("),
    ],
    ids=["parameter", "context"],
)
def test_interpreting_is_the_graders_choice(
    old: str, new: str, grader: Grader, tmp_path: Path
) -> None:
    """Asked for by the launch, it is told in one line, and the kernel goes its whole way."""
    kata = EVERY["constant_add"]
    text = kata.solution.read_text()
    assert old in text
    changed = with_text(kata, tmp_path, text.replace(old, new))
    grade = grader.grade(changed, draw(changed.id, changed.key, 1)[0], SECONDS)
    assert (grade.state, grade.stars) == (State.PASSED, 3)
    assert grade.cost
    assert grade.cost.cycles
    (note,) = grade.notes
    assert note.split(": ", 1)[1].startswith("the grader chooses interpret mode")
    line = int(note.partition(": ")[0].rpartition(":")[2])
    assert "pallas_call" in changed.path.read_text().splitlines()[line - 1]


WRAPPED = {
    "jit": "constant_add = jax.jit(constant_add)",
    "checkpoint": "constant_add = jax.checkpoint(constant_add)",
    "partial": "import functools\nconstant_add = functools.partial(constant_add)",
    "object": "_launch = constant_add\nclass Launch:\n"
    "    def __call__(self, x):\n        return _launch(x)\nconstant_add = Launch()",
}


@pytest.mark.parametrize("how", WRAPPED)
def test_what_wraps_a_launch_is_no_work(how: str, grader: Grader, tmp_path: Path) -> None:
    kata = EVERY["constant_add"]
    text = kata.solution.read_text()
    wrapped = f"{WRAPPED[how]}\n\n\ndef test_constant_add"
    changed = with_text(kata, tmp_path, text.replace("def test_constant_add", wrapped))
    grade = grader.grade(changed, draw(changed.id, changed.key, 1)[0], SECONDS)
    assert (grade.state, grade.stars) == (State.PASSED, 3), grade


def test_parallel_dimensions_may_stand_anywhere(grader: Grader, tmp_path: Path) -> None:
    """The interpreter alone would have them before all others."""
    kata = EVERY["tiled_matmul"]
    old, new = '("parallel", "parallel", "arbitrary")', '("arbitrary", "parallel", "arbitrary")'
    text = kata.solution.read_text()
    assert old in text
    changed = with_text(kata, tmp_path, text.replace(old, new))
    grade = grader.grade(changed, draw(changed.id, changed.key, 1)[0], SECONDS)
    assert (grade.state, grade.stars) == (State.PASSED, 3), grade


@pytest.mark.parametrize("seed", [2, 3])
def test_scaling_before_the_product_is_as_good(seed: int, grader: Grader, tmp_path: Path) -> None:
    """Scores are as large as 150: an early rounding in float32 is seen in the result."""
    kata = EVERY["dot_product_attention"]
    early = "q_ref[...].astype(jnp.float32) * scale, k_ref[...].astype(jnp.float32), last_of_both"
    text = kata.solution.read_text().replace("    s = s * scale\n", "")
    changed = text.replace("q_ref[...], k_ref[...], last_of_both", early)
    assert early in changed
    case = next(
        case
        for case in draw(kata.id, kata.key, seed)
        if (case.sizes["H"], case.dtype) == (128, "float32")
    )
    grade = grader.grade(with_text(kata, tmp_path, changed), case, SECONDS)
    assert (grade.state, grade.stars) == (State.PASSED, 3), grade


ROUTED = {
    "jax.nn.softmax(top_logits, axis=1)": "jnp.exp(jax.nn.log_softmax(top_logits, axis=1))",
    "jnp.bincount(expert_of_choice, length=E)": "jnp.diff(jnp.searchsorted("
    "expert_of_choice[order], jnp.arange(E + 1)))",
    "x[order // top_k]": "jnp.tile(x, (top_k, 1))[order % top_k * T + order // top_k]",
    "jnp.sum(weights[:, :, None] * y, axis=1)": 'jnp.einsum("tk,tkd->td", weights, '
    "y.astype(jnp.float32))",
}


def test_a_router_may_be_written_in_any_way(grader: Grader, tmp_path: Path) -> None:
    kata = EVERY["moe_layer"]
    text = kata.solution.read_text()
    for old, new in ROUTED.items():
        assert text.count(old) >= 1
        text = text.replace(old, new)
    changed = with_text(kata, tmp_path, text)
    grade = grader.grade(changed, draw(changed.id, changed.key, 1)[0], SECONDS)
    assert (grade.state, grade.stars) == (State.PASSED, 3), grade
