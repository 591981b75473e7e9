"""What Mosaic refuses of any operation, or of the launch around it: dtypes and blocks."""

from __future__ import annotations

from grader.checks.advice.mosaic.refused import Refused

LAUNCHES: tuple[Refused, ...] = (
    Refused(
        (),
        r"\bfloat16",
        "A TPU computes in float32 and bfloat16; it has no float16.",
        "Use bfloat16: as wide, with the range of float32 and fewer digits.",
    ),
    Refused(
        (),
        "complex|VectorElementTypeInterface",
        "Registers hold real numbers of up to 32 bits; there are no complex ones.",
        "Keep real and imaginary parts in two arrays.",
    ),
    Refused(
        (),
        "Not implemented: accuracy",
        "A TPU has one way to compute this function.",
        "Leave accuracy= out.",
    ),
    Refused(
        (),
        "double .2. buffering",
        "The pipeline that pallas_call builds on a TPU keeps one or two copies of each block.",
        "Use pl.Buffered(1) or pl.Buffered(2). pltpu.emit_pipeline, inside a kernel, takes more.",
    ),
    Refused(
        (),
        "must be Elements",
        "A block is placed by counting blocks, or by counting elements, in all its dimensions.",
        "Make every dimension one: (pl.Element(8), pl.Element(256)), and let the index map return "
        "elements.",
    ),
    Refused(
        (),
        "length of dimension semantics",
        "Each grid dimension is either parallel or arbitrary.",
        "Give dimension_semantics one entry for each dimension of the grid.",
    ),
    Refused(
        (),
        r"block shape|[Bb]lock spec|blocks of rank",
        "Registers are 8 sublanes by 128 lanes, and blocks are cut along their edges.",
        "Make the last dimension of a block a multiple of 128 and the one before a multiple of 8, "
        "or each the array's whole dimension.",
    ),
)
