"""Loads, stores, copies, loops and calls that Mosaic does not lower."""

from __future__ import annotations

from grader.checks.advice.mosaic.refused import Refused

_NO_ADDRESS = (
    "A value lies in vector registers, which have no addresses: a computed place can only be read "
    "or written in memory, that is in a Ref."
)
_VMEM = (
    "The vector unit reads and writes VMEM by registers of 8 sublanes by 128 lanes; single numbers "
    "belong to the scalar unit, whose memory is SMEM."
)

MEMORY: tuple[Refused, ...] = (
    Refused(
        ("scatter", "scatter-add", "scatter-mul", "scatter-max", "scatter-min"),
        "",
        _NO_ADDRESS,
        "Store to a part of the Ref instead of using .at on the value:\n"
        "    o_ref[2:4, :] = new\n"
        "or choose elements:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, x.shape, 0)\n"
        "    x = jnp.where(rows == 5, 0, x)\n"
        "To add up by index (bincount, segment_sum), multiply by a one-hot matrix.",
    ),
    Refused(
        ("dynamic_slice", "dynamic_update_slice"),
        "",
        _NO_ADDRESS,
        "Slice the Ref instead of the value:\n"
        "    x_ref[pl.ds(pl.multiple_of(start, 8), 8), :]\n"
        "The compiler must know that the start is a multiple of 8 (columns: of 128), unless it is "
        "one row. A value that the kernel has computed goes to a scratch Ref first.",
    ),
    Refused(
        ("gather",),
        "",
        "A gather reads from places that a vector holds; loads take their addresses from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]\n"
        "or, with ids in a column, let the MXU pick the rows:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, (n, n), 1)\n"
        '    jnp.dot((ids == rows).astype(x.dtype), x, precision="highest")',
    ),
    Refused(
        ("get", "swap"),
        "Cannot do int indexing",
        "An array of indices would make the load read from places that a vector holds; loads take "
        "their addresses from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]",
    ),
    Refused(
        ("scan",),
        "extensive",
        f"{_NO_ADDRESS} So a loop can carry values along, but not walk along an array.",
        "Loop over the rows of the Ref, and let the step load and store:\n"
        "    def step(i, carry):\n"
        "        carry = carry + x_ref[pl.ds(i, 1), :]\n"
        "        o_ref[pl.ds(i, 1), :] = carry\n"
        "        return carry\n"
        "    lax.fori_loop(0, n, step, jnp.zeros((1, x_ref.shape[1]), x_ref.dtype))",
    ),
    Refused(
        ("scan",),
        r"NotImplementedError: ?$",
        "Mosaic's loops count upwards, one by one.",
        "Count up with lax.fori_loop(0, n, …) and use this index:\n    i = n - 1 - step",
    ),
    Refused(
        ("pure_callback", "io_callback"),
        "",
        "A kernel runs on the TPU's own core: there is no Python there, and nothing that the host "
        "computes can come back before the kernel has ended. The interpreters run on the host, so "
        "they let it pass.",
        "Compute with jax.numpy inside the kernel, or before or after the pallas_call. To look at "
        "a value:\n"
        '    pl.debug_print("{}", x)',
    ),
    Refused(
        ("debug_print",),
        "",
        "A core writes a record of fixed form: 32-bit scalars, or one vector.",
        "With scalars, one {} for each int32 and none for a float32; with a vector, a text that "
        "ends in its {}:\n"
        '    pl.debug_print("step {}", pl.program_id(0))\n'
        '    pl.debug_print("block {}", x)',
    ),
    Refused(
        ("swap", "masked_swap"),
        "Cannot store scalars to VMEM",
        _VMEM,
        "Keep the dimensions, for an o_ref of shape (1, 1):\n"
        "    o_ref[...] = jnp.sum(x, keepdims=True)\n"
        "or give the output out_specs=pl.BlockSpec(memory_space=pltpu.SMEM). One element of a "
        "block is changed by jnp.where with a mask.",
    ),
    Refused(
        ("get", "swap"),
        "scalars (from|to) SMEM",
        "SMEM belongs to the scalar unit, which handles one number at a time.",
        "Index a single element:\n    ids_ref[r]\nVectors belong in VMEM.",
    ),
    Refused(
        ("get", "swap"),
        "only allowed on VMEM and SMEM",
        "A core computes on its own memories, VMEM and SMEM. HBM is reached by copies only.",
        "Copy to a VMEM scratch Ref first (or back from one):\n"
        "    pltpu.sync_copy(x_ref, scratch_ref)\n"
        "or leave memory_space out of the BlockSpec, and the pipeline copies blocks for you.",
    ),
    Refused(
        ("masked_load", "masked_swap"),
        "",
        "Stores are masked lane by lane, for elements of 32 bits; loads are not.",
        "Load all, and choose:\n    o_ref[...] = jnp.where(mask, x, other)",
    ),
    Refused(
        ("dma_start",),
        r"\bbool",
        "Mosaic keeps a bool in memory as an int32, and its copies do not know of that.",
        "Keep the mask in HBM as int8, and compare after the copy:\n    mask = m_ref[...] != 0",
    ),
    Refused(
        ("random_split",),
        "",
        "Mosaic draws random bits from a key, but does not split keys.",
        "Make a key for each use from a seed:\n"
        "    key = jax.random.fold_in(jax.random.key(0), pl.program_id(0))",
    ),
    Refused(
        ("remat2", "optimization_barrier"),
        "",
        "Inside a kernel nothing is kept for a backward pass, so nothing can be computed anew for "
        "it, and XLA's passes do not look inside.",
        "Leave it out of the kernel.",
    ),
)
