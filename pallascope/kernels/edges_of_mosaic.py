"""Operations that XLA on the CPU and Mosaic compute differently: the table, and Mosaic's results.

XLA on the CPU shifts by 40 bits, divides an integer by zero, converts NaN to an integer and chooses
the first of two equal maxima; Mosaic leaves the result undefined or has another. `DIFFERENCES` has
a row for each operation that Mosaic lowers. In a kernel in the strict interpreter, an operation
with such operands has Mosaic's result, or a wrong one if Mosaic's is undefined. Other runs note
false promises, and operations that make NaN or infinity, with their lines.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend import core

from pallascope.kernels.evaluator import bind
from pallascope.kernels.jax_internals import UnsupportedJax, mlir
from pallascope.kernels.jaxprs import (
    array_struct,
    equations,
    loop_carried,
    loop_constants,
    rewritten,
)


@dataclass(frozen=True, slots=True)
class Difference:
    """How Mosaic's result of an operation differs from that of XLA on the CPU, and for which edge.

    `there` describes Mosaic's result, as libtpu 0.0.42 schedules it for a v5e; "" where there is no
    edge. An `emulated` difference shows in the strict interpreter; the others are harmless.
    """

    edge: str
    there: str = ""
    emulated: bool = False


def _rows(
    names: str, edge: str, there: str = "", *, emulated: bool = False
) -> dict[str, Difference]:
    return dict.fromkeys(names.split(), Difference(edge, there, emulated))


_SHIFTED = "poison in MLIR; the instruction gets the amount as it is"
_LIBTPU_TIES = (
    "libtpu compares row by row (1, 2 and 4 rows apart) or register by register of 128 lanes, "
    "keeps the nearer one, and skips NaN"
)
#: `pl.multiple_of`. The interpreter rounds the index down to the multiple (see `interpreter`).
PROMISE = "multiple_of"
#: For each operation that Mosaic lowers on a TensorCore, by the primitive's name.
DIFFERENCES: Mapping[str, Difference] = MappingProxyType(
    {
        # emulated
        **_rows(
            "shift_left shift_right_arithmetic shift_right_logical",
            "negative amounts, or at least as many bits as the dtype has: 0, or the sign",
            _SHIFTED,
            emulated=True,
        ),
        **_rows(
            "div",
            "integers by 0: -1; a float32 divisor above 2**126",
            "undefined: 1 or -1 in vectors; the divisor's reciprocal is rounded to 0",
            emulated=True,
        ),
        **_rows(
            "rem",
            "integers by 0: the dividend; floats: exact",
            "undefined; x - floor(x / y) * y in float32, with the sign of x",
            emulated=True,
        ),
        **_rows(
            "convert_element_type",
            "floats to integers: saturates, and NaN becomes 0",
            "undefined for NaN and outside of int32 and uint32; narrower integers saturate",
            emulated=True,
        ),
        **_rows("neg", "0.0 becomes -0.0", "0.0 - x, which is 0.0", emulated=True),
        **_rows("argmax argmin", "the first of equals; NaN wins", _LIBTPU_TIES, emulated=True),
        **_rows(
            "gather",
            "indices outside: fill_value, or clamped",
            "fill_value is dropped; any element",
            emulated=True,
        ),
        **_rows(
            "roll",
            "negative amounts that are known only at run time",
            "the amount, as uint32, modulo the size",
            emulated=True,
        ),
        **_rows(
            "select_n",
            "integers other than 0 and 1 that choose: clamped",
            "any integer but 0 chooses the second",
            emulated=True,
        ),
        **_rows(
            "cond",
            "an index below 0: the first branch (lax.switch clamps it in the trace)",
            "the last branch",
            emulated=True,
        ),
        **_rows(
            "scan",
            "a first value that counts by ones: its last value is the start and the length",
            "the length alone",
            emulated=True,
        ),
        **_rows(
            "while",
            "a count that begins above its bound keeps its value",
            "the bound",
            emulated=True,
        ),
        **_rows(
            "top_k approx_top_k",
            "exact",
            "-inf repeats an index, equals as in argmax; approximate ones are refused here",
            emulated=True,
        ),
        **_rows(
            PROMISE,
            "the index as it is",
            "a promise: Mosaic leaves out the code for other indices",
            emulated=True,
        ),
        **_rows(
            "prng_seed prng_random_bits random_bits stochastic_round",
            "zeros, or not supported",
            "the chip's generator: see prng_emulation",
            emulated=True,
        ),
        # other results that a kernel can't hide behind
        **_rows(
            "dot_general conv conv_general_dilated",
            "float32 at the default precision: 24 bits",
            "the matrix unit rounds float32 operands to bfloat16. That is the precision that a "
            "kata asks for, unless its key says full_precision",
        ),
        **_rows(
            "exp exp2 log log1p log2 logistic tanh tan sin cos erf erf_inv pow atan2 rsqrt sqrt "
            "reciprocal nextafter integer_pow square one_minus_square",
            "the last bits",
            "approximations, at most as far off as a result's tolerance; NaN, infinities, 0 and "
            "negative bases are selected as IEEE has them",
        ),
        **_rows(
            "add add_any sub mul reduce_sum",
            "order and contraction of float32 sums; denormals",
            "the last bits; both flush denormals to 0, and integers wrap around in both",
        ),
        **_rows(
            "max min clamp reduce_max reduce_min",
            "NaN; 0.0 and -0.0 count as equal",
            "vmax and vmin, which XLA uses on a TPU too and which keep NaN",
        ),
        **_rows(
            "eq ne lt le gt ge is_finite",
            "NaN",
            "MLIR's ne is ordered, but libtpu emits the partial order's, and NaN differs from NaN",
        ),
        **_rows("abs sign round ceil floor", "-0.0, NaN, halves, INT_MIN", "the same"),
        **_rows("clz population_count mulhi and or xor not", "0, all ones", "the same"),
        **_rows("reduce_and reduce_or", "integers: bit by bit", "Mosaic refuses all but bool"),
        **_rows("reduce_precision", "", ""),
        **_rows(
            "bitcast bitcast_convert_type pack_elementwise unpack_elementwise",
            "other widths: row 2 r holds the low half of row r",
            "the same; bitcast_convert_type is refused for other widths",
        ),
        # refused where the two would differ, or no arithmetic at all
        **_rows(
            "platform_index custom_fusion",
            "the branch for the CPU; the function for XLA",
            "the default; the function for Pallas. The trace worker refuses both",
        ),
        **_rows("pad slice", "negative padding, strides", "Mosaic refuses them"),
        **_rows(
            "broadcast_in_dim broadcast_to concatenate iota reshape split squeeze stack tile "
            "transpose unstack iota_2x32_shape einshape_lo",
            "only moves or counts",
        ),
        **_rows(
            "add_dependency stage stop_gradient reshard has_memory_space",
            "nothing",
            "nothing",
        ),
        **_rows(
            "jit custom_jvp_call custom_vjp_call eval_jaxpr emit_pipeline pipeline_body run_scoped",
            "their bodies, with the rows of this table",
        ),
        **_rows(
            "check debug_callback debug_print trace_value",
            "runs, or raises",
            "dropped, or written to a log: no result depends on it",
        ),
        **_rows("delay", "nothing", "waits, which costs time and has no result"),
        **_rows(
            "get swap masked_load masked_swap empty_ref",
            "indices outside raise an error",
            "undefined, or refused",
        ),
        **_rows(
            "dma_start dma_wait semaphore_read semaphore_signal semaphore_wait "
            "get_barrier_semaphore axis_index program_id num_programs dim_as_value",
            "their order: see dma_hazards, happens_before and race_detection",
        ),
        **_rows(
            "matmul_acc_lhs matmul_pop matmul_push_rhs matmul_lhs_fifo matmul_pop_fifo",
            "not supported by the interpreter",
        ),
        **_rows(
            "random_fold_in random_seed random_unwrap random_wrap prng_join prng_split "
            "threefry2x32",
            "integer arithmetic that wraps around in both",
        ),
    }
)


# ---- Mosaic's results ----

#: In place of an undefined integer: no power of two, no mask, small enough for a loop to end.
_UNDEFINED = 0x5555
#: The reciprocal of a larger float32 is a denormal number, which a TPU rounds to 0.
_LARGEST_DIVISOR = 2.0**126


def _undefined(dtype: Any) -> int | float | bool:
    if jnp.issubdtype(dtype, jnp.integer):
        return _UNDEFINED & int(jnp.iinfo(dtype).max)
    return math.nan if jnp.issubdtype(dtype, jnp.inexact) else True


def _known(defined: jax.Array, result: jax.Array) -> jax.Array:
    return jnp.where(defined, result, jnp.asarray(_undefined(result.dtype), result.dtype))


def _shifted(operation: core.Primitive, x: jax.Array, amount: jax.Array, **params: Any) -> Any:
    bits = jnp.iinfo(x.dtype).bits
    defined = (amount >= 0) & (amount < bits)
    return _known(defined, operation.bind(x, amount, **params))


def _divided(operation: core.Primitive, x: jax.Array, y: jax.Array) -> Any:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return _of_integers(operation, x, y)
    result = operation.bind(x, y)
    return jnp.where(jnp.abs(y) > _LARGEST_DIVISOR, x * jnp.copysign(jnp.zeros_like(y), y), result)


def _of_integers(operation: core.Primitive, x: jax.Array, y: jax.Array) -> jax.Array:
    """XLA divides constants while it compiles, and by 0 it would end the process."""
    return _known(y != 0, operation.bind(x, jnp.where(y == 0, 1, y)))


def _rest(operation: core.Primitive, x: jax.Array, y: jax.Array) -> Any:
    if jnp.issubdtype(x.dtype, jnp.integer):
        return _of_integers(operation, x, y)
    size, other = jnp.abs(x), jnp.abs(y)
    left = size - jnp.floor(size * (1 / other)) * other
    return jnp.copysign(jnp.abs(jnp.where(left == other, 0, left)), x)


def _converted(operation: core.Primitive, x: jax.Array, **params: Any) -> Any:
    result = operation.bind(x, **params)
    info = jnp.iinfo(result.dtype)
    defined = ~jnp.isnan(x)
    if info.bits >= 32:
        whole = jnp.trunc(x.astype(jnp.float32))
        defined &= whole < 2.0 ** (info.bits - (info.min < 0))
        if info.min < 0 or not x.shape:  # libtpu clamps only vectors to 0
            defined &= whole >= float(info.min)
    return _known(defined, result)


def _negated(_operation: core.Primitive, x: jax.Array) -> Any:
    return lax.sub(lax.full_like(x, 0), x)


def _gathered(operation: core.Primitive, x: jax.Array, indices: jax.Array, **params: Any) -> Any:
    fill = _undefined(x.dtype)
    mode = lax.GatherScatterMode.FILL_OR_DROP
    return operation.bind(x, indices, **{**params, "mode": mode, "fill_value": fill})


def _rolled(operation: core.Primitive, x: jax.Array, shift: jax.Array, **params: Any) -> Any:
    size = x.shape[params["axis"]]
    within = lax.rem(shift.astype(jnp.uint32), jnp.uint32(size)).astype(jnp.int32)
    return operation.bind(x, within, **params)


def _selected(operation: core.Primitive, which: jax.Array, *cases: jax.Array) -> Any:
    return operation.bind(which != 0, *cases)


def _position(
    operation: core.Primitive, x: jax.Array, *, axes: Sequence[int], index_dtype: Any
) -> Any:
    """Mosaic's argmax or argmin of x along one axis, equal elements and NaN included."""
    wins = lax.ge if operation.name == "argmax" else lax.le
    worst = jnp.asarray(-jnp.inf if operation.name == "argmax" else jnp.inf, x.dtype)
    (axis,) = axes
    from_last = x.ndim - axis
    x = jnp.moveaxis(x, axis, 0)
    unit = {1: 128, 2: 8}.get(from_last, 1)  # elements of a register along the axis

    def better(one: Any, other: Any) -> Any:
        keeps = wins(one[0], other[0])
        return tuple(jnp.where(keeps, a, b) for a, b in zip(one, other, strict=True))

    missing = ((0, -x.shape[0] % unit, 0), *((0, 0, 0),) * (x.ndim - 1))
    x = lax.pad(x, worst, missing)
    here = lax.broadcasted_iota(jnp.int32, x.shape, 0)
    registers = [(x[n : n + unit], here[n : n + unit]) for n in range(0, len(x), unit)]
    x, here = functools.reduce(better, registers)
    if from_last == 1:
        lane = operation.bind(jnp.where(jnp.isnan(x), worst, x), axes=(0,), index_dtype=jnp.int32)
        here = jnp.take_along_axis(here, lane[None], axis=0)
    elif from_last == 2:
        for distance in (4, 6, 7):
            turned = tuple(jnp.roll(part, -distance, axis=0) for part in (x, here))
            x, here = better((x, here), turned)
    return here[0].astype(index_dtype)


def _branch(_operation: None, index: jax.Array, *, count: int) -> Any:
    return jnp.where((index < 0) | (index >= count), count - 1, index)


def _constant(_operation: None, *, value: int) -> Any:
    return jnp.int32(value)


def _same(_operation: None, value: jax.Array) -> Any:
    return value


def _largest(_operation: core.Primitive, x: jax.Array, *, k: int, axis: int, **_: Any) -> Any:
    """Mosaic's top_k: one largest element after the other, of which -inf remains."""
    index = lax.broadcasted_iota(jnp.int32, x.shape, axis)
    values, places = [], []
    for _turn in range(k):
        place = _position(lax.argmax_p, x, axes=(axis % x.ndim,), index_dtype=jnp.int32)
        values.append(jnp.max(x, axis=axis))
        places.append(place)
        x = jnp.where(index == jnp.expand_dims(place, axis), -jnp.inf, x)
    return jnp.stack(values, axis=axis), jnp.stack(places, axis=axis)


def _approximate(*_: Any, **__: Any) -> Any:
    raise NotImplementedError(
        "a TPU's approx_max_k in a kernel misses elements that the interpreter's finds: use a loop "
        "of jnp.max, or lax.top_k(…, is_stable=False)"
    )


#: Each operation that is replaced, where `_is_safe` doesn't see that its operands are within.
_EMULATED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "shift_left": _shifted,
        "shift_right_arithmetic": _shifted,
        "shift_right_logical": _shifted,
        "div": _divided,
        "rem": _rest,
        "convert_element_type": _converted,
        "neg": _negated,
        "argmax": _position,
        "argmin": _position,
        "gather": _gathered,
        "roll": _rolled,
        "select_n": _selected,
        "top_k": _largest,
        "approx_top_k": _approximate,
    }
)


def _is_safe(eqn: core.JaxprEqn) -> bool:
    """Whether both results are the same, whatever the operands' values are."""
    first, *others = [array_struct(var).dtype for var in eqn.invars]
    literal = getattr(eqn.invars[-1], "val", None)
    match eqn.primitive.name:
        case "shift_left" | "shift_right_arithmetic" | "shift_right_logical":
            return literal is not None and 0 <= literal < jnp.iinfo(first).bits
        case "div":
            return literal is not None and literal != 0 and abs(literal) <= _LARGEST_DIVISOR
        case "rem":
            return not _is_float(eqn.invars[0]) and literal is not None and literal != 0
        case "roll":
            return literal is not None and literal >= 0
        case "convert_element_type":
            to = eqn.params["new_dtype"]
            return not (_is_float(eqn.invars[0]) and jnp.issubdtype(to, jnp.integer))
        case "neg":
            return not _is_float(eqn.invars[0])
        case "select_n":
            return first == jnp.bool_ or len(others) != 2
    return False


def _is_float(var: Any) -> bool:
    return jnp.issubdtype(array_struct(var).dtype, jnp.inexact)


def _evaluated(*args: Any, function: Callable[..., Any], of: Any, params: Any) -> list[Any]:
    return jax.tree.leaves(function(of, *map(jnp.asarray, args), **dict(params)))


@functools.cache
def _as_there() -> core.Primitive:
    """An operation that computes a `function`. The interpreter doesn't look inside."""
    primitive = core.Primitive("as_on_mosaic")
    primitive.multiple_results = True

    def results(*avals: Any, **params: Any) -> list[Any]:
        structs = [jax.ShapeDtypeStruct(aval.shape, aval.dtype) for aval in avals]
        return list(
            map(jax.typeof, jax.eval_shape(functools.partial(_evaluated, **params), *structs))
        )

    primitive.def_abstract_eval(results)
    primitive.def_impl(_evaluated)
    mlir.register_lowering(primitive, mlir.lower_fun(_evaluated, multiple_results=True))
    return primitive


def operations_with_edges(kernel: core.Jaxpr) -> tuple[str, ...]:
    """The operations of a kernel whose edges differ, except those on floats that rarely do."""
    rare = ("div", "neg", "rem")
    found = (eqn for eqn in equations(kernel) if eqn.primitive.name in (*_EMULATED, PROMISE))
    return tuple(
        {
            eqn.primitive.name: None
            for eqn in found
            if not _is_safe(eqn) and not (eqn.primitive.name in rare and _is_float(eqn.invars[0]))
        }
    )


def _replaced(
    eqn: core.JaxprEqn, makers: Mapping[int, core.JaxprEqn], as_xla: Collection[str]
) -> list[core.JaxprEqn]:
    """Equations with Mosaic's results in place of one, unless its operation is one of `as_xla`."""
    name = eqn.primitive.name
    if name in as_xla:
        return [replaced_by(eqn, _same, params={}) if name == PROMISE else eqn]
    if function := _EMULATED.get(name):
        return [eqn if _is_safe(eqn) else replaced_by(eqn, function)]
    match name:
        case "cond" if not _is_in_range(makers.get(id(eqn.invars[0]))):
            return _cond(eqn)
        case "scan" | "while" if eqn.outvars and _is_used(eqn.outvars[0]):
            return _loop(eqn)
        case "custom_jvp_call" | "custom_vjp_call" | "eval_jaxpr":
            return [_called(eqn)]
    return [eqn]


def replaced_by(eqn: core.JaxprEqn, function: Callable[..., Any], **changes: Any) -> core.JaxprEqn:
    """An equation that computes `function` on the line of `eqn`."""
    params = tuple(changes.pop("params", eqn.params).items())
    return eqn.replace(
        primitive=_as_there(),
        params={"function": function, "of": eqn.primitive, "params": params},
        effects=frozenset(),
        **changes,
    )


def _is_in_range(maker: core.JaxprEqn | None) -> bool:
    """Whether an equation that computes a branch's index lets it be no other."""
    return maker is not None and maker.primitive.name in ("convert_element_type", "clamp")


def _cond(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    index, *others = eqn.invars
    within = core.Var(index.aval)
    count = {"count": len(eqn.params["branches"])}
    chosen = replaced_by(eqn, _branch, invars=[index], outvars=[within], params=count)
    return [chosen, eqn.replace(invars=[within, *others])]


def _loop(eqn: core.JaxprEqn) -> list[core.JaxprEqn]:
    count, *others = eqn.outvars
    loop = eqn.replace(outvars=[core.Var(count.aval), *others])
    if eqn.primitive.name == "scan" and _counts_turns(eqn):
        length = {"value": int(eqn.params["length"])}
        return [loop, replaced_by(eqn, _constant, invars=[], outvars=[count], params=length)]
    if eqn.primitive.name == "while" and _counts_to_bound(eqn):
        bound = eqn.invars[eqn.params["cond_nconsts"] + eqn.params["body_nconsts"] + 1]
        return [loop, replaced_by(eqn, _same, invars=[bound], outvars=[count], params={})]
    return [eqn]


def _is_used(var: Any) -> bool:
    return type(var).__name__ != "DropVar"


def _called(eqn: core.JaxprEqn) -> core.JaxprEqn:
    """A call, which the interpreter looks into, in place of a function with its own derivative."""
    from pallascope.kernels.jax_internals import jit_p

    return eqn.replace(primitive=jit_p, params={"jaxpr": eqn.params["call_jaxpr"]})


def _counts_turns(scan: core.JaxprEqn) -> bool:
    from pallascope.kernels.jax_internals import pallas_utils

    counts = loop_constants(scan), loop_carried(scan)
    try:
        return pallas_utils.pattern_match_scan_to_fori_loop(scan.params["jaxpr"].jaxpr, *counts)[1]
    except ValueError:
        return False  # Mosaic refuses it


def _counts_to_bound(loop: core.JaxprEqn) -> bool:
    from pallascope.kernels.jax_internals import pallas_utils

    names = ("cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts")
    found = pallas_utils.pattern_match_while_to_fori_loop(*(loop.params[name] for name in names))
    return found[0] is not None


@contextlib.contextmanager
def edges_of_mosaic(as_xla: Collection[str] = ()) -> Iterator[None]:
    """Let kernels in the strict interpreter have Mosaic's results at the edges of operations.

    The operations `as_xla` keep the results of XLA on the CPU.
    """
    with rewriting(functools.partial(_replaced, as_xla=as_xla)):
        yield


@contextlib.contextmanager
def noting_broken_promises(note: Callable[[int, int, core.JaxprEqn], None]) -> Iterator[None]:
    """Call `note` with each index in a kernel that isn't the multiple that `pl.multiple_of` says.

    It gets the index, the multiple and the equation, in any order. Enter it before `running`, in
    strict mode.
    """

    def noted(_: object, index: jax.Array, values: Sequence[int], eqn: core.JaxprEqn) -> Any:
        if len(values) != 1:  # the promise for an array has a number for each dimension
            return [index]
        rest = lax.rem(index, lax.full_like(index, values[0]))
        broken = functools.partial(_note_broken, note, values[0], eqn)
        jax.debug.callback(broken, index, rest)
        return [index - rest]

    def replacement(eqn: core.JaxprEqn, _: object) -> list[core.JaxprEqn]:
        if eqn.primitive.name != PROMISE:
            return [eqn]
        return [replaced_by(eqn, functools.partial(noted, eqn=eqn))]

    with rewriting(replacement):
        yield


def _note_broken(
    note: Callable[[int, int, core.JaxprEqn], None],
    multiple: int,
    eqn: core.JaxprEqn,
    index: Any,
    rest: Any,
) -> None:
    if rest:
        note(int(index), multiple, eqn)


#: Operations that may make NaN of other numbers, and those that may make infinity.
_MAKE_NAN = (
    *("add", "add_any", "sub", "mul", "div", "rem", "dot_general", "reduce_sum", "cumsum"),
    *("log", "log1p", "sqrt", "rsqrt", "pow", "sin", "cos", "tan", "acos", "asin", "atanh"),
    "convert_element_type",
)
_MAKE_INFINITY = (*_MAKE_NAN, "exp", "exp2", "expm1", "integer_pow", "square", "cumprod")


@contextlib.contextmanager
def noting_nonfinite(
    note: Callable[[str, core.JaxprEqn], None], infinity: bool = False
) -> Iterator[None]:
    """Call `note` with each operation of kernels that makes NaN of operands without any.

    If `infinity`, with each operation that makes infinity of finite operands.
    It gets the operation's name and its equation, in any order, each time that the operation runs.
    Enter it before `running`, in strict mode.
    """

    def noted(_: core.Primitive, *args: Any, eqn: core.JaxprEqn, name: str, **__: Any) -> list[Any]:
        results = bind(eqn, args)
        made = _any_new(jnp.isinf if infinity else jnp.isnan, results[0], args)
        jax.debug.callback(lambda is_true: is_true and note(name, eqn), made)
        return results

    def replacement(eqn: core.JaxprEqn, _: object) -> list[core.JaxprEqn]:
        name = getattr(eqn.params.get("of"), "name", eqn.primitive.name)  # of `replaced_by`
        if name not in (_MAKE_INFINITY if infinity else _MAKE_NAN) or not _is_float(eqn.outvars[0]):
            return [eqn]
        return [replaced_by(eqn, functools.partial(noted, eqn=eqn, name=name))]

    with rewriting(replacement):
        yield


def _any_new(
    kind: Callable[[jax.Array], jax.Array], result: jax.Array, operands: Sequence[jax.Array]
) -> jax.Array:
    """Whether a result holds numbers of a `kind` where its operands are other ones.

    Of an operand in another shape, no element may be of the kind.
    """
    made = kind(result)
    for operand in filter(_is_float, operands):
        given = kind(operand)
        made &= ~(given if operand.shape == result.shape else given.any())
    return made.any()


def define_packing() -> None:
    """Let programs of this process that run on the CPU pack narrow elements into words."""
    from pallascope.kernels.jax_internals import mlir, mosaic_primitives

    for name, function in (("pack_elementwise_p", _packed), ("unpack_elementwise_p", _unpacked)):
        if primitive := getattr(mosaic_primitives, name, None):
            rule = mlir.lower_fun(function, multiple_results=False)
            mlir.register_lowering(primitive, rule, platform="cpu")


def _bits(dtype: Any) -> int:
    info: Any = jnp.finfo if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo
    return int(info(dtype).bits)


def _packed(*parts: jax.Array, packed_dtype: Any) -> jax.Array:
    """Words with an element of each array, the first in the lowest bits."""
    word, bits = jnp.dtype(f"uint{_bits(parts[0].dtype)}"), _bits(packed_dtype)
    total = jnp.zeros(parts[0].shape, word)
    for number, part in enumerate(parts):
        narrow = lax.bitcast_convert_type(part.astype(packed_dtype), jnp.dtype(f"uint{bits}"))
        total |= narrow.astype(word) << (number * bits)
    return total


def _unpacked(words: jax.Array, *, index: int, packed_dtype: Any, unpacked_dtype: Any) -> jax.Array:
    """The elements with this number in each word."""
    bits = _bits(packed_dtype)
    word = lax.bitcast_convert_type(words, jnp.dtype(f"uint{_bits(words.dtype)}"))
    narrow = ((word >> (index * bits)) & ((1 << bits) - 1)).astype(f"uint{bits}")
    return lax.bitcast_convert_type(narrow, packed_dtype).astype(unpacked_dtype)


@contextlib.contextmanager
def rewriting(
    replacement: Callable[[core.JaxprEqn, Mapping[int, core.JaxprEqn]], Sequence[core.JaxprEqn]],
) -> Iterator[None]:
    """Let the strict interpreter run other equations in place of a kernel's, as `rewritten` does.

    Within it, jaxprs inside an equation are rewritten when the interpreter comes to them. If jax
    keeps the replaced function elsewhere, nothing is replaced.
    """
    try:
        from pallascope.kernels.jax_internals import tpu_interpreter

        usual = tpu_interpreter._interpret_jaxpr
    except (UnsupportedJax, AttributeError):
        yield
        return

    def interpreted(jaxpr: core.Jaxpr, *args: Any, **context: Any) -> Any:
        return usual(rewritten(jaxpr, replacement), *args, **context)

    tpu_interpreter._interpret_jaxpr = interpreted
    try:
        yield
    finally:
        tpu_interpreter._interpret_jaxpr = usual
