"""Evaluates a spec for a case: inputs drawn by dtype, expected results, results of changed inputs.

Shapes and dtypes come from the spec's jaxtyping annotations, values from the case's seed. Expected
results are evaluated in float64, so that the spec's rounding doesn't matter.

For a wrong result, the spec is also evaluated for single blocks of its inputs, and for inputs that
are changed in other ways. Each change is a hypothesis about the cause: a diagnosis names it only if
its result is the learner's, in all elements.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import linecache
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FunctionType, ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core

from grader.exercise.arithmetic import arithmetic_names, evaluate
from grader.exercise.drawn_inputs import (
    drawn,
    drawn_or_abstract,
    is_abstract,
    is_large,
    outcomes_of,
)
from grader.verdict import Case
from pallascope.checks.expected_results import as_float64, reference_function
from pallascope.kernels import longest_sum
from pallascope.kernels.evaluator import bind, retraced
from pallascope.kernels.source_lines import line_of
from pallascope.model import (
    Array,
    ArrayType,
    Hypothesis,
    KernelCall,
    Operand,
    Outcomes,
    Reference,
    Role,
    Share,
)
from pallascope.tools.arrays import dtype_of, from_numpy, similar


@contextlib.contextmanager
def spec_disabled(module: ModuleType, name: str, error: Exception) -> Iterator[None]:
    """Make `NAME_spec` of a kata's module raise `error`, also if it is called by another name.

    The function object gets other code, so that an alias, a partial and jax.jit of it raise too.
    The trace shows calls of earlier copies of its code (`Trace.from_spec`).
    """
    spec = getattr(module, f"{name}_spec", None)
    if not isinstance(spec, FunctionType) or spec.__closure__:
        yield
        return
    original = spec.__code__
    spec.__code__ = _raising_code(error, original)
    try:
        yield
    finally:
        spec.__code__ = original


def _raising_code(error: Exception, original: CodeType) -> CodeType:
    """Code that takes anything and raises `error`, independent of its globals and builtins."""

    def refused(*_: object, **__: object) -> None:
        raise "the error"  # type: ignore[misc]  # noqa: B016

    code = refused.__code__
    constants = tuple(error if constant == "the error" else constant for constant in code.co_consts)
    return code.replace(co_consts=constants, co_name=original.co_name)


class SpecProblem(ValueError):
    """A solution file and its answer key don't fit together. The author has to fix them."""


def reference(solution: ModuleType, name: str, case: Case, evaluated: bool = True) -> Reference:
    """Inputs, keywords and expected results of kata `name` for one case.

    Unless `evaluated`, the reference has no expected results, and large floating inputs have no
    contents. Raises SpecProblem if the file lacks a part, an annotation can't be read, or a name in
    [cases] is neither a dimension nor a keyword of spec or launch.
    """
    spec, launch = _function(solution, f"{name}_spec"), _function(solution, name)
    arrays = _annotated(spec)
    result = typing.get_type_hints(launch, include_extras=True).get("return")
    _require_all_used(case, spec, launch, arrays)
    inputs = _inputs(solution, name, case, arrays, evaluated)
    keywords = _keywords(spec, case)
    # The spec gives both the shapes and the values of the results.
    results = jax.tree.leaves(jax.eval_shape(lambda *xs: spec(*xs, **keywords), *inputs))
    expected, sways = (), ()
    if evaluated:
        expected, sways = reference_function(spec, inputs, keywords)(inputs, case.seed)
    chances = getattr(solution, f"{name}_outcomes", None) if evaluated else None
    shapes = [result.shape for result in results]
    return Reference(
        names=tuple(arrays),
        inputs=tuple(map(_as_array, inputs)),
        keywords=_keywords(launch, case),
        expected=expected,
        results=tuple(ArrayType(r.dtype.name, tuple(r.shape)) for r in results),
        annotations=tuple(_annotation_text(part) for part in _result_parts(result)),
        contraction=longest_sum(spec, inputs, keywords),
        sways=sways,
        outcomes=_outcomes(chances, inputs, _keywords(chances, case), shapes) if chances else (),
    )


def drawn_inputs(solution: ModuleType, name: str, case: Case) -> list[Any]:
    """Only the inputs, all with contents. Raises SpecProblem."""
    return _inputs(solution, name, case, _annotated(_function(solution, f"{name}_spec")), True)


def _outcomes(
    chances: Callable[..., Any],
    inputs: list[Any],
    keywords: dict[str, int],
    shapes: list[tuple[int, ...]],
) -> tuple[Outcomes | None, ...]:
    try:
        return outcomes_of(chances, inputs, keywords, shapes)
    except ValueError as error:
        raise SpecProblem(f"{chances.__name__}: {error}") from None


def spec_of(
    solution: ModuleType, name: str, case: Case
) -> tuple[Callable[..., Any], dict[str, int]]:
    """The spec of kata `name`, and the keywords that it takes in a case. Raises SpecProblem."""
    spec = _function(solution, f"{name}_spec")
    return spec, _keywords(spec, case)


def block_shares(
    spec: Callable[..., Any],
    inputs: list[np.ndarray[Any, Any]],
    keywords: dict[str, int],
    calls: Sequence[KernelCall],
) -> tuple[Share, ...]:
    """The spec's results for only the first and only the last block of each blocked input.

    A kernel that forgets its earlier sums, or stops too early, returns these.
    """
    if len(calls) != 1:
        return ()
    names = list(inspect.signature(spec).parameters)
    wanted = {name: size for name, size in keywords.items() if name in names}
    compiled = jax.jit(functools.partial(spec, **wanted))  # as a whole, it is compiled sooner
    found = []
    for position, operand in _passed_on(inputs, calls[0]):
        for axis, block in enumerate(operand.block):
            size = operand.array.shape[axis]
            if not block or block >= size:
                continue
            for which, part in (("first", slice(0, block)), ("last", slice(size - block, size))):
                masked = np.zeros_like(inputs[position])
                index = (slice(None),) * axis + (part,)
                masked[index] = inputs[position][index]
                results = compiled(*inputs[:position], masked, *inputs[position + 1 :])
                leaves = tuple(map(from_numpy, jax.tree.leaves(results)))
                found.append(Share(operand.name, axis, which, leaves))
    return tuple(found)


def _passed_on(
    inputs: list[np.ndarray[Any, Any]], call: KernelCall
) -> Iterator[tuple[int, Operand]]:
    """The spec's inputs that reach the kernel unchanged, in their order, except tables."""
    remaining = list(enumerate(inputs))
    for operand in call.role(Role.INPUT):
        for number, (position, array) in enumerate(remaining):
            if operand.array == ArrayType(array.dtype.name, array.shape):
                yield position, operand
                del remaining[: number + 1]
                break


# ---- hypotheses about a wrong result: the spec's results for changed inputs ----

Values = np.ndarray[Any, Any]
#: A change in words, and the new contents of inputs by position.
Change = tuple[str, Mapping[int, Values]]

#: The most hypotheses of a result, and the most elements of all inputs: a spec takes milliseconds.
MOST, MOST_ELEMENTS = 64, 1 << 21


@dataclass(frozen=True, slots=True)
class Given:
    """An input of the spec; `operand` is the kernel's Ref for it, if it is passed on."""

    position: int
    name: str
    array: Values
    operand: Operand | None


def exchanged(inputs: Sequence[Given]) -> Iterator[Change]:
    for number, one in enumerate(inputs):
        for other in inputs[number + 1 :]:
            if (one.array.shape, one.array.dtype) == (other.array.shape, other.array.dtype):
                text = f"{one.name} and {other.name} were exchanged"
                yield text, {one.position: other.array, other.position: one.array}


def transposed(inputs: Sequence[Given]) -> Iterator[Change]:
    for one in inputs:
        if one.array.ndim >= 2 and one.array.shape[-1] == one.array.shape[-2] > 1:
            yield f"{one.name} were transposed", {one.position: one.array.swapaxes(-1, -2)}


def other_blocks(inputs: Sequence[Given]) -> Iterator[Change]:
    """Each grid step gets another block of an input, or of all inputs of one shape."""
    alone = [[one] for one in inputs]
    shapes: dict[Any, list[Given]] = {}
    for one in inputs:
        shapes.setdefault((one.array.shape, one.operand and one.operand.block), []).append(one)
    for group in (*alone, *(group for group in shapes.values() if len(group) > 1)):
        names = " and ".join(one.name for one in group)
        shape = group[0].array.shape
        for axis, block in enumerate(_blocks(group[0])):
            if block < shape[axis] and shape[axis] % block == 0:
                for text, order in _orders(shape[axis] // block):
                    yield (
                        f"{text.format(names)} along dimension {axis}",
                        {one.position: _reordered(one.array, axis, order) for one in group},
                    )


def _blocks(one: Given) -> list[int]:
    """The size of a block along each dimension: 1 if it is squeezed, or for a table's rows."""
    if one.operand and one.operand.block:
        return [size or 1 for size in one.operand.block]
    is_table = np.issubdtype(one.array.dtype, np.integer) and one.array.ndim > 1
    return [1] if is_table else []


def without_a_part(inputs: Sequence[Given]) -> Iterator[Change]:
    """One block along an axis, or a half where there is one, counts alone or not at all."""
    for one in _floating(inputs):
        blocks = _blocks(one) or one.array.shape
        for axis, (size, block) in enumerate(zip(one.array.shape, blocks, strict=True)):
            unit = "block" if block < size else "half"
            block = block if block < size else size // 2
            for which, part in (("first", slice(0, block)), ("last", slice(size - block, size))):
                if not 0 < block < size:
                    continue
                index = (slice(None),) * axis + (part,)
                without, alone = one.array.copy(), np.zeros_like(one.array)
                without[index], alone[index] = 0, one.array[index]
                where = f"the {which} {unit} of {one.name} along dimension {axis}"
                yield f"{where} counted alone", {one.position: alone}
                yield f"{where} didn't count", {one.position: without}


def _orders(count: int) -> Iterator[tuple[str, list[int]]]:
    """Other numbers of blocks than 0 … count - 1, in words."""
    blocks = list(range(count))
    yield "each grid step got block 0 of {}", [0] * count
    yield "each grid step got the next block of {}", [*blocks[1:], 0]
    if count > 2:
        yield "each grid step got the block before of {}", [count - 1, *blocks[:-1]]
        yield "the blocks of {} came in reverse order", blocks[::-1]


def _reordered(array: Values, axis: int, order: Sequence[int]) -> Values:
    """Its blocks along an axis in another order."""
    blocks = np.split(array, len(order), axis)
    return np.concatenate([blocks[number] for number in order], axis)


def constant(inputs: Sequence[Given]) -> Iterator[Change]:
    for one in _floating(inputs):
        for value in (1, 0):
            yield f"{one.name} were {value}", {one.position: np.full_like(one.array, value)}


def rounded(inputs: Sequence[Given]) -> Iterator[Change]:
    for one in inputs:
        if one.array.dtype == np.float32:
            narrow = np.asarray(jnp.asarray(one.array).astype(jnp.bfloat16).astype(jnp.float32))
            yield f"{one.name} were rounded to bfloat16", {one.position: narrow}


def shifted(inputs: Sequence[Given]) -> Iterator[Change]:
    for one in inputs:
        if np.issubdtype(one.array.dtype, np.integer):
            for text, by in (("larger", 1), ("smaller", -1)):
                yield f"{one.name} were {text} by 1", {one.position: one.array + by}


def negated(inputs: Sequence[Given]) -> Iterator[Change]:
    for one in inputs:
        if jnp.issubdtype(one.array.dtype, jnp.signedinteger) or _is_floating(one):
            yield f"{one.name} had the other sign", {one.position: -one.array}


#: Each with the place to look at in a kernel that computes its result.
HYPOTHESES: Mapping[Callable[[Sequence[Given]], Iterator[Change]], str] = {
    exchanged: "Look at the order in which the arrays are passed, in which in_specs are given, and "
    "in which the kernel takes its Refs.",
    transposed: "Look at the dimensions over which a product sums, and at the order of indices.",
    other_blocks: "Look at the index map of that input, at the slice that the kernel takes, and at "
    "masks that hide other blocks.",
    shifted: "Look for a bound that is off by one.",
    constant: "Look for the operation that uses it: is it missing?",
    negated: "Look for a wrong sign.",
    rounded: "Something rounds it first: a cast, or a product at the default precision. Or the "
    "part that a cast leaves over doesn't reach the result.",
    without_a_part: "Look for a sum that is stored where it should be added (+=), that begins "
    "anew, or that begins or ends one step off.",
}


def hypotheses(
    spec: Callable[..., Any],
    inputs: Sequence[Values],
    keywords: Mapping[str, int],
    calls: Sequence[KernelCall],
    outputs: Sequence[Values] = (),
    file: str = "",
) -> tuple[Hypothesis, ...]:
    """The spec's results for changed inputs; those that equal the right ones are left out.

    If none is near the `outputs`, operations of the spec are changed, one at a time, until a result
    is near; `file` is the spec's. None for large inputs, whose spec takes long.
    """
    if sum(array.size for array in inputs) > MOST_ELEMENTS:
        return ()
    names = list(inspect.signature(spec).parameters)
    wanted = {name: size for name, size in keywords.items() if name in names}
    program = functools.partial(spec, **wanted)
    compiled = jax.jit(program)

    def evaluated(function: Callable[..., Any], arrays: Sequence[Values]) -> list[Values]:
        with jax.enable_x64(True):
            return list(map(np.asarray, jax.tree.leaves(function(*map(as_float64, arrays)))))

    right = evaluated(compiled, inputs)
    found: list[Hypothesis] = []

    def is_near(change: str, look: str, results: list[Values]) -> bool:
        """Whether results are like the outputs, and not like the right ones. Notes them."""
        if [one.shape for one in results] != [one.shape for one in right]:
            return False
        pairs = zip(outputs, results, right, strict=False)
        if not all(map(np.array_equal, results, right)):
            found.append(Hypothesis(change, look, tuple(map(from_numpy, results))))
        return any(similar(got, one) and not similar(one, other) for got, one, other in pairs)

    given = list(_given(names, inputs, calls))
    near = False
    for kind, look in HYPOTHESES.items():
        for change, arrays in itertools.islice(kind(given), max(0, MOST - len(found))):
            changed = [arrays.get(number, array) for number, array in enumerate(inputs)]
            near |= is_near(change, look, evaluated(compiled, changed))
    if not near and outputs and not any(map(_holds_nan, outputs)):
        for change, arrays in cut_inputs(given, _named_axes(spec), inputs):
            with contextlib.suppress(Exception):  # the spec may not take such sizes
                if is_near(change, CUT, evaluated(program, arrays)):
                    return tuple(found)
        with jax.enable_x64(True):
            like = list(map(as_float64, inputs))
            traced = jax.make_jaxpr(lambda *xs: jax.tree.leaves(program(*xs)))(*like)
            specs = list(itertools.islice(changed_specs(traced, file), MOST_SPECS))
        for change, look, closed in specs:
            with jax.enable_x64(True):
                changed_spec = jax.jit(core.jaxpr_as_fun(closed))
            if is_near(change, look, evaluated(changed_spec, inputs)):
                break
    return tuple(found)


CUT = (
    "Look for a value that passes from step to step, such as a maximum or a sum: does it begin "
    "anew, is it stored where it should be combined, and does each step happen?"
)


def _named_axes(spec: Callable[..., Any]) -> list[tuple[str, ...]]:
    """The dimensions of the spec's arrays, as their annotations write them."""
    return [tuple(_dimensions(hint)) for hint in _annotated(spec).values()]


def cut_inputs(
    given: Sequence[Given], axes: Sequence[tuple[str, ...]], inputs: Sequence[Values]
) -> Iterator[tuple[str, list[Values]]]:
    """Inputs that end after the first block along a dimension, or begin with the last, all alike.

    Unlike zeros, elements that are cut have no weight in a softmax.
    """
    blocks: dict[str, tuple[int, int, list[str]]] = {}
    for one in given:
        for name, size, block in zip(
            axes[one.position], one.array.shape, _blocks(one), strict=False
        ):
            if name.isidentifier() and block < size:
                _, _, names = blocks.setdefault(name, (size, block, []))
                names.append(one.name)
    for name, (size, block, names) in blocks.items():
        for which, part in (("first", slice(0, block)), ("last", slice(size - block, size))):
            arrays = [
                array[tuple(part if own == name else slice(None) for own in dims)]
                for dims, array in zip(axes, inputs, strict=True)
            ]
            which = f"the {which} {block} of {size} along dimension {name}"
            yield f"{' and '.join(names)} had only {which}", arrays


#: Errors of a result that is near another one, relative to the largest element.
_NEAR = 2.0**-5


def _holds_nan(values: Values) -> bool:
    return bool((values != values).any())


def _given(
    names: Sequence[str], inputs: Sequence[Values], calls: Sequence[KernelCall]
) -> Iterator[Given]:
    """The inputs, except random bits and truth values."""
    operands = list(calls[0].role(Role.INPUT)) if len(calls) == 1 else []
    for position, (name, array) in enumerate(zip(names, inputs, strict=False)):
        kind = ArrayType(array.dtype.name, array.shape)
        operand = next((one for one in operands if one.array == kind), None)
        if operand:
            operands.remove(operand)
        if jnp.issubdtype(array.dtype, jnp.number):
            yield Given(position, operand.name if operand else name, array, operand)


def _floating(inputs: Sequence[Given]) -> list[Given]:
    return list(filter(_is_floating, inputs))


def _is_floating(one: Given) -> bool:
    return bool(jnp.issubdtype(one.array.dtype, jnp.floating))


# ---- the same with a changed operation of the spec ----

#: The most specs that are compiled for a wrong result, at about a tenth of a second each.
MOST_SPECS = 10
#: Comparisons that differ where both sides are equal, and their signs.
_OTHERS = {"lt": "le", "le": "lt", "gt": "ge", "ge": "gt"}
_SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_WITH_NUMBERS = {"mul": "factor", "div": "divisor", "add": "term", "max": "bound", "min": "bound"}
#: Computes the results of a changed operation from its inputs.
Operation = Callable[[core.JaxprEqn, Sequence[Any]], Sequence[Any]]


def changed_specs(
    closed: core.ClosedJaxpr, file: str
) -> Iterator[tuple[str, str, core.ClosedJaxpr]]:
    """Traces of a spec with one changed operation: a comparison's edge, a condition, a number."""
    seen: dict[str, list[core.JaxprEqn]] = {}

    def noted(eqn: core.JaxprEqn, inputs: Sequence[Any]) -> Sequence[Any]:
        seen.setdefault(eqn.primitive.name, []).append(eqn)
        return bind(eqn, inputs)

    names = (*_OTHERS, *_WITH_NUMBERS, "select_n")
    retraced(closed, dict.fromkeys(names, noted))
    for name, eqns in seen.items():
        for number, eqn in enumerate(eqns):
            for change, look, by in _changes(eqn, file):
                yield change, look, retraced(closed, {name: _only(number, by)})


def _only(number: int, by: Operation) -> Operation:
    """Change one operation of a kind, by its number."""
    count = itertools.count()
    return lambda eqn, inputs: (by if next(count) == number else bind)(eqn, inputs)


def _changes(eqn: core.JaxprEqn, file: str) -> Iterator[tuple[str, str, Operation]]:
    name, here = eqn.primitive.name, _quoted(eqn, file)
    first: Any = eqn.invars[0].aval
    if name in _OTHERS and jnp.issubdtype(first.dtype, jnp.integer):
        other = _OTHERS[name]
        change = f"the spec had {_SIGNS[other]} instead of {_SIGNS[name]}{here}"
        look = "Look at the kernel's comparison: it is wrong where both sides are equal."
        yield change, look, lambda _, inputs: [_COMPARED[other](*inputs)]
    if name == "select_n" and first.dtype == bool and len(eqn.invars) == 3:
        look = "Look for that condition in the kernel."
        for which, position in (("true", 2), ("false", 1)):
            change = f"the condition were always {which}{here}"
            yield change, look, lambda _, inputs, position=position: [inputs[position]]
    literals = [n for n, var in enumerate(eqn.invars) if isinstance(var, core.Literal)]
    floating = jnp.issubdtype(first.dtype, jnp.floating)
    if name not in _WITH_NUMBERS or not floating or len(literals) != 1:
        return
    if name == "div" and literals[0] == 0:
        return
    value: Any = eqn.invars[literals[0]]
    number = f"the {_WITH_NUMBERS[name]} {float(value.val):.4g}"
    kept = 1 - literals[0]
    look = "Look for it in the kernel and in the launch."
    yield f"{number} were missing{here}", look, lambda _, inputs: [inputs[kept]]
    if name in ("mul", "div"):
        twice = f"{number} were applied twice{here}"
        yield (
            twice,
            look,
            lambda eqn, inputs: bind(
                eqn, [bind(eqn, inputs)[0] if n == kept else x for n, x in enumerate(inputs)]
            ),
        )


_COMPARED = {"lt": lax.lt, "le": lax.le, "gt": lax.gt, "ge": lax.ge}


def _quoted(eqn: core.JaxprEqn, file: str) -> str:
    """The line of the spec, quoted: " in `mask = key <= query`"; "" if it is unknown."""
    line = line_of(eqn.source_info, file) if file else 0
    text = linecache.getline(file, line).strip() if line else ""
    return f" in `{text}`" if text else ""


def programs_of(
    solution: ModuleType, names: Sequence[str], case: Case
) -> list[tuple[Callable[..., Any], list[jax.ShapeDtypeStruct]]]:
    """Functions of a file, with the shapes and dtypes of their arrays. Raises SpecProblem."""
    programs = []
    for name in names:
        function = _function(solution, name)
        hints = _annotated(function).values()
        keywords = _keywords(function, case)
        program = functools.partial(function, **keywords) if keywords else function
        avals = [jax.ShapeDtypeStruct(_shape(h, case), _dtype(h, case)) for h in hints]
        programs.append((program, avals))
    return programs


def plain_reference(
    solution: ModuleType, name: str, case: Case, results: tuple[ArrayType, ...]
) -> Reference:
    """The keywords for the function of a kata without a spec and arrays. Raises SpecProblem."""
    keywords = _keywords(_function(solution, name), case)
    return Reference((), (), keywords, (), results, tuple(map(str, results)), contraction=0)


def _function(solution: ModuleType, name: str) -> Callable[..., Any]:
    part = getattr(solution, name, None)
    if not callable(part):
        raise SpecProblem(f"the solution defines no function {name}")
    return part


def _annotated(spec: Callable[..., Any]) -> dict[str, Any]:
    """The spec's array parameters: those whose annotation is jaxtyping's, by name."""
    hints = typing.get_type_hints(spec, include_extras=True)
    hints.pop("return", None)
    arrays = {name: hint for name, hint in hints.items() if hasattr(hint, "dim_str")}
    if not arrays:
        raise SpecProblem(f"{spec.__name__} has no parameter annotated with a jaxtyping array")
    return arrays


def _keywords(function: Callable[..., Any], case: Case) -> dict[str, int]:
    parameters = inspect.signature(function).parameters
    return {name: size for name, size in case.sizes.items() if name in parameters}


def _require_all_used(case: Case, spec: Any, launch: Any, arrays: dict[str, Any]) -> None:
    dimensions = {
        n for hint in arrays.values() for token in _dimensions(hint) for n in _names(token)
    }
    used = dimensions | set(_keywords(spec, case)) | set(_keywords(launch, case))
    inputs_name = f"{launch.__name__}_inputs"
    for name in case.sizes:
        if name not in used and not hasattr(inspect.getmodule(spec), inputs_name):
            raise SpecProblem(
                f"[cases] names {name!r}, which is neither a dimension of {spec.__name__}'s "
                f"arrays nor a keyword of it or of {launch.__name__}"
            )


def _dimensions(hint: Any) -> list[str]:
    return hint.dim_str.split()


def _names(token: str) -> frozenset[str]:
    try:
        return arithmetic_names(token)
    except ValueError:
        raise SpecProblem(f"cannot draw an array with a dimension written {token!r}") from None


def _shape(hint: Any, case: Case) -> tuple[int, ...]:
    for name in {n for token in _dimensions(hint) for n in _names(token)} - set(case.sizes):
        raise SpecProblem(f"[cases] lacks the dimension {name!r}")
    return tuple(evaluate(token, case.sizes) for token in _dimensions(hint))


def _dtype(hint: Any, case: Case) -> np.dtype[Any]:
    """The case's dtype if the annotation admits it, else the annotation's dtype."""
    admitted = list(hint.dtypes)
    for wanted in (case.dtype, "float32", "int32", "bool"):
        if wanted in admitted:
            return dtype_of(wanted)
    if len(admitted) == 1 and isinstance(admitted[0], str):
        return dtype_of(admitted[0])
    raise SpecProblem(f"cannot choose a dtype for {_annotation_text(hint)}")


def _inputs(
    solution: ModuleType, name: str, case: Case, arrays: dict[str, Any], evaluated: bool
) -> list[Any]:
    make = getattr(solution, f"{name}_inputs", None)
    if make is None:
        draw = _draw if evaluated else _draw_or_abstract
        return [
            draw(np.random.default_rng([case.seed, i]), _shape(hint, case), _dtype(hint, case))
            for i, hint in enumerate(arrays.values())
        ]
    # Threefry, the default, takes half a second to compile for each new shape; this one, a tenth.
    key = jax.random.key(case.seed, impl="rbg")
    keywords = {"dtype": dtype_of(case.dtype), **_keywords(make, case)}
    made = (drawn if evaluated else drawn_or_abstract)(make, key, **keywords)
    if len(made) != len(arrays):
        raise SpecProblem(f"{name}_inputs returns {len(made)} arrays, the spec takes {len(arrays)}")
    return [array if is_abstract(array) else np.asarray(array) for array in made]


def _draw(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Values that differ from element to element, so that no block equals another."""
    if dtype == np.bool_:
        return rng.random(shape) < 0.5
    if np.issubdtype(dtype, np.integer):
        high = min(np.iinfo(dtype).max, 1000)
        low = max(np.iinfo(dtype).min, -1000)
        return rng.integers(low, high, shape, endpoint=True).astype(dtype)
    return rng.standard_normal(shape, np.float32).astype(dtype)


def _draw_or_abstract(
    rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Any:
    """Values, or only shape and dtype for a large floating array."""
    return (
        jax.ShapeDtypeStruct(shape, dtype) if is_large(shape, dtype) else _draw(rng, shape, dtype)
    )


def _as_array(value: Any) -> Array:
    if is_abstract(value):
        return Array(value.dtype.name, value.shape, b"")
    return from_numpy(value)


def _result_parts(result: Any) -> list[Any]:
    """The annotations of a launch's results: one, or those of the tuple that it returns."""
    return list(typing.get_args(result)) if typing.get_origin(result) is tuple else [result]


def _annotation_text(hint: Any) -> str:
    """An annotation as the kata's file writes it, such as Float[Array, "M N"]."""
    if not hasattr(hint, "dim_str"):
        return str(hint)
    return f'{hint.__name__.split("[")[0]}[Array, "{hint.dim_str}"]'
