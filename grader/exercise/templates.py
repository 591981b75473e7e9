"""The texts of a new kata, for each kind: a small solution that earns its stars, and its key.

Also those of a course that `kata init` writes. It finds the parts of a kata that its author has not
replaced yet, for `kata new` and `kata sync`.
"""

from __future__ import annotations

import json

from grader.exercise.answer_key import HINTS
from grader.exercise.catalog import CourseSettings
from grader.exercise.key_tables import KataKind

_KIND_TABLES = '''import jax.numpy as jnp
from jaxtyping import Array, Int32


def NAME_spec(x: Int32[Array, "G"]) -> Int32[Array, "G"]:
    """What to return, computed the long way."""
    # write over this
    return jnp.array([2], jnp.int32) * x


def NAME(x: Int32[Array, "G"]) -> Int32[Array, "G"]:
    """Return the table."""
    # BEGIN SOLUTION
    # write over this too
    return 2 * x
    # END SOLUTION


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
_PREDICTIONS = '''from typing import NamedTuple

import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float32


def double(x: Float32[Array, "M N"]) -> Float32[Array, "M N"]:
    """A program in plain jax.numpy; the key names each of them."""
    # write over this
    return x * 2


class Prediction(NamedTuple):
    """The answers for one program, in the grader's order."""

    bytes: float
    flops: float
    best_us: float
    speedup: float


def predict_double(*, M: int, N: int) -> Prediction:
    # BEGIN SOLUTION
    # write over this too
    moved = 2 * 4 * M * N
    bandwidth = pltpu.get_tpu_info().mem_bw_bytes_per_second
    return Prediction(moved, M * N, 1e6 * moved / bandwidth, 1.0)
    # END SOLUTION


def NAME(*, M: int, N: int) -> Float32[Array, "1 4"]:
    """A row for each program."""
    return jnp.array([predict_double(M=M, N=N)], jnp.float32)


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''
_TEST = '''import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jaxtyping import Array, Float


def double_kernel(x_ref, o_ref):
    # write over this
    o_ref[...] = x_ref[...] * 2


def double(x: Float[Array, "M N"], *, bm: int = 8) -> Float[Array, "M N"]:
    """The launch under test."""
    rows = pl.BlockSpec((bm, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(
        double_kernel,
        grid=(x.shape[0] // bm,),
        in_specs=[rows],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
    )(x)


def NAME(launch):
    """Raise an AssertionError unless launch(x, bm=…) is a right double."""
    # BEGIN SOLUTION
    # write over this too
    x = jax.random.normal(jax.random.key(0), (24, 128))
    assert jnp.allclose(launch(x, bm=8), 2 * x)
    # END SOLUTION


def test_NAME(hidden_case):
    hidden_case.grade(NAME)
'''

#: The rest of a solution, below its docstring.
BODIES = {KataKind.TABLES: _KIND_TABLES, KataKind.PREDICTIONS: _PREDICTIONS, KataKind.TEST: _TEST}

_MISTAKE = """
# At least three; each must be rejected by the named check, with the named words.
[[mistakes]]
"""
#: The rest of a key, below `after`.
REST = {
    KataKind.TABLES: f"""kernel = false

[cases]
G = [7, 8, 12, 16]
{_MISTAKE}title = "multiplies by another number"
old = "2 * x"
new = "3 * x"
caught = "values"
says = "your kernel multiplies by another number"
""",
    KataKind.PREDICTIONS: f"""
[predictions]
programs = ["double"]  # functions of the file, one for each row
within = 0.20  # how far an answer may be off, as a fraction

[cases]
M = [256, 1024, 4096, 8192]
N = [384, 512, 640]

[production]  # the one case in which XLA is asked
M = 8192
N = 4096
{_MISTAKE}title = "multiplies by another number"
old = "2 * 4 * M * N"
new = "4 * M * N"
caught = "predictions"
says = "double: bytes is"
""",
    KataKind.TEST: f"""tested = "double"  # the launch under test

# Wrong versions of it, none of which a test may pass. Each title goes on from: a kernel that.
[[planted]]
title = "forgets the last block"
old = "x.shape[0] // bm"
new = "max(x.shape[0] // bm - 1, 1)"

[[planted]]
title = "adds instead of multiplying"
old = "x_ref[...] * 2"
new = "x_ref[...] + 2"

# Right versions, which every test has to pass.
[[planted]]
title = "adds x to itself"
right = true
old = "x_ref[...] * 2"
new = "x_ref[...] + x_ref[...]"
{_MISTAKE}title = "multiplies by another number"
old = "(24, 128)"
new = "(8, 128)"
caught = "planted"
says = "passes for a kernel that forgets the last block"
""",
}
#: A case file's wrong code, instead of a `todo`.
STUB = 'stub = ["""\no_ref[...] = x_ref[...] + 2  # the wrong code that is to be repaired\n"""]'


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
    """The required result, in plain jax.numpy."""
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

#: The starts of a solution's imports and of a key's tables; a key's `todo`.
_BODY, _TABLES = "import jax\n", "[cases]\n"
_TODO = 'todo = ["say what to do here, without saying how"]'

_LEADS_TO = "say in a few words where it leads"
_TRACK = """# TRACK: LEADS_TO

This track has no katas. Say what its last kata computes, why that needs its own kernel, and which
tracks have to come first.

[The katas](#the-katas) · [The story](#the-story) · [All tracks](../README.md)

## The katas

<!-- BEGIN KATAS: written by kata sync -->
<!-- END KATAS -->

## The story

Say what each kata adds to the one before it, with pictures and true numbers.
"""

# By part: words of the template, which stay until the author replaces them.
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


def solution(name: str, kind: KataKind = KataKind.KERNEL) -> str:
    """The solution file of a new kata called `name`."""
    docstring, _, _ = _SOLUTION.partition(_BODY)
    text = docstring + BODIES[kind] if kind in BODIES else _SOLUTION
    return text.replace("NAME", name)


def key(name: str, kind: KataKind = KataKind.KERNEL) -> str:
    """The answer key of a new kata called `name`."""
    text, _, _ = _KEY.partition(_TABLES)
    text = text.rstrip("\n") + "\n" + REST[kind] if kind in REST else _KEY
    if kind in BODIES:
        text = text.replace("    kata cost NAME M=4096\n", "    kata hint NAME\n")
    if kind is KataKind.CASE_FILE:
        text = text.replace(_TODO, STUB)
    return text.replace("NAME", name).replace("HINTS", json.dumps(HINTS))


def track(name: str, leads_to: str | None) -> str:
    """The README of a new track, with an empty table. `leads_to` is None if nobody has named it."""
    return _TRACK.replace("TRACK", name).replace("LEADS_TO", leads_to or _LEADS_TO)


#: The pytest settings are those of the clone's pyproject.toml.
_COURSE_SETTINGS = """\
# To get newer katas: pip install -U pallas-katas, then kata update.
[project]
name = "my-pallas-katas"
version = "0"
requires-python = ">=3.11"
dependencies = ["pallas-katas"]

[project.optional-dependencies]
tpu = ["pallas-katas[tpu]"]
gpu = ["pallas-katas[gpu]"]

# This is not a package, so there is nothing to build.
[tool.setuptools]
packages = []

[tool.uv]
package = false
CHOICE
[tool.pytest.ini_options]
minversion = "9.0"
testpaths = ["katas"]
timeout = 30  # seconds for a hidden case
addopts = ["--strict-markers", "--strict-config", "-p", "no:anyio", "-p", "no:jaxtyping"]
"""
COURSE_CONFTEST = """\
import importlib.util
import sys

import pytest

if importlib.util.find_spec("grader") is None:
    raise pytest.UsageError(
        f"the Python of this pytest, {sys.executable}, has no pallas-katas.\\n"
        "Activate the environment that has it (source .venv/bin/activate), and run pytest again."
    )
pytest_plugins = ["grader.plugin"]
"""
_COURSE_README = """\
# My Pallas katas

A *kata* is one Python file with one new idea. In it you write a TPU kernel or its launch, and
pytest grades it.

1. Open `FILE`.
   Read its docstring, and replace the `raise NotImplementedError(…)` between `# BEGIN SOLUTION` and
   `# END SOLUTION` with your code.
2. Run `pytest -k NAME`. If you are stuck, run `kata hint NAME`.
3. When it is solved, run `kata commit` to commit it, and `kata next` to see which one comes next.

In a fresh clone of this folder, first run:

```sh
python3 -m venv .venv && .venv/bin/pip install -q -e '.[tpu]' && source .venv/bin/activate
```

`kata` shows your progress. `pip install -U pallas-katas`, then `kata update`, brings new and
changed katas; your code stays.

<!-- BEGIN TRACKS: written by kata init -->
<!-- END TRACKS -->
"""


def course_choice(choice: CourseSettings) -> str:
    """The table with the choices of `kata init`; "" if there are none."""
    only = choice.only
    lines = [] if only is None else [f"only = {json.dumps(only)}  # tracks and katas"]
    if not choice.solutions:
        lines.append("solutions = false  # kata show shows none")
    return "\n".join(["[tool.pallas-katas]", *lines, ""]) if lines else ""


def course_settings(choice: CourseSettings) -> str:
    """The pyproject.toml of a course, with its choices."""
    table = course_choice(choice)
    return _COURSE_SETTINGS.replace("CHOICE\n", f"\n{table}\n" if table else "\n")


def course_readme(file: str, name: str) -> str:
    """The README of a course whose first kata is in `file`, with an empty table of tracks."""
    return _COURSE_README.replace("FILE", file).replace("NAME", name)


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
