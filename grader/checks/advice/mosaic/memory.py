"""Loads, stores, copies, loops and calls that Mosaic does not lower."""

from __future__ import annotations

from grader.checks.advice.mosaic.workaround import Workaround

_NO_ADDRESS = (
    "A value is in vector registers, which have no addresses: only memory, a Ref, can be read or "
    "written at a computed place."
)
_VMEM = (
    "The vector unit reads and writes VMEM by registers of 8 sublanes by 128 lanes; single numbers "
    "belong to the scalar unit, whose memory is SMEM."
)

MEMORY: tuple[Workaround, ...] = (
    Workaround(
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
    Workaround(
        ("dynamic_slice", "dynamic_update_slice"),
        "",
        _NO_ADDRESS,
        "Slice the Ref instead of the value:\n"
        "    x_ref[pl.ds(pl.multiple_of(start, 8), 8), :]\n"
        "The compiler must know that the start is a multiple of 8 (columns: of 128), unless it is "
        "one row. First store a value that the kernel has computed to a scratch Ref.",
    ),
    Workaround(
        ("gather",),
        "",
        "A gather takes its addresses from a vector; loads take theirs from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]\n"
        "or, with ids in a column, let the MXU select the rows:\n"
        "    rows = lax.broadcasted_iota(jnp.int32, (n, n), 1)\n"
        '    jnp.dot((ids == rows).astype(x.dtype), x, precision="highest")',
    ),
    Workaround(
        ("get", "swap"),
        "Cannot do int indexing",
        "With an array of indices, the load would take its addresses from a vector; loads take "
        "them from scalars.",
        "Keep the indices in SMEM (scalar prefetch) and loop over the rows:\n"
        "    o_ref[pl.ds(r, 1), :] = x_ref[pl.ds(ids_ref[r], 1), :]",
    ),
    Workaround(
        ("scan",),
        "extensive",
        f"{_NO_ADDRESS} So a loop can carry values, but it can't step along an array.",
        "Loop over the rows of the Ref, and let each turn load and store:\n"
        "    def step(i, carry):\n"
        "        carry = carry + x_ref[pl.ds(i, 1), :]\n"
        "        o_ref[pl.ds(i, 1), :] = carry\n"
        "        return carry\n"
        "    lax.fori_loop(0, n, step, jnp.zeros((1, x_ref.shape[1]), x_ref.dtype))",
    ),
    Workaround(
        ("scan",),
        r"NotImplementedError: ?$",
        "Mosaic's loops count upwards, one by one.",
        "Count up with lax.fori_loop(0, n, …) and use this index:\n    i = n - 1 - step",
    ),
    Workaround(
        ("pure_callback", "io_callback"),
        "",
        "A kernel runs on the TPU's own core: there is no Python there, and nothing that the host "
        "computes can come back before the kernel has ended. The interpreters run on the host, "
        "which is why they accept it.",
        "Compute with jax.numpy inside the kernel, or before or after the pallas_call. To look at "
        "a value:\n"
        '    pl.debug_print("{}", x)',
    ),
    Workaround(
        ("debug_print",),
        "",
        "A core writes records of a fixed form: 32-bit scalars, or one vector.",
        "For scalars, one {} for each int32 and none for a float32; for a vector, a text that ends "
        "in its {}:\n"
        '    pl.debug_print("step {}", pl.program_id(0))\n'
        '    pl.debug_print("block {}", x)',
    ),
    Workaround(
        ("swap", "masked_swap"),
        "Cannot store scalars to VMEM",
        _VMEM,
        "Keep the dimensions, for an o_ref of shape (1, 1):\n"
        "    o_ref[...] = jnp.sum(x, keepdims=True)\n"
        "or give the output out_specs=pl.BlockSpec(memory_space=pltpu.SMEM). To change one element "
        "of a block, use jnp.where with a mask.",
    ),
    Workaround(
        ("get", "swap"),
        "scalars (from|to) SMEM",
        "SMEM belongs to the scalar unit, which handles one number at a time.",
        "Index a single element:\n    ids_ref[r]\nVectors belong in VMEM.",
    ),
    Workaround(
        ("get", "swap"),
        "only allowed on VMEM and SMEM",
        "A core computes on its own memories, VMEM and SMEM. It reaches HBM only by copies.",
        "First copy to a VMEM scratch Ref (or back from one):\n"
        "    pltpu.sync_copy(x_ref, scratch_ref)\n"
        "or leave memory_space out of the BlockSpec, and the pipeline copies blocks for you.",
    ),
    Workaround(
        ("masked_load", "masked_swap"),
        "",
        "Stores are masked lane by lane, for elements of 32 bits; loads are not.",
        "Load everything, and choose:\n    o_ref[...] = jnp.where(mask, x, other)",
    ),
    Workaround(
        ("dma_start",),
        r"\bbool",
        "Mosaic keeps a bool in memory as an int32, but its copies don't take that into account.",
        "Keep the mask in HBM as int8, and compare after the copy:\n    mask = m_ref[...] != 0",
    ),
    Workaround(
        ("random_split",),
        "",
        "Mosaic draws random bits from a key, but it can't split keys.",
        "Make a key for each use from a seed:\n"
        "    key = jax.random.fold_in(jax.random.key(0), pl.program_id(0))",
    ),
    Workaround(
        ("remat2", "optimization_barrier"),
        "",
        "Inside a kernel nothing is kept for a backward pass, so nothing can be recomputed for it, "
        "and XLA's passes do not look inside.",
        "Leave it out of the kernel.",
    ),
)
