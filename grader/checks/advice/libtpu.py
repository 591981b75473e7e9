"""What the TPU's compiler can't do though Mosaic's lowering took it: why, and what to try."""

from __future__ import annotations

import re
from dataclasses import dataclass

from grader.tpu.libtpu_errors import Failure, Kind


@dataclass(frozen=True, slots=True)
class Limit:
    """What was compiled, as a kernel's author calls it; why it can't be done; what to try."""

    called: str
    why: str
    way: str


#: What MLIR calls otherwise than a kernel's author does.
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

_IN_32_BITS = (
    "The vector unit adds and compares 32-bit numbers, and few operations work on narrower ones: "
    "small dtypes are for storage and for the matrix unit."
)
_CAST = (
    "Cast after the load and back before the store:\n"
    "    o_ref[...] = f(x_ref[...].astype({wide})).astype(o_ref.dtype)"
)

#: By operation, dtypes and message, in this order; the first that matches is given.
_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"\bfloat16\b",
        "A TPU knows no float16: its 16-bit floating-point numbers are bfloat16, with float32's "
        "range and 8 bits of precision.",
        "Use jnp.bfloat16, or float32, for the kernel's arrays.",
    ),
    (
        r"statically prove that index in dimension",
        "A load from VMEM begins at the edge of a tile of (8, 128), and the compiler must see that "
        "while it compiles.",
        "If the start always is a multiple of 128 (or 8), say so:\n"
        "    x_ref[:, pl.ds(pl.multiple_of(start, 128), 128)]\n"
        "If not, load from the tile's edge and shift: pltpu.roll(block, shift, axis).",
    ),
    (
        r"Offsets along tiled dimensions|aligned to til",
        "A copy between HBM and VMEM moves whole tiles of (8, 128): it must begin and end at a "
        "tile's edge.",
        "Copy a part that is a multiple of (8, 128) and begins at one, and take what is needed of "
        "it in VMEM. Where a start is a multiple at run time, say so: pl.multiple_of(start, 128).",
    ),
    (
        r"^a matmul\b",
        "The matrix unit of this chip has no multiplication for these dtypes: bfloat16 works on "
        "all, int8 and float8 on some.",
        "Cast both sides, and let the sum be wide:\n"
        "    jnp.dot(x.astype(jnp.bfloat16), y.astype(jnp.bfloat16), "
        "preferred_element_type=jnp.float32)",
    ),
    (
        r"^a gather\b",
        "A gather picks within one register: indices are int32, as are the elements (or 32 bits "
        "wide), and along the rows it reaches over 8 of them at most.",
        "Widen the elements to 32 bits; gather by a matmul with a one-hot matrix; or let a "
        "scalar-prefetch index map choose which block is brought in.",
    ),
    (
        r"^a reshape\b|shape.cast",
        "Elements stay in their lane: a reshape may split or join dimensions before the last, but "
        "not change how elements run along the 128 lanes.",
        "Reshape outside the kernel, or keep the last dimension: (48, 128) to (6, 8, 128) works.",
    ),
    (
        r"^a strided (load|store)\b",
        "A stride skips rows, not lanes, and only in arrays whose last dimension is 128.",
        "Use pl.ds(start, size, stride=…) on the second-to-last dimension of an array with 128 "
        "columns, or transpose before.",
    ),
    (
        r"\b(int4|int8|int16)\b|vector<i16> and vector<i32>",
        _IN_32_BITS,
        _CAST.format(wide="jnp.int32"),
    ),
    (r"\b(float8_\w+|bfloat16)\b", _IN_32_BITS, _CAST.format(wide="jnp.float32")),
    (
        r"\bbool\b",
        "A mask is held in registers of its own, in which little can be moved around.",
        "Make it numbers first: jnp.where(mask, 1, 0), in int32; and compare again at the end.",
    ),
)
_ANYHOW = (
    "Compute this part in float32 or int32 on whole tiles of (8, 128), in other operations, or "
    "outside the kernel."
)


def advice_for(failure: Failure) -> Limit:
    """What is known about a refusal; at least what is worth a try."""
    name = failure.operation.partition(".")[2]
    dtypes = dict.fromkeys(re.findall(r"(?<=[x<])[a-z]\w*(?=[,>])", failure.types))
    known = [_DTYPES[dtype] for dtype in dtypes if dtype in _DTYPES]
    called = _CALLED.get(name, name)
    if called and known:
        called += f" of {known[0]}"
    if failure.kind is Kind.UNSUPPORTED:
        text = f"{called} {' '.join(known)} {failure.message}"
        for pattern, why, way in _KNOWN:
            if re.search(pattern, text):
                return Limit(called, why, way)
    return Limit(called, "", _ANYHOW)
