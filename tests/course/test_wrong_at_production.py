"""Launches that are right at the hidden sizes alone: wrong at production size, or not judged there.

Each differs from a solution only at production size.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from grader.exercise.cases import draw
from grader.exercise.catalog import Kata, katas
from grader.grading.grader import Grader
from grader.verdict import Grade, State
from tests.support.repositories import ROOT, with_text

SECONDS = 60
EVERY = {kata.name: kata for kata in katas(ROOT, "solutions")}

STORED = "(e / jnp.sum(e, axis=1, keepdims=True)).astype(p_ref.dtype)"
STORES = f"p_ref[...] = {STORED}"
MANY = "pl.num_programs(0) > 100"
#: A loop that no step begins, whose work is that of many launches.
DEAD = """@pl.when(pl.program_id(0) < 0)
    def _():
        @pl.loop(0, 1_000_000)
        def _(_):
            p_ref[...] += jnp.exp(p_ref[...])
"""

#: By title: a kata, a part of its solution, the text in its place, and words of the report.
WRONG = {
    "a sum over a dimension that is parallel there": (
        "rms_norm_backward",
        'dimension_semantics=("arbitrary",)',
        'dimension_semantics=("parallel" if M > 4096 else "arbitrary",)',
        "At production size, two steps write one block.",
    ),
    "a wait that comes too late there": (
        "right_permute",
        "    pl.semaphore_wait(begun, 2)\n",
        "    pl.semaphore_wait(begun, 2 if x_ref.shape[0] < 999 else 1)\n",
        "writes to another device before it is known to have begun",
    ),
    "by the number of steps": (
        "row_softmax",
        STORED,
        f"jnp.where({MANY}, 0.5, 1).astype(p_ref.dtype) * {STORED}",
        "wrong at production size",
    ),
    "one block in sixteen": (
        "row_softmax",
        STORED,
        f"jnp.where(({MANY}) & (pl.program_id(0) % 16 == 5), 0.5, 1).astype(p_ref.dtype) * "
        f"{STORED}",
        "wrong at production size",
    ),
    "in a scope that reads the grid": (
        "row_softmax",
        STORES,
        "def body(own_ref):\n"
        f"        own_ref[...] = {STORED}\n"
        f"        p_ref[...] = jnp.where({MANY}, 0, own_ref[...])\n\n"
        "    pl.run_scoped(body, pltpu.VMEM(p_ref.shape, p_ref.dtype))",
        "wrong at production size",
    ),
    "with packed elements": (
        "row_softmax",
        STORES,
        "two = [x_ref[...].astype(jnp.float32)] * 2\n    if x_ref.shape[1] > 9999:\n"
        "        e += pltpu.pack_elementwise(two, packed_dtype=jnp.bfloat16).astype(jnp.float32)\n"
        f"    {STORES}",
        "wrong at production size",
    ),
    "behind work that is never done": (
        "row_softmax",
        STORES,
        f"{DEAD}\n    p_ref[...] = jnp.where({MANY}, 0, {STORED})",
        "the values at production size can't be computed: its steps take too long",
    ),
    "small numbers": (
        "row_softmax",
        STORED,
        f"jnp.where({MANY}, jnp.where(e < 0.01, 0, e), {STORED}).astype(p_ref.dtype)",
        "wrong at production size",
    ),
    "every eightieth index": (
        "top_k_route",
        "] = lowest",
        f"] = jnp.where(({MANY.replace('100', '16')}) & (jax.lax.broadcasted_iota("
        "jnp.int32, lowest.shape, 1) % 80 == 0), -7777, lowest)",
        "wrong at production size",
    ),
    "sent by XLA": (
        "ring_all_gather",
        '    chips = P("x")\n',
        '    if x.shape[2] > 2048:\n        return gathered(x, mesh)\n    chips = P("x")\n',
        "XLA sends parts of x",
    ),
    "no bit is dropped": (
        "dropout",
        "jnp.uint32(2**32 * percent // 100)",
        "jnp.uint32(2**32 * percent // 100 if x_ref.shape[1] < 512 else 0)",
        "are distributed otherwise: the mean",
    ),
    "rounding down": (
        "stochastic_rounding",
        "(random & jnp.uint32(0xFFFF))",
        "jnp.where(pl.num_programs(0) > 16, 0, random & jnp.uint32(0xFFFF))",
        "are distributed otherwise: the mean",
    ),
    "the first forty blocks": (
        "linear_cross_entropy",
        "jnp.where(word < V, logits, -jnp.inf)",
        "jnp.where((word < V) & (j < 40), logits, -jnp.inf)",
        "Near production size, with bt = 128, D = 256 and T = 512",
    ),
    "the first sixty-four rows": (
        "kv_cache_write",
        "is_new = row == positions_ref[b] % T",
        "is_new = (row == positions_ref[b] % T) & (b < 64)",
        "Near production size, with S = 256",
    ),
    "the first five turns": (
        "ragged_paged_attention",
        "jnp.where(key <= position,",
        "jnp.where((key <= position) & (turn < 5),",
        "Near production size, with ",
    ),
    "another branch near production size": (
        "linear_cross_entropy",
        "word = j * w_ref.shape[0]",
        "if w_ref.shape[1] > 2000:\n        logits *= 2\n    word = j * w_ref.shape[0]",
        "uses line",
    ),
    "compiled from text": (
        "row_softmax",
        STORES,
        "p_ref[...] = own(x_ref[...])",
        "MakesCode: it compiles a text",
    ),
}
GIVEN = {
    "sent by XLA": '''
def gathered(x, mesh):
    """XLA gathers, and the kernel copies."""

    def copy(x_ref, o_ref, sem):
        pltpu.async_copy(x_ref, o_ref, sem).wait()

    def on_each(x):
        hbm = pl.BlockSpec(memory_space=pl.ANY)
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        scratch = [pltpu.SemaphoreType.DMA]
        return pl.pallas_call(
            copy, in_specs=[hbm], out_specs=hbm, out_shape=shape, scratch_shapes=scratch
        )(x)

    return jax.shard_map(on_each, mesh=mesh, in_specs=P(), out_specs=P("x"), check_vma=False)(x)


''',
    "compiled from text": """
_FOUND = {"jnp": jnp, "jax": jax}
exec("def own(x): return jax.nn.softmax(x.astype(jnp.float32)).astype(x.dtype)", _FOUND)
own = _FOUND["own"]


""",
}


def rewritten(title: str, folder: Path) -> Kata:
    """A solved kata with other text in the place of a part, which its code has once."""
    name, old, new, _ = WRONG[title]
    text = EVERY[name].solution.read_text()
    assert text.count(old) == 1, name
    first = f"def {name}_kernel"
    return with_text(
        EVERY[name], folder, text.replace(old, new).replace(first, GIVEN.get(title, "") + first)
    )


def graded(grader: Grader, kata: Kata, production: bool) -> list[Grade]:
    cases = [case for case in draw(kata.id, kata.key, 1) if case.production is production]
    return [grader.grade(kata, case, SECONDS) for case in cases[:1]]


@pytest.mark.parametrize("title", WRONG)
def test_no_star_is_earned(title: str, grader: Grader, tmp_path: Path) -> None:
    kata, says = rewritten(title, tmp_path), WRONG[title][-1]
    for grade in graded(grader, kata, production=True):
        assert grade.stars == 0, grade
        assert grade.finding or grade.not_judged, grade
        told = str(grade.not_judged)
        if grade.finding:
            told = f"{grade.finding.phrase}\n{grade.finding.message}"
        assert says in " ".join(told.split()), grade


@pytest.mark.parametrize("title", [title for title in WRONG if title != "compiled from text"])
def test_it_is_right_at_a_hidden_size(title: str, grader: Grader, tmp_path: Path) -> None:
    """So the tests above can't pass for another reason."""
    for grade in graded(grader, rewritten(title, tmp_path), production=False):
        assert grade.state is State.PASSED, grade
