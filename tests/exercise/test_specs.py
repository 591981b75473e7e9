"""From a solution file and a case to inputs and what must come back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Float, Int32

from grader.exercise.drawn_inputs import LARGE
from grader.exercise.specs import SpecProblem, block_shares, hypotheses, reference
from grader.verdict import Case
from pallascope.model import ArrayType, Reference, Role
from pallascope.tools.arrays import in_float64, to_numpy
from tests.pallascope.support.calls import call, operand

HEAD = """import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Float32, Int, Int32, Num, UInt8
"""
LAUNCH = """
def double(x: Float[Array, "M N"], *, bm: int = 8) -> Float[Array, "M N"]:
    return double_spec(x)
"""
SPEC = """
def double_spec(x: Float[Array, "M N"]) -> Float[Array, "M N"]:
    return x * 2
"""

Load = Callable[[str], ModuleType]


@pytest.fixture(autouse=True, scope="module")
def cpu() -> None:
    jax.config.update("jax_platforms", "cpu")


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """A module of this text."""
    numbers = count()

    def made(text: str) -> ModuleType:
        module = ModuleType(f"solution_{next(numbers)}")
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(HEAD + text, module.__dict__)
        return module

    return made


SIZES = {"M": 16, "N": 128, "bm": 8}


def case(sizes: dict[str, int], dtype: str = "float32", seed: int = 5) -> Case:
    return Case("1_first/kata_01_double", 0, 1, seed, sizes, dtype)


def of(module: ModuleType, drawn: Case | None = None) -> Reference:
    return reference(module, "double", drawn or case(SIZES))


def spec_of(arguments: str, body: str = "x * 2", returns: str = 'Float[Array, "M N"]') -> str:
    return f"def double_spec({arguments}) -> {returns}:\n    return {body}\n"


# ---- inputs ----


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_an_open_annotation_follows_the_case(load: Load, dtype: str) -> None:
    found = of(load(SPEC + LAUNCH), case(SIZES, dtype))
    assert found.names == ("x",)
    assert (found.inputs[0].dtype, found.inputs[0].shape) == (dtype, (16, 128))
    assert found.results == (ArrayType(dtype, (16, 128)),)
    assert found.annotations == ('Float[Array, "M N"]',)
    assert found.keywords == {"bm": 8}


@pytest.mark.parametrize(
    ("annotation", "dtype"),
    [
        ("Float32", "float32"),
        ("Int32", "int32"),
        ("UInt8", "uint8"),
        ("Int", "int32"),
        ("Bool", "bool"),
        ("Num", "bfloat16"),
    ],
)
def test_a_fixed_annotation_does_not(load: Load, annotation: str, dtype: str) -> None:
    arguments = f'x: Float[Array, "M N"], y: {annotation}[Array, "N"]'
    found = of(load(spec_of(arguments) + LAUNCH), case(SIZES, "bfloat16"))
    assert [array.dtype for array in found.inputs] == ["bfloat16", dtype]
    assert found.inputs[1].shape == (128,)


@pytest.mark.parametrize(
    ("dimensions", "sizes", "shape"),
    [
        ("M N", {"M": 16, "N": 128}, (16, 128)),
        ("N", {"N": 128}, (128,)),
        ("", {}, ()),
        ("M+1 2*N", {"M": 16, "N": 128}, (17, 256)),
        ("4 N//M", {"M": 16, "N": 128}, (4, 8)),
    ],
)
def test_dimensions_may_be_arithmetic(
    load: Load, dimensions: str, sizes: dict[str, int], shape: tuple[int, ...]
) -> None:
    found = of(load(spec_of(f'x: Float[Array, "{dimensions}"]') + LAUNCH), case(sizes))
    assert found.inputs[0].shape == shape


def test_values_differ_between_elements_inputs_and_seeds(load: Load) -> None:
    module = load(spec_of('x: Float[Array, "M N"], y: Float[Array, "M N"]') + LAUNCH)
    x, y = map(to_numpy, of(module).inputs)
    assert np.unique(x).size > 0.99 * x.size
    assert not np.array_equal(x, y)
    assert abs(x.mean()) < 0.1
    assert 0.9 < x.std() < 1.1
    again, _ = map(to_numpy, of(module).inputs)
    assert np.array_equal(x, again)
    other, _ = map(to_numpy, of(module, case(SIZES, seed=6)).inputs)
    assert not np.array_equal(x, other)


@pytest.mark.parametrize(
    ("annotation", "low", "high"),
    [("Int32", -1000, 1000), ("UInt8", 0, 255), ("Bool", 0, 1)],
)
def test_integers_and_bools_use_their_range(
    load: Load, annotation: str, low: int, high: int
) -> None:
    module = load(spec_of(f'x: {annotation}[Array, "M N"]') + LAUNCH)
    values = to_numpy(of(module, case({**SIZES, "M": 64, "N": 512})).inputs[0]).astype(int)
    assert (values.min(), values.max()) == (low, high)


INPUTS = """
def double_inputs(key, *, M, dtype):
    assert jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    x = jax.random.normal(key, (M, 4)).astype(dtype)
    return x, jnp.arange(M, dtype=jnp.int32)
"""


def test_a_file_may_make_its_own_inputs(load: Load) -> None:
    """Then a name that only they take may stand in [cases]; they get what they ask for."""
    arguments = 'x: Float[Array, "M N"], y: Int32[Array, "M"]'
    module = load(spec_of(arguments) + LAUNCH + INPUTS)
    made = {"M": 16, "N": 4, "G": 3}
    found = of(module, case(made, "bfloat16"))
    assert [str(array) for array in found.inputs] == ["bfloat16[16, 4]", "int32[16]"]
    assert to_numpy(found.inputs[1]).tolist() == list(range(16))
    other = of(module, case(made, "bfloat16", seed=6))
    assert other.inputs[0] != found.inputs[0]


def test_large_floating_inputs_that_nobody_evaluates_are_outlines(load: Load) -> None:
    module = load(SPEC + LAUNCH)
    for columns, large in ((4, False), (LARGE, True)):
        (x,) = reference(module, "double", case({"M": 16, "N": columns}), evaluated=False).inputs
        assert (x.dtype, x.shape) == ("float32", (16, columns))
        assert (x.data == b"") is large


# ---- what must come back ----


def test_expected_values_are_computed_in_float64(load: Load) -> None:
    text = spec_of('x: Float[Array, "M N"]', "jnp.sum(x, 1)", 'Float[Array, "M"]') + LAUNCH
    found = of(load(text), case({**SIZES, "N": 1024}, "bfloat16"))
    assert found.expected[0].dtype == "float64"
    exact = in_float64(found.inputs[0]).sum(1)
    assert np.allclose(in_float64(found.expected[0]), exact, rtol=1e-13, atol=1e-12)
    assert found.results == (ArrayType("bfloat16", (16,)),)
    assert found.contraction == 1024
    assert not jax.config.read("jax_enable_x64")


def test_integers_are_not_widened(load: Load) -> None:
    text = spec_of('x: Int32[Array, "M N"]', "x // 2", 'Int32[Array, "M N"]') + LAUNCH
    found = of(load(text))
    assert found.expected[0].dtype == "int32"
    assert np.array_equal(to_numpy(found.expected[0]), to_numpy(found.inputs[0]) // 2)


def test_spec_and_launch_each_get_their_keywords(load: Load) -> None:
    spec = spec_of('x: Float[Array, "M N"], *, shift: int', "x + shift")
    launch = LAUNCH.replace("*, bm", "*, shift: int, bm")
    found = of(load(spec + launch), case({**SIZES, "shift": 3}))
    assert found.keywords == {"bm": 8, "shift": 3}
    assert np.allclose(in_float64(found.expected[0]), in_float64(found.inputs[0]) + 3)


def test_several_results_have_their_annotations(load: Load) -> None:
    results = 'tuple[Float[Array, "M"], Float32[Array, "N"]]'
    spec = spec_of('x: Float[Array, "M N"]', "(x[:, 0], x[0].astype(jnp.float32))", results)
    launch = f'def double(x: Float[Array, "M N"]) -> {results}:\n    ...\n'
    found = of(load(spec + launch), case({"M": 16, "N": 128}, "bfloat16"))
    assert found.annotations == ('Float[Array, "M"]', 'Float32[Array, "N"]')
    assert found.results == (ArrayType("bfloat16", (16,)), ArrayType("float32", (128,)))
    assert len(found.expected) == 2


# ---- what does not fit together ----


@pytest.mark.parametrize(
    ("text", "sizes", "says"),
    [
        (LAUNCH, {}, "no function double_spec"),
        (SPEC, {}, "no function double"),
        (SPEC.replace("def double_spec", "double_spec = 3\ndef other") + LAUNCH, {}, "double_spec"),
        (spec_of("x: int", returns="int") + LAUNCH, {}, "no parameter annotated"),
        (SPEC + LAUNCH, {"K": 3}, "[cases] names 'K', which is neither a dimension"),
        (SPEC.replace("M N", "M N Q") + LAUNCH, {}, "[cases] lacks the dimension 'Q'"),
        (SPEC.replace("M N", "...") + LAUNCH, {}, "a dimension written '...'"),
        (SPEC.replace("M N", "*batch N") + LAUNCH, {}, "a dimension written '*batch'"),
        (
            SPEC.replace("Float[", "Complex[") + LAUNCH,
            {},
            'cannot choose a dtype for Complex[Array, "M N"]',
        ),
        (
            SPEC + LAUNCH + "def double_inputs(key, *, dtype):\n    return key, key\n",
            {},
            "double_inputs returns 2 arrays, the spec takes 1",
        ),
    ],
    ids=[
        "no-spec",
        "no-launch",
        "spec-is-no-function",
        "no-arrays",
        "unused-name",
        "missing-dimension",
        "ellipsis",
        "variadic",
        "dtype",
        "inputs",
    ],
)
def test_problems_name_the_part_at_fault(
    load: Load, text: str, sizes: dict[str, int], says: str
) -> None:
    module = load("from jaxtyping import Complex\n" + text)
    with pytest.raises(SpecProblem) as raised:
        of(module, case({**SIZES, **sizes}))
    assert says in str(raised.value)


# ---- shares ----

INTS = np.arange(1, 13, dtype=np.float32).reshape(2, 6)


def total(x: Any, *, factor: int = 1) -> Any:
    return x.sum(1) * factor


def test_shares_are_what_one_block_contributes() -> None:
    held = call(operand("x_ref", (2, 6), (2, 2)))
    first, last = block_shares(total, [INTS], {"bm": 8, "factor": 10}, (held,))
    assert [(s.name, s.axis, s.which) for s in (first, last)] == [
        ("x_ref", 1, "first"),
        ("x_ref", 1, "last"),
    ]
    assert to_numpy(first.results[0]).tolist() == [30, 150]
    assert to_numpy(last.results[0]).tolist() == [110, 230]


def test_each_blocked_axis_of_each_input_has_its_shares() -> None:
    held = call(operand("a_ref", (2, 6), (1, 3)), operand("b_ref", (6, 2), (6, 2)))
    found = block_shares(lambda a, b: a @ b, [INTS, INTS.T], {}, (held,))
    assert {(s.name, s.axis) for s in found} == {("a_ref", 0), ("a_ref", 1)}
    by_place = {(s.axis, s.which): to_numpy(s.results[0]) for s in found}
    kept = INTS.copy()
    kept[:, :3] = 0
    assert np.array_equal(by_place[1, "last"], kept @ INTS.T)


def test_shares_are_of_the_inputs_that_a_kernel_was_given() -> None:
    """A table may come first, and the kernel be given another one of the same shape."""
    table = np.array([2, 1], np.int32)
    tables = operand("table_ref", (2,), role=Role.PREFETCH, dtype="int32")
    made = operand("made_ref", (6, 2), (3, 2))
    held = call(tables, made, operand("a_ref", (2, 6), (1, 6)))
    first, last = block_shares(lambda table, a: a * table[0], [table, INTS], {}, (held,))
    assert {s.name for s in (first, last)} == {"a_ref"}
    assert to_numpy(last.results[0]).tolist() == [[0] * 6, (2 * INTS[1]).tolist()]


def test_no_shares_of_whole_squeezed_or_other_arrays() -> None:
    assert block_shares(total, [INTS], {}, (call(operand("x_ref", (2, 6), (2, 6))),)) == ()
    assert block_shares(total, [INTS], {}, (call(operand("x_ref", (2, 6), (None, 6))),)) == ()
    assert block_shares(total, [INTS], {}, (call(operand("x_ref", (6, 2), (2, 2))),)) == ()
    held = call(operand("x_ref", (2, 6), (2, 2)))
    assert block_shares(total, [INTS], {}, (held, held)) == ()
    assert block_shares(total, [INTS], {}, ()) == ()


# ---- hypotheses ----


def changes(spec: Any, inputs: list[Any], *operands: Any) -> dict[str, list[Any]]:
    calls = (call(*operands),) if operands else ()
    return {h.change: to_numpy(h.results[0]).tolist() for h in hypotheses(spec, inputs, {}, calls)}


def test_hypotheses_are_the_spec_of_changed_inputs() -> None:
    a, b = np.array([[1.0, 2], [3, 4]], np.float32), np.array([[5.0, 7], [11, 13]], np.float32)
    found = changes(lambda a, b: a - b, [a, b])
    assert {change: value for change, value in found.items() if " half of " not in change} == {
        "a and b were exchanged": (b - a).tolist(),
        "a were transposed": (a.T - b).tolist(),
        "b were transposed": (a - b.T).tolist(),
        "a were 1": (1 - b).tolist(),
        "a were 0": (-b).tolist(),
        "b were 1": (a - 1).tolist(),
        "b were 0": a.tolist(),
        "a had the other sign": (-a - b).tolist(),
        "b had the other sign": (a + b).tolist(),
    }


def test_hypotheses_about_blocks_name_the_ref() -> None:
    x = np.arange(6, dtype=np.float32)[None]
    found = changes(lambda x: x * 2, [x], operand("x_ref", (1, 6), (1, 2)))
    at = " along dimension 1"
    assert found[f"each grid step got block 0 of x_ref{at}"] == [[0, 2, 0, 2, 0, 2]]
    assert found[f"each grid step got the next block of x_ref{at}"] == [[4, 6, 8, 10, 0, 2]]
    assert found[f"each grid step got the block before of x_ref{at}"] == [[8, 10, 0, 2, 4, 6]]
    assert found[f"the blocks of x_ref{at.replace(' along', ' came in reverse order along')}"] == [
        [8, 10, 4, 6, 0, 2]
    ]


def test_a_part_of_an_input_that_counts_alone_or_not_at_all() -> None:
    """With a block, it is the first or the last; without, a half."""
    x = np.arange(1, 7, dtype=np.float32)[None]
    found = changes(lambda x: x.sum(axis=1), [x], operand("x_ref", (1, 6), (1, 2)))
    assert found["the first block of x_ref along dimension 1 counted alone"] == [3]
    assert found["the first block of x_ref along dimension 1 didn't count"] == [18]
    assert found["the last block of x_ref along dimension 1 counted alone"] == [11]
    assert found["the last block of x_ref along dimension 1 didn't count"] == [10]
    found = changes(lambda x: x.sum(axis=1), [x])
    assert found["the last half of x along dimension 1 counted alone"] == [15]


def test_a_squeezed_dimension_and_a_table_have_blocks_of_one() -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    found = changes(lambda x: x * 2, [x], operand("x_ref", (3, 2), (None, 2)))
    assert found["each grid step got block 0 of x_ref along dimension 0"] == [[0, 2]] * 3
    table = np.array([[1, 2], [3, 4]], np.int32)
    found = changes(lambda table: table + 0.5, [table])
    assert found["each grid step got block 0 of table along dimension 0"] == [[1.5, 2.5]] * 2
    assert found["table had the other sign"] == [[-0.5, -1.5], [-2.5, -3.5]]


def test_hypotheses_about_two_inputs_with_one_index_map() -> None:
    x = np.arange(4, dtype=np.float32)[None]
    both = operand("x_ref", (1, 4), (1, 2)), operand("y_ref", (1, 4), (1, 2))
    found = changes(lambda x, y: x * y, [x, x + 1], *both)
    of_both = "each grid step got block 0 of x_ref and y_ref along dimension 1"
    assert found[of_both] == [[0, 2, 0, 2]]


def test_hypotheses_leave_out_what_changes_nothing() -> None:
    ones, table = np.ones((2, 2), np.float32), np.array([1, 0])
    found = changes(lambda x, table: x[table], [ones, table])
    others = {change for change in found if "table" in change or " half of " in change}
    assert set(found) - others == {"x were 0", "x had the other sign"}
    large = np.zeros((1 << 11, 1 << 11), np.float32)
    assert hypotheses(lambda x: x, [large], {}, ()) == ()


def test_rounding_of_an_input_is_a_hypothesis() -> None:
    x = np.array([1 + 2**-12], np.float32)
    assert changes(lambda x: x, [x])["x were rounded to bfloat16"] == [1]


def scaled_mask(x: Float[Array, "M N"]) -> Any:
    row, column = jnp.arange(4)[:, None], jnp.arange(4)
    return jnp.where(column <= row, x * 0.5 + 1e-3, 0)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda x: np.tril(x * 0.5 + 1e-3, -1), "the spec had < instead of <= in `return jnp.wh"),
        (lambda x: np.tril(x + 1e-3), "the factor 0.5 were missing in `return jnp.where("),
        (lambda x: np.tril(x * 0.25 + 1e-3), "the factor 0.5 were applied twice in `"),
        (lambda x: x * 0.5 + 1e-3, "the condition were always true"),
    ],
)
def test_an_operation_of_the_spec_is_changed_if_that_explains_the_result(
    wrong: Callable[[Any], Any], says: str
) -> None:
    x = 1 + np.arange(16, dtype=np.float32).reshape(4, 4)
    found = hypotheses(scaled_mask, [x], {}, (), [wrong(x)], __file__)
    named = [h.change for h in found if np.allclose(to_numpy(h.results[0]), wrong(x), 1e-6)]
    assert len(named) == 1
    assert named[0].startswith(says)


def test_no_operation_is_changed_if_an_input_explains_the_result() -> None:
    x = 1 + np.arange(16, dtype=np.float32).reshape(4, 4)
    found = hypotheses(
        scaled_mask, [x], {}, (), [np.asarray(scaled_mask(jnp.asarray(x.T)))], __file__
    )
    assert all("spec had" not in one.change for one in found)
    unknown = hypotheses(scaled_mask, [x], {}, (), [np.full_like(x, np.nan)], __file__)
    assert [one.change for one in unknown] == [one.change for one in found]


def softmax_of(k: Float[Array, "S H"], v: Float[Array, "S H"], n: Int32[Array, "G 1"]) -> Any:
    return jax.nn.softmax(k.sum(axis=1)) @ v + n.sum()


def test_inputs_are_cut_along_a_dimension_of_the_spec() -> None:
    """Zeros in place of the other blocks would have weight in a softmax."""
    k, v = np.random.default_rng(0).standard_normal((2, 6, 3)).astype(np.float32)
    n = np.array([[1], [2]], np.int32)
    calls = (call(operand("k_ref", (6, 3), (2, 3)), operand("v_ref", (6, 3), (2, 3))),)
    cut = np.asarray(softmax_of(jnp.asarray(k[4:]), jnp.asarray(v[4:]), jnp.asarray(n)))
    found = hypotheses(softmax_of, [k, v, n], {}, calls, [cut], __file__)
    (named,) = [h for h in found if np.allclose(to_numpy(h.results[0]), cut, 1e-5)]
    assert named.change == "k_ref and v_ref had only the last 2 of 6 along dimension S"
    # The same for a result that has this dimension: it has another shape, and isn't compared.
    assert hypotheses(whole_rows, [k], {}, calls, [k + 1], __file__)


def whole_rows(k: Float[Array, "S H"]) -> Any:
    return k * 2


def test_integers_are_shifted() -> None:
    found = changes(lambda x, n: x * n, [np.ones(2, np.float32), np.array([1, 2])])
    assert found["n were larger by 1"] == [2, 3]
    assert found["n were smaller by 1"] == [0, 1]
