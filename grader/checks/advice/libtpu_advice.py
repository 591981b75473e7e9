"""Advice on kernels that Mosaic lowers and libtpu refuses."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pallascope.tpu.libtpu_errors import LibtpuRefusal, LibtpuRefusalKind


@dataclass(frozen=True, slots=True)
class CompilerLimit:
    """What was compiled, in the words of a kernel's author; why it can't be done; what to try."""

    called: str
    why: str
    remedy: str


#: MLIR's name for an operation, and the one that a kernel's author uses.
_CALLED = {
    "load": "a load",
    "vector_load": "a load",
    "strided_load": "a strided load",
    "vector_store": "a store",
    "strided_store": "a strided store",
    "memref_slice": "a slice of a Ref",
    "matmul": "a matmul",
    "shape_cast": "a reshape",
    "reshape": "a reshape",
    "dynamic_gather": "a gather",
    "multi_reduction": "a reduction",
    "reduce": "a reduction",
    "addi": "an addition",
    "addf": "an addition",
    "subi": "a subtraction",
    "subf": "a subtraction",
    "muli": "a multiplication",
    "mulf": "a multiplication",
    "divsi": "a division",
    "divf": "a division",
    "remsi": "a remainder",
    "remf": "a remainder",
    "maxsi": "a maximum",
    "maxui": "a maximum",
    "maximumf": "a maximum",
    "minsi": "a minimum",
    "minui": "a minimum",
    "minimumf": "a minimum",
    "cmpf": "a comparison",
    "cmpi": "a comparison",
    "ctpop": "population_count",
}
_DTYPES = {
    "i1": "bool",
    "i4": "int4",
    "i8": "int8",
    "i16": "int16",
    "i32": "int32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}

IN_32_BITS = (
    "The vector unit adds and compares 32-bit numbers, and few operations work on narrower ones: "
    "small dtypes are for storage and for the matrix unit."
)
_CAST = (
    "Cast after the load and back before the store:\n"
    "    o_ref[...] = f(x_ref[...].astype({wide})).astype(o_ref.dtype)"
)

_OF_MASKS = (
    "Masks have registers of their own, and few operations move elements around in them.",
    "First turn it into int32 numbers, jnp.where(mask, 1, 0), and compare again at the end.",
)

#: By operation, dtypes and message, in this order; the first that matches is given.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"\bfloat16\b",
        "A TPU has no float16: its 16-bit floating-point numbers are bfloat16, with float32's "
        "range and 8 bits of precision.",
        "Use jnp.bfloat16, or float32, for the kernel's arrays.",
    ),
    (
        r"Setting seed with more than 2 values",
        "A core's generator takes one or two numbers as its seed.",
        "Make one number of the block's place, such as i * pl.num_programs(1) + j for block "
        "(i, j), and give it beside the seed: pltpu.prng_seed(seed, number).",
    ),
    (
        r"statically prove that index in dimension",
        "A load from VMEM begins at the edge of a tile of (8, 128), and the compiler must see that "
        "it does while it compiles.",
        "If the start is always a multiple of 128 (or 8), say so:\n"
        "    x_ref[:, pl.ds(pl.multiple_of(start, 128), 128)]\n"
        "If not, load from the tile's edge and shift: pltpu.roll(block, shift, axis).",
    ),
    (
        r"Offsets along tiled dimensions|aligned to til",
        "A copy between HBM and VMEM moves whole tiles of (8, 128): it must begin and end at a "
        "tile's edge.",
        "Copy a part whose start and size are multiples of (8, 128), and take what you need from "
        "it in VMEM. If a start is always a multiple at run time, say so: pl.multiple_of(start, "
        "128).",
    ),
    (
        r"^a matmul of bfloat16\b[\s\S]*Bad (lhs|rhs) type",
        "A higher precision= splits float32 operands into parts of bfloat16 and multiplies these. "
        "Operands that are bfloat16 already have nothing to split: their products are exact in "
        "float32 as it is.",
        "Leave precision= out, and keep the sum in float32: preferred_element_type=jnp.float32. "
        "Without precision=, look for a dtype that the matrix unit of this chip doesn't have.",
    ),
    (
        r"^a matmul\b",
        "The matrix unit of this chip can't multiply these dtypes: bfloat16 works on all chips, "
        "int8 and float8 on some.",
        "Cast both sides, and keep the sum in float32:\n"
        "    jnp.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), "
        "preferred_element_type=jnp.float32)",
    ),
    (
        r"^a gather\b",
        "A gather selects within one register: indices are int32, elements are 32 bits wide, and "
        "along the rows it reaches over 8 of them at most.",
        "Widen the elements to 32 bits; gather by a matmul with a one-hot matrix; or let an index "
        "map choose the block by scalar prefetch.",
    ),
    (
        r"^a reshape\b|shape.cast",
        "Elements stay in their lane: a reshape may split or merge dimensions before the last one, "
        "but not change how elements run along the 128 lanes.",
        "Reshape outside the kernel, or keep the last dimension: (48, 128) to (6, 8, 128) works.",
    ),
    (
        r"^a strided (load|store)\b",
        "A stride can skip rows, not lanes, and only in arrays whose last dimension is 128.",
        "Use pl.ds(start, size, stride=…) on the second-to-last dimension of an array with 128 "
        "columns, or transpose first.",
    ),
    (r"^\w+( \w+)? of bool\b|Invalid relayout.*xi1>", *_OF_MASKS),
    (
        r"\b(int4|int8|int16)\b|vector<i16> and vector<i32>",
        IN_32_BITS,
        _CAST.format(wide="jnp.int32"),
    ),
    (r"\b(float8_\w+|bfloat16)\b", IN_32_BITS, _CAST.format(wide="jnp.float32")),
    (r"\bbool\b", *_OF_MASKS),
)
_FOR_ANYTHING_ELSE = (
    "Compute this part in float32 or int32 on whole tiles of (8, 128), with other operations, or "
    "outside the kernel."
)


def libtpu_advice(failure: LibtpuRefusal) -> CompilerLimit:
    """What is known about a refusal; for an unknown one, what is worth trying."""
    name = failure.operation.partition(".")[2]
    dtypes = dict.fromkeys(re.findall(r"(?<=[x<])[a-z]\w{0,30}(?=[,>])", failure.types))
    known = [_DTYPES[dtype] for dtype in dtypes if dtype in _DTYPES]
    called = _CALLED.get(name, name)
    if called and known:
        called += f" of {known[0]}"
    if failure.kind is LibtpuRefusalKind.UNSUPPORTED:
        text = f"{called} {' '.join(known)} {failure.message}"
        for pattern, why, remedy in _KNOWN:
            if re.search(pattern, text):
                return CompilerLimit(called, why, remedy)
    return CompilerLimit(called, "", _FOR_ANYTHING_ELSE)
