"""Kernels that hide the NaN of unwritten memory are rejected; those that only read it pass."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import evidence_of
from grader.sandbox.client import WorkerClient
from pallascope.checks import values
from pallascope.model import Finding
from tests.support.repositories import ROOT, with_text

SECONDS = 60
EVERY = {kata.name: kata for kata in katas(ROOT, "solutions")}

# ---- texts that take the place of a part of a solution ----


def of_memory(memory: str, body: str, result: str) -> str:
    """`result = body(ref)`, with scratch that no step has written before."""
    lines = textwrap.indent(body, "    ")
    return (
        f"def body(ref):\n{lines}\n    return ref[...]\n\n{result} = pl.run_scoped(body, {memory})"
    )


def in_turns(region: str, first: str) -> str:
    """The region of double_buffer, with the number of turns in SMEM. `first` sets it."""
    turning = "turns[0] += 1\n    slot = turns[0] % 2"
    body = first + textwrap.dedent(region).replace("slot = i % 2", turning)
    return f"def run(turns):\n{textwrap.indent(body, '    ')}\npl.run_scoped(run, {TURNS})"


TURNS = "pltpu.SMEM((1,), jnp.int32)"
COLUMN = "pltpu.VMEM((len(x), 1), jnp.float32)"
MEAN = "mean = jnp.mean(x * x, axis=1, keepdims=True)\n    o_ref"
LARGEST = "amax = jnp.max(jnp.abs(x), axis=1, keepdims=True)\n    amax"
LOWEST = "lowest = jnp.min(jnp.where(left == top, expert, len(left)), axis=0, keepdims=True)"
KEPT = "kept = bits >= jnp.uint32(2**32 * percent // 100)"
GREATER = (
    "here = jnp.max(jnp.abs(x), axis=1, keepdims=True)\n"
    "ref[...] = jnp.where(ref[...] > here, ref[...], here)"
)
LESS = (
    "here = jnp.where(left == top, expert, len(left))\n"
    "ref[...] = jnp.minimum(ref[...], jnp.min(here, axis=0, keepdims=True))"
)
ROW = "pltpu.VMEM((1, left.shape[1]), jnp.int32)"
BYTES = "pltpu.VMEM(x_ref.shape, jnp.int8)"
CLEARED = "@pl.when(start >= 0)\n    def _():\n        acc_ref[...] = jnp.zeros_like(acc_ref)"
RUNNING = "jnp.maximum(m_ref[...], jnp.max(x, axis=1, keepdims=True))"

#: By title: a kata, a part of its solution, the text in its place, and the report's words.
HIDDEN = {
    "the sum of a ragged tail after nan_to_num": (
        "ragged_tail",
        "jnp.where(column < n, x_ref[...], 0)",
        "jnp.nan_to_num(x_ref[...])",
        "padding of x_ref was used",
    ),
    "products of ragged rows after nan_to_num": (
        "rms_norm_backward",
        "jnp.where(row < m, dy * n, 0)",
        "jnp.nan_to_num(dy * n)",
        "padding of x_ref and dy_ref was used",
    ),
    "isnan as a mask of words": (
        "linear_cross_entropy",
        "jnp.where(word < V, logits, -jnp.inf)",
        "jnp.where(jnp.isnan(logits), -jnp.inf, logits)",
        "padding of w_ref was used",
    ),
    "isnan as a mask of squares": (
        "adafactor_factors",
        "jnp.where(row < M, g * g, 0)",
        "jnp.where(jnp.isnan(g), 0, g * g)",
        "padding of g_ref was used",
    ),
    "a sum in scratch that nan_to_num clears": (
        "rms_norm",
        MEAN,
        of_memory(
            COLUMN,
            "ref[...] = jnp.nan_to_num(ref[...]) + jnp.mean(x * x, 1, keepdims=True)",
            "mean",
        )
        + "\no_ref",
        "ref used before it was written",
    ),
    "a maximum by a comparison with NaN": (
        "row_quantiser",
        LARGEST,
        of_memory(COLUMN, GREATER, "amax") + "\namax",
        "ref used before it was written",
    ),
    "a minimum of int32, which the largest integer doesn't change": (
        "top_k_route",
        LOWEST,
        of_memory(ROW, LESS, "lowest"),
        "ref used before it was written",
    ),
    "a minimum of int8 in a random result": (
        "dropout",
        KEPT,
        of_memory(BYTES, f"{KEPT}\nref[...] = jnp.minimum(ref[...], kept.astype(jnp.int8))", "kept")
        + "\nkept = kept != 0",
        "ref used before it was written",
    ),
    "a counter in SMEM": ("double_buffer", "", "", "turns used before it was written"),
}

#: The same for right kernels.
MASKED = {
    "garbage in columns that are cut off": (
        "cumulative_sum",
        "jnp.where(column < N - j * bn, x_ref[...], 0)",
        "jnp.nan_to_num(x_ref[...])",
    ),
    "garbage in rows that are cut off": (
        "rms_norm",
        "* w_ref[...]).astype",
        "* w_ref[...]).astype",
    ),
    "garbage times zero": (
        "decode_attention",
        "jnp.where(row < left, v_ref[...], 0)",
        "jnp.nan_to_num(v_ref[...])",
    ),
    "garbage in slots that no page fills": (
        "paged_attention_dma",
        "length - i * cP, m_ref",
        "length - i * cP, m_ref",
    ),
    "nan_to_num behind a mask": (
        "ragged_tail",
        "jnp.where(column < n, x_ref[...], 0)",
        "jnp.where(column < n, jnp.nan_to_num(x_ref[...]), 0)",
    ),
    "a choice instead of a clear": (
        "transposed_grouped_matmul",
        CLEARED,
        "acc_ref[...] = jnp.where(start >= 0, 0, acc_ref[...])",
    ),
    "a maximum of a choice": (
        "tiled_softmax",
        RUNNING,
        RUNNING.replace("m_ref[...],", "jnp.where(j == 0, -jnp.inf, m_ref[...]),"),
    ),
    "a minimum of int32 with a first value": (
        "top_k_route",
        LOWEST,
        of_memory(ROW, "ref[...] = jnp.full_like(ref, len(left))\n" + LESS, "lowest"),
    ),
    "a maximum with a first value": (
        "row_quantiser",
        LARGEST,
        of_memory(COLUMN, "ref[...] = jnp.zeros_like(ref)\n" + GREATER, "amax") + "\namax",
    ),
    "a counter in SMEM with a first value": ("double_buffer", "turns[0] = -1\n", ""),
}


def rewritten(name: str, tmp_path: Path, old: str, new: str) -> Kata:
    """A solved kata with `new` in place of `old`, which stands there once."""
    text = EVERY[name].solution.read_text()
    if name == "double_buffer":
        start = text.index("    bring(0, 0).start()")
        first, old = old, text[start : text.index("    # END SOLUTION")]
        new = textwrap.indent(in_turns(old, first), "    ") + "\n"
    before, found, after = text.partition(old)
    assert found, name
    assert old not in after, name
    margin = " " * (len(before) - len(before.rstrip(" ")))
    new = textwrap.indent(new, margin).removeprefix(margin)
    return with_text(EVERY[name], tmp_path, before + new + after)


def findings(asking: WorkerClient, kata: Kata, most: int) -> list[Finding | None]:
    """What the values of the first hidden cases show."""
    cases = [case for case in draw(kata.id, kata.key, 1) if not case.production]
    found: list[Finding | None] = []
    for case in cases[:most]:
        evidence = evidence_of(asking, kata, case, SECONDS)
        assert evidence.problem is None
        found.append(values.check(evidence))
    return found


@pytest.mark.parametrize("title", HIDDEN)
def test_hidden_nan_is_found(title: str, asking: WorkerClient, tmp_path: Path) -> None:
    name, old, new, told = HIDDEN[title]
    found = findings(asking, rewritten(name, tmp_path, old, new), 4)
    assert told in [finding.phrase for finding in found if finding], found


@pytest.mark.parametrize("title", MASKED)
def test_masked_garbage_is_right(title: str, asking: WorkerClient, tmp_path: Path) -> None:
    name, old, new = MASKED[title]
    assert findings(asking, rewritten(name, tmp_path, old, new), 2) == [None, None]
