"""`pallascope.tpu.block_rules` against Mosaic itself, and what it says about single blocks."""

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import jax
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

from pallascope.kernels import TracedLaunch
from pallascope.tpu.block_rules import (
    Block,
    Rule,
    Shape,
    Space,
    Violation,
    block_paragraphs,
    dtype_bits,
    kinds_violations,
    native_tile,
    nearest_legal_blocks,
    refused_blocks,
    violations,
)
from tests.pallascope.support.calls import call, operand

Side = Literal["input", "output"]
IndexMap = Literal["none", "zeros", "moves", "i * 0"]

DETERMINISTIC = settings(derandomize=True, database=None, deadline=None)

TPU = AbstractMesh(
    (),
    (),
    abstract_device=AbstractDevice(device_kind="TPU v5 lite", num_cores=1, platform="tpu"),
)

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (2, 4, 8, 16, 32)]
FLOATS = ["float4_e2m1fn", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32"]
DTYPES = ["bool", *INTEGERS, *FLOATS, "complex64"]

MAIN_SPACES = [None, pltpu.VMEM, pltpu.SMEM, pl.ANY, pltpu.HBM]
EVERY_SPACE = [None, *pl.MemorySpace, *pltpu.MemorySpace, pl.HOST]

SIDES: list[Side] = ["input", "output"]
INDEX_MAPS: list[IndexMap] = ["none", "none", "zeros", "zeros", "moves", "i * 0"]

COMPLAINTS = {
    "only blocks of rank >= 1": {Rule.RANK_0},
    "in memory space ANY only blocks": {Rule.WHOLE, Rule.MOVES},
    "the last two dimensions": {Rule.LANES, Rule.SUBLANES, Rule.SQUEEZED},
    "that rank 1 block shapes": {Rule.RANK_1},
}
"""What the ValueErrors of Mosaic's `_check_block_mappings` say, and our rules for it."""


# ---- Mosaic's own verdict ----


def lower(spec: pl.BlockSpec, array: Shape, dtype: str, side: Side) -> None:
    """Lowers for a TPU a kernel with an empty body and one block of interest, on a grid of 2."""
    ours, plain = jax.ShapeDtypeStruct(array, dtype), jax.ShapeDtypeStruct((8, 128), "float32")
    is_input = side == "input"
    call = pl.pallas_call(
        lambda *refs: None,
        grid=(2,),
        in_specs=[spec if is_input else pl.BlockSpec()],
        out_specs=pl.BlockSpec() if is_input else spec,
        out_shape=plain if is_input else ours,
    )
    with use_abstract_mesh(TPU):
        traced = jax.jit(call).trace(ours if is_input else plain)
        traced.lower(lowering_platforms=("tpu",))


def refused(spec: pl.BlockSpec, array: Shape, dtype: str, side: Side = "input") -> set[Rule]:
    """The rules that Mosaic may mean when it refuses the block; none when it lowers the kernel.

    Any error other than the block check's own is raised.
    """
    try:
        lower(spec, array, dtype, side)
    except ValueError as error:
        complaint, _, details = str(error).partition("Block spec for")
        if not complaint.startswith("The Pallas TPU lowering currently") or not details:
            raise
        (rules,) = (rules for words, rules in COMPLAINTS.items() if words in complaint)
        return rules
    return set()


# ---- What to ask it ----


@dataclass(frozen=True)
class Launch:
    block: Block
    array: Shape
    dtype: str
    memory_space: Any
    index_map: IndexMap
    dimensions: Literal["int", "Blocked", "Element"]

    @property
    def spec(self) -> pl.BlockSpec:
        wrap = {"int": int, "Blocked": pl.Blocked, "Element": pl.Element}[self.dimensions]
        squeezed = None if self.dimensions == "int" else pl.Squeezed()
        block = [squeezed if size is None else wrap(size) for size in self.block]
        rest = (0,) * (len(block) - 1)
        index_map = {
            "none": None,
            "zeros": lambda i: (0,) * len(block),
            "moves": lambda i: (i, *rest),
            "i * 0": lambda i: (*rest, i * 0),
        }[self.index_map]
        return pl.BlockSpec(block, index_map, memory_space=self.memory_space)

    def violations(self) -> tuple[Violation, ...]:
        space, moves = Space.of(self.memory_space), self.index_map in ("moves", "i * 0")
        return violations(self.block, self.array, dtype_bits(self.dtype), space, moves=moves)


def sizes(rank: int, dimension: int) -> list[int]:
    """Multiples of what matters in a dimension, half as many numbers next to them, and others."""
    step = 1024 if rank == 1 else {rank - 1: 128, rank - 2: 8}.get(dimension, 2)
    multiples = [k * step for k in range(1, 7)]
    return [
        *multiples * 4,
        *(size + off for size in multiples for off in (-1, 1)),
        *(1 << k for k in range(12)),
        *[128, 256, 512] * (8 if rank == 1 else 1),
        *(0, 3, 5, 12, 100, 384, 1536),
    ]


@st.composite
def launches(draw: st.DrawFn, rank: int) -> Launch:
    """Blocks that are often legal, and where they are not, often nearly so."""
    array = tuple(draw(st.sampled_from(sizes(rank, i))) for i in range(rank))
    block: list[int | None] = list(array)
    if draw(st.sampled_from(["parts", "parts", "whole"])) == "parts":
        for i in range(rank):
            block[i] = draw(st.sampled_from([*[array[i]] * 20, *sizes(rank, i), *[None] * 10]))
    return Launch(
        tuple(block),
        array,
        dtype=draw(st.sampled_from(DTYPES)),
        memory_space=draw(st.sampled_from(MAIN_SPACES * 3 + EVERY_SPACE)),
        index_map=draw(st.sampled_from(INDEX_MAPS if rank else INDEX_MAPS[:1])),
        dimensions=draw(st.sampled_from(["int", "Blocked", "Element"])),
    )


# ---- The proof ----


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("rank", [1, 2, 3, 4])
def test_a_block_is_legal_if_and_only_if_mosaic_lowers_it(
    rank: int, side: Side, pytestconfig: pytest.Config
) -> None:
    """One of eight parts, so that none runs long. They are the same launches every time: where
    neither the rules nor jax have changed, a part of them is enough."""
    seen = Counter()
    number = 250 if pytestconfig.getoption("every_case", default=False) else 60

    @settings(DETERMINISTIC, max_examples=number)
    @given(launches(rank))
    def agrees(launch: Launch) -> None:
        ours = {violation.rule for violation in launch.violations()}
        mosaics = refused(launch.spec, launch.array, launch.dtype, side)
        assert bool(ours) == bool(mosaics)
        assert ours <= mosaics
        seen.update(["illegal" if ours else "legal", *ours])

    agrees()
    drawn = seen["legal"] + seen["illegal"]
    assert drawn >= number
    assert 0.25 < seen["legal"] / drawn < 0.75
    tiled = [Rule.RANK_1] if rank == 1 else [Rule.LANES, Rule.SUBLANES, Rule.SQUEEZED]
    assert min(seen[rule] for rule in [*tiled, Rule.WHOLE, Rule.MOVES]) >= number // 50


CUTS: dict[str, Any] = {
    "Blocked": pl.Blocked,
    "Element": pl.Element,
    "BoundedSlice": pl.BoundedSlice,
    "Squeezed": lambda _: pl.Squeezed(),
}


@pytest.mark.parametrize("space", [None, pltpu.SMEM, pl.ANY], ids=str)
@pytest.mark.parametrize("whole", [True, False], ids=["whole", "parts"])
@pytest.mark.parametrize("side", SIDES)
def test_kinds_of_dimensions_are_legal_if_and_only_if_mosaic_lowers_them(
    side: Side, whole: bool, space: Any
) -> None:
    """All combinations on two dimensions, of sizes that are legal."""
    verdicts = Counter[bool]()
    for kinds in itertools.product(CUTS, repeat=2):
        cut = zip(kinds, (16, 256), strict=True)
        array = tuple(1 if kind == "Squeezed" else size for kind, size in cut)
        sizes = array if whole else (min(array[0], 8), min(array[1], 128))
        block = [CUTS[kind](size) for kind, size in zip(kinds, sizes, strict=True)]

        def index(i: Any, kinds: Any = kinds, sizes: Any = sizes) -> Any:
            first = 0 if whole else i
            cut = zip(kinds, (first, 0), sizes, strict=True)
            return tuple(pl.ds(n, size) if k == "BoundedSlice" else n for k, n, size in cut)

        spec = pl.BlockSpec(block, index, memory_space=space)
        ours = bool(kinds_violations(kinds, Space.of(space)))
        try:
            mosaics = refused(spec, array, "float32", side)
        except NotImplementedError:
            mosaics = {Rule.KIND}
        if not mosaics or mosaics == {Rule.KIND}:  # else its sizes are what is wrong
            assert ours == bool(mosaics), kinds
            verdicts[ours] += 1
    assert verdicts[False] >= (0 if space is pl.ANY and not whole else 6)
    assert verdicts[True] >= (0 if space is pl.ANY else 8)


def test_kinds_are_told_with_their_rule() -> None:
    """A bounded slice, as it comes out of a trace."""

    def launch(x: jax.Array) -> jax.Array:
        rows = pl.BlockSpec((pl.BoundedSlice(8), 128), lambda i: (pl.ds(i * 8, 8), 0))
        spec = pl.BlockSpec((8, 128), lambda i: (i, 0))
        return pl.pallas_call(
            lambda x_ref, o_ref: None, grid=(2,), in_specs=[rows], out_specs=spec, out_shape=x
        )(x)

    with use_abstract_mesh(TPU):
        traced = TracedLaunch.of(launch, [jax.ShapeDtypeStruct((16, 128), "float32")], {})
        (call,) = traced.trace().calls
    ((operand, broken),) = refused_blocks(call)
    assert (operand.name, [one.rule for one in broken]) == ("x_ref", [Rule.KIND])
    assert ("rule", Rule.KIND.value) in list(block_paragraphs([(operand, broken)]))


@pytest.mark.parametrize(("space", "tried"), [("smem", True), ("vmem", False)])
def test_a_table_in_smem_needs_no_blocks(space: str, tried: bool) -> None:
    table = operand("table_ref", (8, 8), (1, 1), dtype="int32", space=space, moves=True)
    ((refused, broken),) = refused_blocks(call(table))
    said = dict(block_paragraphs([(refused, broken)]))
    assert said["legal"].startswith("nearest: ")
    assert ("pl.BlockSpec(memory_space=pltpu.SMEM)" in said.get("try", "")) == tried


@pytest.mark.parametrize("memory_space", EVERY_SPACE, ids=str)
def test_every_space_has_the_rules_that_mosaic_has_for_it(memory_space: Any) -> None:
    pairs = [
        ((8, 128), (16, 256)),
        ((7, 128), (16, 256)),
        ((16, 100), (16, 256)),
        ((16, 100), (16, 100)),
        ((100,), (100,)),
        ((100,), (200,)),
    ]
    launches = [
        Launch(block, array, "float32", memory_space, index_map, "int")
        for block, array in pairs
        for index_map in ("none", "moves")
    ]
    launches.append(Launch((), (), "float32", memory_space, "none", "int"))
    for launch, side in itertools.product(launches, SIDES):
        mosaics = refused(launch.spec, launch.array, launch.dtype, side)
        assert bool(launch.violations()) == bool(mosaics), (launch, side)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rank_1_is_counted_in_bits_as_mosaic_counts_them(dtype: str) -> None:
    for size in (1, 64, 128, 192, 256, 384, 512, 1024, 1536, 2048, 3072):
        ours = violations((size,), (1 << 20,), dtype_bits(dtype), Space.VMEM)
        assert bool(ours) == bool(refused(pl.BlockSpec((size,)), (1 << 20,), dtype)), size


@pytest.mark.parametrize("size", [7, 8, 16, 20])
@pytest.mark.parametrize("kind", [pl.BoundedSlice, pl.Indirect, pl.Element])
def test_other_dimensions_count_as_their_block_size(kind: Any, size: int) -> None:
    """What the rule lets pass here is refused later, for reasons that are no block rule."""

    def index_map(i: Any) -> tuple[Any, int]:
        return (pl.ds(i, size) if kind is pl.BoundedSlice else i), 0

    spec = pl.BlockSpec((kind(size), 128), index_map)
    if violations((size, 128), (64, 256), 32, Space.VMEM, moves=True):
        assert refused(spec, (64, 256), "float32")
    else:
        with pytest.raises(NotImplementedError, match=r"(?i)block dimension"):
            refused(spec, (64, 256), "float32")


@pytest.mark.parametrize("memory_space", EVERY_SPACE, ids=str)
def test_every_space_of_a_traced_block_has_a_member(memory_space: Any) -> None:
    spec = pl.BlockSpec(memory_space=memory_space)
    call = pl.pallas_call(
        lambda *refs: None, in_specs=[spec], out_shape=jax.ShapeDtypeStruct((8, 128), "float32")
    )
    jaxpr = jax.make_jaxpr(call)(jax.ShapeDtypeStruct((8, 128), "float32"))
    mapping = jaxpr.eqns[0].params["grid_mapping"].block_mappings[0]
    assert Space.of(mapping.block_aval.memory_space) is Space.of(memory_space)


def test_an_error_that_is_no_block_rule_is_not_taken_for_one() -> None:
    with pytest.raises(ValueError, match="same number of dimensions"):
        refused(pl.BlockSpec((8,)), (8, 128), "float32")


# ---- What a violation says ----


@pytest.mark.parametrize(
    ("block", "array", "space", "expected"),
    [
        ((32, 32), (256, 256), Space.VMEM, [(Rule.LANES, 1, (128, 256))]),
        ((8, 200), (64, 1000), Space.VMEM, [(Rule.LANES, 1, (128, 256, 1000))]),
        ((8, 700), (64, 600), Space.VMEM, [(Rule.LANES, 1, (512, 600))]),
        ((12, 128), (100, 256), Space.VMEM, [(Rule.SUBLANES, 0, (8, 16, 100))]),
        ((3, 4), (5, 6), Space.VMEM, [(Rule.SUBLANES, 0, (5,)), (Rule.LANES, 1, (6,))]),
        ((2, 7, 128), (4, 64, 256), Space.SMEM, [(Rule.SUBLANES, 1, (8, 64))]),
        ((None, 128), (4, 256), Space.DEFAULT, [(Rule.SQUEEZED, 0, (4,))]),
        ((8, None), (64, 256), Space.DEFAULT, [(Rule.SQUEEZED, 1, (128, 256))]),
        ((None,), (4096,), Space.DEFAULT, [(Rule.RANK_1, 0, (128, 4096))]),
        ((200,), (5000,), Space.VMEM, [(Rule.RANK_1, 0, (128, 256, 5000))]),
        ((1500,), (5000,), Space.VMEM, [(Rule.RANK_1, 0, (1024, 2048, 5000))]),
        ((), (), Space.VMEM, [(Rule.RANK_0, None, ())]),
        ((), (), Space.ANY, [(Rule.RANK_0, None, ())]),
        ((8, 128), (8, 256), Space.HBM, [(Rule.WHOLE, 1, (256,))]),
        ((None, 8), (2, 9), Space.ANY, [(Rule.WHOLE, 0, (2,)), (Rule.WHOLE, 1, (9,))]),
    ],
)
def test_a_violation_names_the_dimension_and_the_nearest_legal_sizes(
    block: Block, array: Shape, space: Space, expected: list[tuple[Rule, int | None, Shape]]
) -> None:
    assert violations(block, array, 32, space) == tuple(itertools.starmap(Violation, expected))


@pytest.mark.parametrize(
    ("block", "array", "space"),
    [
        ((5, 100), (5, 100), Space.VMEM),
        ((16, 512), (8, 100), Space.VMEM),
        ((None, 3, 8, 128), (4, 9, 64, 256), Space.VMEM),
        ((None, 128), (1, 256), Space.VMEM),
        ((100,), (100,), Space.VMEM),
        ((None, 100), (1, 100), Space.ANY),
        ((), (), Space.SMEM),
        ((3, 5), (6, 7), Space.SEMAPHORE),
        ((0, 0), (8, 128), Space.VMEM),
    ],
)
def test_a_legal_block_violates_nothing(block: Block, array: Shape, space: Space) -> None:
    assert violations(block, array, 32, space) == ()
    assert nearest_legal_blocks(block, array, 32, space) == (block,)


def test_an_index_map_matters_only_where_there_is_no_pipeline() -> None:
    assert violations((8, 128), (8, 128), 32, Space.VMEM, moves=True) == ()
    assert violations((8, 128), (8, 128), 32, Space.ANY) == ()
    moved = violations((8, 128), (8, 128), 32, Space.ANY, moves=True)
    assert moved == (Violation(Rule.MOVES, None, ()),)
    cut = violations((8, 128), (16, 128), 32, Space.HBM, moves=True)
    assert [violation.rule for violation in cut] == [Rule.WHOLE, Rule.MOVES]


def test_rank_1_blocks_may_be_smaller_for_wider_elements() -> None:
    for bits, least in [(32, 128), (16, 256), (8, 512)]:
        assert violations((least,), (4096,), bits, Space.VMEM) == ()
        (violation,) = violations((least // 2,), (4096,), bits, Space.VMEM)
        assert violation.legal == (least, 4096)


def test_a_block_of_another_rank_than_the_array_is_an_error() -> None:
    with pytest.raises(ValueError, match="differ in rank"):
        violations((8, 128), (4, 8, 128), 32, Space.VMEM)


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (Rule.LANES, ["last dimension", "multiple of 128", "whole", "8 sublanes by 128 lanes"]),
        (Rule.SUBLANES, ["second-to-last", "multiple of 8", "whole", "8 sublanes by 128 lanes"]),
        (Rule.SQUEEZED, ["None", "multiple of 8 ", "multiple of 128", "whole", "Squeeze"]),
        (Rule.RANK_1, ["whole", "multiple of 1024", "power of two", "128 * (32 / bits)"]),
        (Rule.RANK_0, ["at least one dimension", "SMEM"]),
        (Rule.WHOLE, ["ANY or HBM", "whole array"]),
        (Rule.MOVES, ["ANY or HBM", "index map", "zeros"]),
    ],
)
def test_a_rule_is_a_sentence_with_its_reason(rule: Rule, words: list[str]) -> None:
    assert not [word for word in words if word not in rule.value]
    assert rule.value.endswith(".")
    assert ": " in rule.value


# ---- What to use instead ----


@DETERMINISTIC
@given(st.integers(0, 4).flatmap(launches))
def test_legal_sizes_are_the_nearest_that_mend_the_dimension(launch: Launch) -> None:
    block, array = list(launch.block), launch.array
    bits, space = dtype_bits(launch.dtype), Space.of(launch.memory_space)

    def breaks(dimension: int, size: int) -> bool:
        other = (*block[:dimension], size, *block[dimension + 1 :])
        return dimension in [v.dimension for v in violations(other, array, bits, space)]

    for violation in violations(launch.block, array, bits, space):
        if (dimension := violation.dimension) is None:
            continue
        size, whole = block[dimension] or 1, array[dimension]
        inside = [n for n in range(1, whole) if not breaks(dimension, n)]
        nearest = {*[n for n in inside if n < size][-1:], *[n for n in inside if n > size][:1]}
        assert violation.legal == tuple(sorted(nearest | {whole}))


@settings(DETERMINISTIC, max_examples=500)
@given(st.integers(0, 4).flatmap(launches))
def test_nearest_legal_blocks_are_legal(launch: Launch) -> None:
    block, array = launch.block, launch.array
    bits, space = dtype_bits(launch.dtype), Space.of(launch.memory_space)
    broken = {violation.dimension for violation in violations(block, array, bits, space)}
    found = nearest_legal_blocks(block, array, bits, space)
    assert len(set(found)) == len(found) <= 3
    assert found or broken == {None}
    for other in found:
        assert violations(other, array, bits, space) == ()
        assert {i for i in range(len(block)) if other[i] != block[i]} == broken


@pytest.mark.parametrize(
    ("block", "array", "expected"),
    [
        ((32, 32), (256, 256), ((32, 128), (32, 256))),
        ((None, 16, None), (4, 64, 256), ((None, 16, 128), (None, 16, 256))),
        # 240 splits 1920 evenly, and so does 128; 256 is nearer, but leaves a ragged edge.
        ((8, 240), (8, 1920), ((8, 128), (8, 256), (8, 1920))),
        # No even split is near, and the whole dimension would fill VMEM.
        ((8, 100), (8, 100_000), ((8, 128), (8, 100_000))),
        ((100, 100), (1000, 1000), ((104, 128), (96, 128), (104, 1000))),
        ((), (), ()),
    ],
)
def test_nearest_legal_blocks_come_best_first(
    block: Block, array: Shape, expected: tuple[Block, ...]
) -> None:
    assert nearest_legal_blocks(block, array, 32, Space.VMEM) == expected


# ---- Elements and tiles ----


def test_dtype_bits_counts_what_mosaic_stores() -> None:
    names = ["float32", "bfloat16", "int8", "uint4", "float8_e4m3fn", "bool"]
    assert [dtype_bits(name) for name in names] == [32, 16, 8, 4, 8, 32]
    with pytest.raises(ValueError, match="key<fry>"):
        dtype_bits("key<fry>")


def test_native_tile_packs_narrow_elements_along_the_sublanes() -> None:
    assert [native_tile(bits) for bits in (32, 16, 8, 4)] == [
        (8, 128),
        (16, 128),
        (32, 128),
        (64, 128),
    ]
    with pytest.raises(ValueError, match="64 bits"):
        native_tile(64)


def test_a_space_unknown_here_is_an_error() -> None:
    with pytest.raises(ValueError, match="nowhere"):
        Space.of("nowhere")
