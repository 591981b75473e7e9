"""The texts of a new kata: a small solution that earns its stars, to be written over.

What has to be written over is listed here too, for `kata new` and `kata sync` to say what is left.
"""

from __future__ import annotations

import json

from grader.exercise.keys import HINTS, Kind
from grader.exercise.template_kinds import BODIES, REST, STUB

_SOLUTION = '''"""Say in one imperative line what the kernel does.

Goal
    What the kernel must do, in the reader's terms.

Concept
    The one new idea: why it exists, what the hardware does, with a picture where space or time is
    involved and true numbers. 20 to 60 lines for the whole docstring; no spoiler.

Shapes
    name    dtype[dims]     memory space   Ref's shape   block
    x_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)
    o_ref   x.dtype[M, N]   VMEM           (bm, N)       (i, 0)

Try
    pytest -k NAME          stuck?  kata hint NAME

Needs     name the katas that this one builds on
Read on   one page or paper, by name, with its URL
"""

import jax
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def NAME_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    """What the kernel must compute, in plain jax.numpy."""
    # write over this
    return x * 2


def NAME_kernel(x_ref, o_ref):
    # BEGIN SOLUTION
    # write over this too
    o_ref[...] = x_ref[...] * 2
    # END SOLUTION


def NAME(x: Float[Array, "M N"], *, bm: int = 128) -> Float[Array, "M N"]:
    """Launch: one grid step for each block of bm rows."""
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        NAME_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''

_KEY = '''title = "its name in words"
concept = "the one new idea"
write = "which part: kernel, specs, whole launch"
todo = ["say what to do here, without saying how"]
hints = HINTS

# Shown once the kata is solved, 40 to 160 words.
after = """
Say what was just found, and the idea of the solution in two sentences. Then where production code
does the same: file and function.

Say one thing to vary, with a command that runs:

    kata cost NAME M=4096

And one page or paper, by name: what it adds to what was found here, and for whom it is worth the
time that reading it takes.
"""

[cases]
bm = [64, 128]
M = ["2*bm", "3*bm"]
N = [128, 256]
dtype = ["float32", "bfloat16"]

# At least three; each must be rejected by the named check, with the named words.
[[mistakes]]
title = "multiplies by another number"
old = "x_ref[...] * 2"
new = "x_ref[...] * 3"
caught = "values"
says = "off by the same factor"
'''

#: Where a solution's imports begin, and a key's tables; what is to do, in a key.
_BODY, _TABLES = "import jax\n", "[cases]\n"
_TODO = 'todo = ["say what to do here, without saying how"]'

_LEADS_TO = "say in a few words where it leads"
_TRACK = """# TRACK: LEADS_TO

This track has no katas. Say what its last kata computes, why that needs a kernel of its own, and
which tracks have to come first.

[The katas](#the-katas) · [The story](#the-story) · [All tracks](../README.md)

## The katas

<!-- BEGIN KATAS: written by kata sync -->
<!-- END KATAS -->

## The story

Say what each kata adds to the one before it, with pictures and true numbers.
"""

# What each text begins with, for as long as nobody has written over it.
_SOLUTION_LEFT = {
    "the first line": "Say in one imperative line",
    "Goal": "What the kernel must do, in the reader's terms.",
    "Concept": "The one new idea: why it exists",
    "Needs": "name the katas that this one builds on",
    "Read on": "one page or paper, by name",
    "NAME_spec": "    # write over this\n",
    "NAME_kernel": "    # write over this too\n",
}
_KEY_LEFT = {
    "title": '"its name in words"',
    "concept": '"the one new idea"',
    "write": '"which part: ',
    "todo": '"say what to do here, ',
    "stub": "# the wrong code that is to be repaired",
    "hints": '"a nudge", "the pattern", ',
    "after": "Say what was just found, ",
    "mistakes (at least three)": '"multiplies by another number"',
}
_TRACK_LEFT = {
    "the heading": _LEADS_TO,
    "the introduction": "Say what its last kata computes",
    "the story": "Say what each kata adds",
}


def solution(name: str, kind: Kind = Kind.KERNEL) -> str:
    """The solution file of a new kata called `name`."""
    docstring, _, _ = _SOLUTION.partition(_BODY)
    text = docstring + BODIES[kind] if kind in BODIES else _SOLUTION
    return text.replace("NAME", name)


def key(name: str, kind: Kind = Kind.KERNEL) -> str:
    """The answer key of a new kata called `name`."""
    text, _, _ = _KEY.partition(_TABLES)
    text = text.rstrip("\n") + "\n" + REST[kind] if kind in REST else _KEY
    if kind in BODIES:
        text = text.replace("    kata cost NAME M=4096\n", "    kata hint NAME\n")
    if kind is Kind.CASE_FILE:
        text = text.replace(_TODO, STUB)
    return text.replace("NAME", name).replace("HINTS", json.dumps(HINTS))


def track(name: str, leads_to: str | None) -> str:
    """The README of a new track, its table still empty; None where nobody has said what it is."""
    return _TRACK.replace("TRACK", name).replace("LEADS_TO", leads_to or _LEADS_TO)


def left_of_solution(name: str, text: str) -> tuple[str, ...]:
    """The parts of a solution that are still the template's."""
    return _left(_SOLUTION_LEFT, name, text)


def left_of_key(name: str, text: str) -> tuple[str, ...]:
    """The parts of an answer key that are still the template's."""
    return _left(_KEY_LEFT, name, text)


def left_of_track(text: str) -> tuple[str, ...]:
    """The parts of a track's README that are still the template's."""
    return _left(_TRACK_LEFT, "", text)


def _left(parts: dict[str, str], name: str, text: str) -> tuple[str, ...]:
    return tuple(
        part.replace("NAME", name)
        for part, words in parts.items()
        if words.replace("NAME", name) in text
    )
