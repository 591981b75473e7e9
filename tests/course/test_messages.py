"""What a learner is told of mistakes that are in no key: the right Ref, the right reason.

Each stands for a class of words that were wrong once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from grader.exercise.answer_key import Mistake
from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.exercise.mutants import wrong_version
from grader.grading.grader import evidence_of
from grader.grading.ladder import verdict
from grader.sandbox.client import WorkerClient
from pallascope.model import Check
from pallascope.tpu import compiler
from tests.support.repositories import ROOT, with_text

BY_NAME = {exercise.name: exercise for exercise in katas(ROOT, "solutions")}


@dataclass(frozen=True)
class Told:
    """An exercise, what is changed in its solution, what has to be said of it, and what not."""

    exercise: str
    changes: dict[str, str]
    says: str
    never: tuple[str, ...] = field(default=())
    compiled: bool = False


WRONG = {
    "values whose padding is used": Told(
        "ragged_sequence",
        {"v = jnp.where(row < left, v_ref[...], 0)": "v = v_ref[...]"},
        "padding of v_ref was used",
        ("k_ref was",),
    ),
    "scores whose padding is used": Told(
        "ragged_sequence",
        {"jnp.int32, s.shape, 1) < left": "jnp.int32, s.shape, 1) < left + 1"},
        "padding of k_ref was used",
    ),
    "nothing but padding is summed": Told(
        "ragged_tail",
        {"column < n": "column >= n"},
        "padding of x_ref was used",
        ("never written",),
    ),
    "the exact gelu": Told(
        "fused_matmul",
        {
            "jax.nn.gelu(y, approximate=True)": "(0.5 * y * (1 + jax.lax.erf(y / 2**0.5)))",
        },
        "your kernel uses the exact gelu",
        ("rounded too early",),
    ),
    "queries without a key": Told(
        "block_sparse_attention",
        {"scores(q_ref, k_ref), MASK_VALUE)": "scores(q_ref, k_ref), -1e9)"},
        "your kernel masks with -1e9",
        ("array's edge",),
    ),
    "a table read past its end": Told(
        "masked_store",
        {"group_offsets_ref[group + 1])": "group_offsets_ref[group + 100])"},
        "This Ref holds a whole array; its indices go from 0 to",
        ("only one block",),
    ),
    "residuals in another order": Told(
        "flash_custom_vjp",
        {"q, k, v, o, lse = residuals": "lse, q, k, v, o = residuals"},
        "look at the order in which the arrays are passed",
    ),
    "given code that fails": Told(
        "launch_vector_add",
        {"        out_specs=block,\n": ""},
        "is given code and right as it is",
    ),
    "an array that is passed twice": Told(
        "launch_vector_add", {")(x, y, z)": ")(x, z, z)"}, "y is never used by the launch"
    ),
    "few large errors among many small": Told(
        "attention_one_q_block",
        {"widened(alpha, H) * acc_ref[...] + pv": "widened(alpha * alpha, H) * acc_ref[...] + pv"},
        "your kernel rescales the accumulator twice",
        ("rounded too early",),
    ),
    "the logarithm of the weights": Told(
        "moe_layer",
        {"jax.nn.softmax(top_logits, axis=1)": "jax.nn.log_softmax(top_logits, axis=1)"},
        "are wrong",
        ("outside",),
    ),
    "work outside that makes the values wrong": Told(
        "launch_vector_add", {")(x, y, z)": ")(x * 2, y, z)"}, "The values are wrong, too"
    ),
    "bfloat16 in higher precision": Told(
        "fused_matmul",
        {
            "last_of_both, preferred_element_type=jnp.float32": "last_of_both, "
            'precision="highest", preferred_element_type=jnp.float32',
        },
        "Leave precision= out",
        ("Cast both sides",),
        compiled=True,
    ),
    "a column turned into a row": Told(
        "flash_backward_delta",
        {"jnp.sum(product.T, axis=0, keepdims=True)": "jnp.sum(product, axis=1)[None, :]"},
        "leaves one number for each sublane",
        compiled=True,
    ),
}


@pytest.mark.parametrize("told", WRONG.values(), ids=[name.replace(" ", "-") for name in WRONG])
def test_words_fit_what_is_wrong(told: Told, asking: WorkerClient, tmp_path: Path) -> None:
    if told.compiled and (reason := compiler.unavailable_reason()):
        pytest.skip(reason)
    exercise = BY_NAME[told.exercise]
    wrong = with_text(exercise, tmp_path, _changed(exercise, told.changes))
    for case in draw(wrong.id, wrong.key, 1):
        finding = verdict(evidence_of(asking, wrong, case, 60)).finding
        if finding is not None:
            break
    else:
        pytest.fail("it passes every hidden case")
    said = " ".join(f"{finding.phrase}\n{finding.message}".split())
    assert told.says in said
    for words in told.never:
        assert words not in said


def _changed(exercise: Kata, changes: dict[str, str]) -> str:
    text = exercise.solution.read_text()
    for old, new in changes.items():
        text = wrong_version(text, Mistake("changes it", old, new, Check.VALUES, "says"))
    return text
