"""How far right kernels stay below the tolerance, and how far wrong ones exceed it.

    python tools/benchmarks/margins.py [NAMES] [--seeds 3] [--all]
    python tools/benchmarks/margins.py [NAMES] --solutions [--seeds 200] [--shapes 2] [--store FILE]

With `--solutions`, each kata's solution is run in the interpreter that grades it, on inputs of one
hidden case of each seed, and its largest error is printed, as a multiple of the tolerance. It exits
with 1 if an error is HALF or more. Compiling takes longest, so a kata has at most `--shapes`
choices of sizes for each dtype: a case with other sizes has its inputs drawn, by its own seed, for
sizes that were compiled before. Races are not looked for, and one core takes all steps: neither
changes the values of a right kernel. Results of katas in FILE are kept, as long as solution and key
are the same; so a run that was ended goes on where it was.

Without it, for each kata with floating results, the spec is evaluated in float32 with the inputs'
rounding, in other orders and other forms that are as good: these must be accepted. And with one
precision mistake at a time, in bfloat16 or on the way to fp8: these must be rejected in at least
one case of each session. What changes no bit of any result, such as fp8 numbers rounded to
bfloat16, is left out. Printed are the largest error of the first and the smallest of the second, as
multiples of the tolerance, so that the first has to stay below 1 and the second above.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))

from grader.exercise.key_tables import MAX_DEVICES, MESH, KataKind  # noqa: E402
from grader.sandbox.worker_environment import environment  # noqa: E402
from grader.verdict import Device  # noqa: E402
from pallascope.model import Mode  # noqa: E402

os.environ.update(environment(Device("cpu", Mode.STRICT), os.environ))
os.environ["NPROC"] = "16"  # threads of XLA: one for each simulated core of each device

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax.extend import core  # noqa: E402

from grader.checks.random_statistics import RandomResult  # noqa: E402
from grader.exercise import specs  # noqa: E402
from grader.exercise.cases import draw  # noqa: E402
from grader.exercise.catalog import Kata, katas  # noqa: E402
from grader.verdict import Case  # noqa: E402
from pallascope.checks.compare import (  # noqa: E402
    ROUNDOFF,
    Sum,
    coarsest,
    tolerance,
)
from pallascope.checks.expected_results import reference_function  # noqa: E402
from pallascope.gpu import gpus as gpu_chips  # noqa: E402
from pallascope.gpu.gpu_interpreter import interpreted  # noqa: E402
from pallascope.gpu.gpus import traced_for  # noqa: E402
from pallascope.kernels import TracedLaunch, for_chip, running  # noqa: E402
from pallascope.kernels.evaluator import Replacement, retraced  # noqa: E402
from pallascope.kernels.serialization import make_ready_for_gpus  # noqa: E402
from pallascope.model import Outcomes, Reference  # noqa: E402
from pallascope.tools.arrays import from_numpy, in_float64, to_numpy  # noqa: E402
from pallascope.tools.files import load_module  # noqa: E402
from pallascope.tpu import chips  # noqa: E402

jax.config.update("jax_num_cpu_devices", MAX_DEVICES)

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
    chances = reference.outcomes or (None,) * len(got)
    for actual, expected, declared, sway, may_be in zip(
        got, reference.expected, reference.results, sways, chances, strict=True
    ):
        rounded = np.asarray(jnp.asarray(actual).astype(declared.dtype))
        if may_be:
            worst = max(worst, error_of_throws(rounded, may_be, kata))
            continue
        wanted = in_float64(expected)
        behind = Sum(reference.contraction, coarse, sway)
        allowed = tolerance(wanted, declared.dtype, kata.key.roundings, behind)
        worst = max(worst, largest_ratio(rounded, wanted, allowed, kata))
    return worst


def error_of_throws(got: Values, may_be: Outcomes, kata: Kata) -> float:
    """The same of a random result: each element is as far off as from the nearer outcome."""
    roundings = 0 if kata.key.random and kata.key.random.exact else kata.key.roundings.results
    throws = RandomResult.of(kata.name, from_numpy(got), may_be, roundings)
    if throws.neither.any():
        return np.inf
    nearer = np.where(throws.is_low, throws.low, throws.high)
    return largest_ratio(got, nearer, np.where(throws.is_low, *throws.allowed), kata)


def largest_ratio(got: Values, wanted: Values, allowed: Values, kata: Kata) -> float:
    """The largest error of an element, as a multiple of what is allowed.

    If the key admits one rounding alone, no kernel can do without it, and a right result may be off
    by all of it. Then this is about the rest, of the error and of what is allowed.
    """
    unit = ROUNDOFF.get(got.dtype.name, 0.0) if kata.key.roundings.results == 1 else 0.0
    got = got.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        forced = np.minimum(unit * np.abs(wanted), allowed)
        ratio = np.maximum(np.abs(got - wanted) - forced, 0) / (allowed - forced)
    ratio = np.where((got == wanted) | (np.isnan(got) & np.isnan(wanted)), 0, ratio)
    return float(np.where(np.isnan(ratio), np.inf, ratio).max(initial=0.0))


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


# ---- solutions ----

#: The largest error of a solution, as a multiple of the tolerance, has to be smaller.
HALF = 0.5

#: Inputs in, results out.
Program = Callable[[Sequence[Values]], Sequence[Values]]
#: A case and its inputs.
Drawn = tuple[Case, list[Values]]


@dataclass(frozen=True, slots=True)
class Margin:
    """The largest error of a solution, as a multiple of the tolerance, and the case that has it."""

    kata: str
    content: str  # a digest of what it was measured for
    error: float
    case: str
    session_seed: int
    cases: int
    seconds: float


def margins(names: Sequence[str], seeds: int, shapes: int, store: Path | None) -> list[Margin]:
    """Those of all katas with floating inputs or results, or of the named ones; as they come."""
    lines = store.read_text().splitlines() if store and store.exists() else ()
    known = {(kept.kata, kept.content): kept for kept in (Margin(**json.loads(x)) for x in lines)}
    found = []
    for kata in katas(ROOT, "solutions"):
        if (names and kata.name not in names) or kata.key.kind in (
            KataKind.PREDICTIONS,
            KataKind.TEST,
        ):
            continue
        text = kata.solution.read_bytes() + kata.key_path.read_bytes()
        content = hashlib.sha256(text + f"{seeds} {shapes}".encode()).hexdigest()[:16]
        margin = known.get((kata.id, content)) or measured(kata, content, seeds, shapes)
        if store and (kata.id, content) not in known:
            with store.open("a") as file:
                file.write(json.dumps(dataclasses.asdict(margin)) + "\n")
        print(f"{margin.error:8.3f}  {margin.cases:4}  {kata.id}  {margin.case}", flush=True)
        found.append(margin)
    return found


def measured(kata: Kata, content: str, seeds: int, shapes: int) -> Margin:
    """The margin of one solution."""
    started = time.perf_counter()
    solution = load_module(kata.solution)
    worst, of, count = 0.0, None, 0
    for group in alike(solution, kata, grouped(kata, seeds, shapes)):
        first = specs.reference(solution, kata.name, group[0][0], evaluated=False)
        dtypes = {array.dtype for array in (*first.inputs, *first.results)}
        if not any(jnp.issubdtype(dtype, jnp.floating) for dtype in dtypes):
            break
        references = referred(solution, kata, first, group)
        with compiled(kata, solution, first) as program:
            for (case, inputs), reference in zip(group, references, strict=True):
                error = largest_error(program(inputs), reference, kata)
                worst, of = max((worst, of), (error, case), key=lambda pair: pair[0])
                count += 1
    seconds = round(time.perf_counter() - started, 1)
    where = (f"{of}, seed {of.seed}", of.session_seed) if of else ("", 0)
    return Margin(kata.id, content, worst, *where, count, seconds)


def grouped(kata: Kata, seeds: int, shapes: int) -> list[list[Case]]:
    """A case of each session, in lists of the same dtype and sizes: `shapes` of these a dtype."""
    groups: dict[str, list[Case]] = {}
    for seed in range(1, seeds + 1):
        session = [case for case in draw(kata.id, kata.key, seed) if not case.production]
        case = session[seed % len(session)]
        firsts = [group[0] for group in groups.values() if group[0].dtype == case.dtype]
        if str(case) not in groups and len(firsts) >= shapes:
            case = dataclasses.replace(case, sizes=firsts[seed % shapes].sizes)
        groups.setdefault(str(case), []).append(case)
    return list(groups.values())


def alike(
    solution: ModuleType, kata: Kata, groups: Sequence[Sequence[Case]]
) -> Iterator[list[Drawn]]:
    """The cases of each group with their inputs; in parts, where shapes depend on what is drawn."""
    for group in groups:
        parts: dict[str, list[Drawn]] = {}
        for case in group:
            inputs = specs.drawn_inputs(solution, kata.name, case)
            parts.setdefault(str([array.shape for array in inputs]), []).append((case, inputs))
        yield from parts.values()


def referred(
    solution: ModuleType, kata: Kata, first: Reference, group: Sequence[Drawn]
) -> Iterator[Reference]:
    """The reference of each case of a group; `first` is that of the first one, not evaluated."""
    case, inputs = group[0]
    spec, keywords = specs.spec_of(solution, kata.name, case)
    evaluate = reference_function(spec, inputs, keywords)
    for case, inputs in group:
        if kata.key.random:
            yield specs.reference(solution, kata.name, case)
            continue
        wanted, sways = evaluate(inputs, case.seed)
        carried = tuple(map(from_numpy, inputs))
        yield dataclasses.replace(first, inputs=carried, expected=wanted, sways=sways)


@contextlib.contextmanager
def compiled(kata: Kata, solution: ModuleType, first: Reference) -> Iterator[Program]:
    """Yields the solution's launch, compiled for inputs like the first."""
    outlines = [jax.ShapeDtypeStruct(a.shape, jnp.dtype(a.dtype)) for a in first.inputs]
    function, keywords = getattr(solution, kata.name), dict[str, object](first.keywords)
    if kata.key.target.name == "gpu":
        make_ready_for_gpus()
        with traced_for(gpu_chips.named(kata.key.target.chips(1, (), "h100")[0])):
            launch = TracedLaunch.of(function, outlines, keywords)
            with interpreted(launch, []) as program:
                yield program
        return
    chip, mesh = (
        chips.named(chips.chips_with_cores(kata.key.cores, (chips.DEFAULT,))[0]),
        kata.key.mesh,
    )
    with for_chip(chip.kind, chip.cores, mesh), running(Mode.STRICT, cores=1) as strict:
        if mesh:
            keywords[MESH] = jax.sharding.get_abstract_mesh()
        launch = TracedLaunch.of(function, outlines, keywords)
        assert not isinstance(strict, bool)
        how = dataclasses.replace(strict, detect_races=False)
        yield launch.compiled([np.zeros(a.shape, a.dtype) for a in outlines], how, mesh)


def tell(found: Sequence[Margin]) -> int:
    """Print the largest errors; the exit code."""
    print(f"\n{'error / tolerance':>18}  cases  kata")
    for margin in sorted(found, key=lambda margin: -margin.error)[:15]:
        print(f"{margin.error:18.3f}  {margin.cases:5}  {margin.kata}  {margin.case}")
    print(f"{statistics.median(margin.error for margin in found):18.3f}         median")
    return int(any(margin.error >= HALF for margin in found))


# ---- the command ----


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="?", default="")
    parser.add_argument("--seeds", type=int, help="so many sessions, from seed 1 on")
    parser.add_argument("--all", action="store_true", help="print each variant")
    parser.add_argument("--solutions", action="store_true")
    parser.add_argument("--shapes", type=int, default=2, help="compiled for each dtype, at most")
    parser.add_argument("--store", type=Path, help="of solutions: what is known, and what is found")
    asked = parser.parse_args()
    names = asked.names.split(",") if asked.names else []
    if asked.solutions:
        return tell(margins(names, asked.seeds or 200, asked.shapes, asked.store))
    print_variants(names, range(1, (asked.seeds or 3) + 1), asked.all)
    return 0


def print_variants(names: Sequence[str], seeds: Sequence[int], each: bool) -> None:
    """Print the largest error of right variants, the smallest of wrong ones, of each kata."""
    print(f"{'':32}{'right, at most':>16}  {'wrong, at least':>16}")
    for kata in katas(ROOT, "solutions"):
        if names and kata.name not in names:
            continue
        if kata.key.kind in (KataKind.PREDICTIONS, KataKind.TEST):
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
        if each:
            for name, error in [*right.items(), *wrong.items()]:
                print(f"    {name:44}{error:.3g}")


if __name__ == "__main__":
    sys.exit(main())
