"""How far right variants stay below the tolerance, and how far wrong ones exceed it.

    python tests/benchmarks/margins.py [NAMES] [--seeds 1,2,3] [--variants]

For each kata with floating results, the spec is evaluated in float32 with the inputs' rounding, in
other orders and other forms that are as good: these must be accepted. And with one precision
mistake at a time, in bfloat16 or on the way to fp8: these must be rejected in at least one case of
each session. What changes no bit of any result, such as fp8 numbers rounded to bfloat16, is left
out. Printed are the largest error of the first and the smallest of the second, as multiples of the
tolerance, so that the first has to stay below 1 and the second above.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from grader.model import Device, Mode  # noqa: E402
from grader.sandbox.environment import environment  # noqa: E402

os.environ.update(environment(Device("cpu", Mode.STRICT), os.environ))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.extend import core  # noqa: E402

from grader.checks.compare import Sum, coarsest, tolerance  # noqa: E402
from grader.exercise import specs  # noqa: E402
from grader.exercise.cases import draw  # noqa: E402
from grader.exercise.catalog import Kata, katas  # noqa: E402
from grader.exercise.keys import Kind  # noqa: E402
from grader.kernels.retrace import Replacement, retraced  # noqa: E402
from grader.model import Case, Reference  # noqa: E402
from grader.tools.arrays import in_float64, to_numpy  # noqa: E402
from grader.tools.modules import load_module  # noqa: E402

Values = np.ndarray[Any, Any]
CHUNK = 64


@dataclass(frozen=True, slots=True)
class Variant:
    """A way of computing: what stands for the primitives of these names."""

    name: str
    by: Mapping[str, Replacement]
    narrow: bool = True  # whether intermediate values that the kata may round are rounded


def _dot(eqn: core.JaxprEqn, lhs: Any, rhs: Any) -> Any:
    return jax.lax.dot_general(
        lhs, rhs, eqn.params["dimension_numbers"], preferred_element_type=lhs.dtype
    )


def _chunks(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Iterator[Any]:
    """Products of a dot over stretches of the contracted dimension, the last stretch first."""
    lhs, rhs = inputs
    (left, right), _ = eqn.params["dimension_numbers"]
    if not left:
        yield _dot(eqn, lhs, rhs)
        return
    size = lhs.shape[left[0]]
    for start in reversed(range(0, size, CHUNK)):
        end = min(start + CHUNK, size)
        yield _dot(
            eqn,
            jax.lax.slice_in_dim(lhs, start, end, axis=left[0]),
            jax.lax.slice_in_dim(rhs, start, end, axis=right[0]),
        )


def _dot_in_chunks(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    first, *rest = _chunks(eqn, inputs)
    for part in rest:
        first = first + part
    return [first]


def _bfloat16(x: Any) -> Any:
    return x.astype(jnp.bfloat16).astype(x.dtype)


def _dot_summed_coarsely(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    first, *rest = _chunks(eqn, inputs)
    for part in rest:
        first = _bfloat16(first) + part
    return [_bfloat16(first)]


def _scaled_first(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    lhs, rhs = inputs
    if not jnp.issubdtype(lhs.dtype, jnp.floating):
        return [_dot(eqn, lhs, rhs)]
    factor = jnp.asarray(0.0883883476, lhs.dtype)
    return [_dot(eqn, lhs * factor, rhs) / factor]


def _scaled_second(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    lhs, rhs = inputs
    if not jnp.issubdtype(lhs.dtype, jnp.floating):
        return [_dot(eqn, lhs, rhs)]
    factor = jnp.asarray(1.7, lhs.dtype)
    return [_dot(eqn, lhs, rhs * factor) / factor]


def _of_coarse(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [_dot(eqn, *map(_bfloat16, inputs))]


def _to_coarse(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [_bfloat16(_dot(eqn, *inputs))]


def _exp2(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    (x,) = inputs
    return [jnp.exp2(x * jnp.asarray(np.log2(np.e), x.dtype))]


def _divided(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    x, y = inputs
    return [x * (1 / y) if jnp.issubdtype(y.dtype, jnp.floating) else x // y]


def _logistic(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [0.5 * (jnp.tanh(0.5 * inputs[0]) + 1)]


def _sum_parts(eqn: core.JaxprEqn, x: Any) -> tuple[Any, int]:
    """The terms of a sum along its last summed axis, in front."""
    axis = max(eqn.params["axes"])
    others = tuple(a for a in eqn.params["axes"] if a != axis)
    terms = jnp.moveaxis(x, axis, 0)
    moved = tuple(a + 1 for a in others)
    return (terms.sum(axis=moved) if moved else terms), terms.shape[0]


def _summed(rounded: Callable[[Any], Any]) -> Replacement:
    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        (x,) = inputs
        if not eqn.params["axes"] or not jnp.issubdtype(x.dtype, jnp.floating):
            return [jnp.sum(x, axis=eqn.params["axes"], dtype=x.dtype)]
        terms, count = _sum_parts(eqn, x)
        total = None
        for start in reversed(range(0, count, CHUNK)):
            part = terms[start : start + CHUNK].sum(axis=0)
            total = rounded(part if total is None else total + part)
        return [total]

    return replacement


def _coarse(name: str) -> Replacement:
    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        params = eqn.primitive.get_bind_params(eqn.params)
        return [eqn.primitive.bind(*map(_bfloat16, inputs), **params)]

    assert name
    return replacement


def _then(rounded: Callable[[Any], Any]) -> Replacement:
    """An operation whose floating result something else is done to."""

    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        result = eqn.primitive.bind(*inputs, **eqn.primitive.get_bind_params(eqn.params))
        return [rounded(result) if jnp.issubdtype(result.dtype, jnp.floating) else result]

    return replacement


def _ties_upwards(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [jnp.floor(inputs[0] + 0.5)]


def _truncated(_: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
    return [jnp.trunc(inputs[0])]


def _to_fp8(prepared: Callable[[Any], Any]) -> Replacement:
    """A cast to fp8 of numbers that something else has been done to first."""

    def replacement(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        (x,) = inputs
        wanted = eqn.params["new_dtype"]
        narrow = jnp.issubdtype(wanted, jnp.floating) and jnp.dtype(wanted).itemsize == 1
        return [(prepared(x) if narrow else x).astype(wanted)]

    return replacement


def _through_e5m2(x: Any) -> Any:
    return x.astype(jnp.float8_e5m2).astype(x.dtype)


def _tie_away_from_zero(x: Any) -> Any:
    return x * (1 + 2.0**-20)


def _towards_zero(x: Any) -> Any:
    """A little below the next number of the grid where the nearest one is further from zero."""
    near = x.astype(jnp.float8_e4m3fn).astype(x.dtype)
    return jnp.where(jnp.abs(near) > jnp.abs(x), near * (1 - 2.0**-4), near)


def _up_to_240(x: Any) -> Any:
    return jnp.clip(x, -240, 240)


RIGHT = (
    Variant("as the spec says", {}),
    Variant(
        "sums in chunks, from the end",
        {"dot_general": _dot_in_chunks, "reduce_sum": _summed(lambda x: x)},
    ),
    Variant("scaled before the product", {"dot_general": _scaled_first}),
    Variant("scaled, the other operand", {"dot_general": _scaled_second}),
    Variant("exp2, reciprocals", {"exp": _exp2, "div": _divided, "logistic": _logistic}),
    Variant(
        "all of these",
        {
            "dot_general": _scaled_first,
            "exp": _exp2,
            "div": _divided,
            "logistic": _logistic,
            "reduce_sum": _summed(lambda x: x),
        },
    ),
)
#: For bfloat16 inputs, where the key says that operands may be rounded.
ROUNDED = (Variant("operands rounded as inputs are", {"dot_general": _of_coarse, "exp": _exp2}),)
WRONG = (
    Variant("products summed in bfloat16", {"dot_general": _dot_summed_coarsely}),
    Variant("products rounded to bfloat16", {"dot_general": _to_coarse}),
    Variant("operands rounded to bfloat16", {"dot_general": _of_coarse}),
    Variant("sums in bfloat16", {"reduce_sum": _summed(_bfloat16)}),
    Variant("exp of bfloat16", {"exp": _coarse("exp")}),
    Variant("tanh of bfloat16", {"tanh": _coarse("tanh")}),
    Variant("logistic of bfloat16", {"logistic": _coarse("logistic")}),
    *(
        Variant(name, {"convert_element_type": _to_fp8(prepared)})
        for name, prepared in {
            "rounded to bfloat16, then to fp8": _bfloat16,
            "rounded to e5m2": _through_e5m2,
            "rounded to fp8, ties away from zero": _tie_away_from_zero,
            "rounded to fp8 towards zero": _towards_zero,
            "clipped to 240": _up_to_240,
        }.items()
    ),
)

#: Of 7_numerics, where no factor, quotient or integer may be rounded once more than the spec says.
NUMERICS = (
    Variant("elements multiplied, rounded to bfloat16", {"mul": _then(_bfloat16)}),
    Variant("quotients rounded to bfloat16", {"div": _then(_bfloat16)}),
    Variant("ties rounded upwards", {"round": _ties_upwards}),
    Variant("truncated, not rounded", {"round": _truncated}),
)


def largest_error(got: Sequence[Values], reference: Reference, kata: Kata) -> float:
    """The largest error of all results, as a multiple of the tolerance."""
    coarse = coarsest(array.dtype for array in reference.inputs)
    worst = 0.0
    sways = reference.sways or (0.0,) * len(got)
    for actual, expected, declared, sway in zip(
        got, reference.expected, reference.results, sways, strict=True
    ):
        wanted = in_float64(expected)
        behind = Sum(reference.contraction, coarse, sway)
        dtype = declared.dtype
        allowed = tolerance(wanted, dtype, kata.key.roundings, behind)
        rounded = np.asarray(jnp.asarray(actual).astype(dtype)).astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            error = np.abs(rounded - wanted)
            ratio = np.where(
                (rounded == wanted) | (np.isnan(rounded) & np.isnan(wanted)), 0, error / allowed
            )
        ratio = np.where(np.isnan(ratio), np.inf, ratio)
        worst = max(worst, float(ratio.max(initial=0.0)))
    return worst


def primitives(jaxpr: Any) -> set[str]:
    return set(str(jaxpr).replace("[", " ").split())


def errors(kata: Kata, case: Case, variants: Sequence[Variant]) -> dict[str, float]:
    """The largest error of each variant that applies in a case."""
    solution = load_module(kata.solution)
    reference = specs.reference(solution, kata.name, case)
    spec, keywords = specs.spec_of(solution, kata.name, case)
    arrays = []
    for array in reference.inputs:
        value = to_numpy(array)
        arrays.append(
            value.astype(np.float32) if jnp.issubdtype(value.dtype, jnp.floating) else value
        )
    closed = jax.make_jaxpr(lambda *xs: jax.tree.leaves(spec(*xs, **keywords)))(*arrays)
    names = primitives(closed.jaxpr)
    plain = _results(core.jaxpr_as_fun(closed), arrays)
    found = {}
    for variant in variants:
        if variant.by and not names & set(variant.by):
            continue
        changed = core.jaxpr_as_fun(retraced(closed, variant.by)) if variant.by else None
        results = _results(changed, arrays) if changed else plain
        if variant not in (*WRONG, *NUMERICS) or not _equal(results, plain):
            found[variant.name] = largest_error(results, reference, kata)
    return found


def _results(program: Callable[..., Any], arrays: Sequence[Values]) -> list[Values]:
    return [np.asarray(result) for result in jax.jit(program)(*arrays)]


def _equal(some: Sequence[Values], others: Sequence[Values]) -> bool:
    pairs = zip(some, others, strict=True)
    return all(np.array_equal(a, b, equal_nan=a.dtype.kind == "f") for a, b in pairs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="?", default="")
    parser.add_argument("--seeds", default="1,2,3")
    parser.add_argument("--all", action="store_true", help="print each variant")
    asked = parser.parse_args()
    seeds = [int(seed) for seed in asked.seeds.split(",")]
    print(f"{'':32}{'right, at most':>16}  {'wrong, at least':>16}")
    for kata in katas(ROOT, "solutions"):
        if asked.names and kata.name not in asked.names.split(","):
            continue
        if kata.key.kind in (Kind.PREDICTIONS, Kind.TEST):
            continue
        right: dict[str, float] = {}
        wrong: dict[str, float] = {}
        for seed in seeds:
            session: dict[str, float] = {}
            for case in draw(kata.id, kata.key, seed):
                if getattr(case, "production", False):
                    continue
                rounded = case.dtype == "bfloat16" and kata.key.roundings.operands
                for name, error in errors(kata, case, RIGHT + (ROUNDED if rounded else ())).items():
                    right[name] = max(right.get(name, 0.0), error)
                wrongs = WRONG + (NUMERICS if kata.track.startswith("7_") else ())
                for name, error in errors(kata, case, wrongs).items():
                    session[name] = max(session.get(name, 0.0), error)
            for name, error in session.items():
                wrong[name] = min(wrong.get(name, np.inf), error)
        worst, least = (
            max(right.items(), key=lambda p: p[1]),
            min(wrong.items(), key=lambda p: p[1], default=("", np.nan)),
        )
        print(
            f"{kata.name:32}{worst[1]:16.3f}  {least[1]:16.3g}   {worst[0]} | {least[0]}",
            flush=True,
        )
        if asked.all:
            for name, error in [*right.items(), *wrong.items()]:
                print(f"    {name:44}{error:.3g}")


if __name__ == "__main__":
    main()
