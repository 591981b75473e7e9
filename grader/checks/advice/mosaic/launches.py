"""What Mosaic refuses whatever the operation is, or in the launch around it: dtypes, blocks."""

from __future__ import annotations

from grader.checks.advice.mosaic.workaround import Workaround

LAUNCHES: tuple[Workaround, ...] = (
    Workaround(
        (),
        "cannot be automatically partitioned",
        "XLA divides among chips what it has made itself. What a kernel does it doesn't know, so "
        "it can't tell which part of which array each chip needs.",
        "Say it: jax.shard_map(function, mesh=mesh, in_specs=…, out_specs=…, check_vma=False) "
        "around the launch. The function then runs on each chip, with its part of each array. The "
        "mesh's axes have to be in it all: leave axis_names out.",
    ),
    Workaround(
        (),
        r"\bfloat16",
        "A TPU computes in float32 and bfloat16; it has no float16.",
        "Use bfloat16: it has the same width, with the range of float32 and fewer digits.",
    ),
    Workaround(
        (),
        "complex|VectorElementTypeInterface",
        "Registers hold real numbers of up to 32 bits; there are no complex ones.",
        "Keep real and imaginary parts in two arrays.",
    ),
    Workaround(
        (),
        "Not implemented: accuracy",
        "A TPU has only one way to compute this function.",
        "Leave accuracy= out.",
    ),
    Workaround(
        (),
        "double .2. buffering",
        "The pipeline that pallas_call builds on a TPU keeps one or two copies of each block.",
        "Use pl.Buffered(1) or pl.Buffered(2). pltpu.emit_pipeline, inside a kernel, takes more.",
    ),
    Workaround(
        (),
        "must be Elements",
        "Along all its dimensions a block is placed by counting blocks, or along all by counting "
        "elements.",
        "Make every dimension a pl.Element, (pl.Element(8), pl.Element(256)), and let the index "
        "map return elements.",
    ),
    Workaround(
        (),
        "length of dimension semantics",
        "Each dimension of the grid is either parallel or arbitrary.",
        "Give dimension_semantics one entry for each dimension of the grid.",
    ),
    Workaround(
        (),
        r"block shape|[Bb]lock spec|blocks of rank",
        "Registers are 8 sublanes by 128 lanes, and blocks must be cut along their edges.",
        "Make the last dimension of a block a multiple of 128 and the one before it a multiple of "
        "8, or make them as large as the array's.",
    ),
)
