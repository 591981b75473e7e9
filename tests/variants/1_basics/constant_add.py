"""Right kernels of constant_add in other styles: see docs/authoring.md."""

# ---- full_like ----

"""Slices with a colon, and adds an array of tens.

Stars: 3
"""

import jax.numpy as jnp


def constant_add_kernel(x_ref, o_ref):
    x = x_ref[:]
    o_ref[:] = jnp.add(x, jnp.full_like(x, 10))


# ---- in_place ----

"""Lets the result take the place of a copy of x: input_output_aliases.

Stars: 2, since the caller keeps x: XLA copies it before the kernel.
"""


def constant_add(x):
    return pl.pallas_call(
        constant_add_kernel,
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        input_output_aliases={0: 0},
    )(x)


# ---- memory_spaces ----

"""Names the memory spaces in the launch, which jax.jit wraps.

Stars: 3
"""

from jax.experimental.pallas import tpu as pltpu


def constant_add(x):
    call = pl.pallas_call(
        constant_add_kernel,
        in_specs=[pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        name="constant_add",
    )
    return jax.jit(call)(x)


# ---- strips ----

"""Adds to one strip of 1024 elements after another, in a loop.

Stars: 3
"""


def constant_add_kernel(x_ref, o_ref):
    def strip(i, _):
        at = pl.ds(i * 1024, 1024)
        o_ref[at] = x_ref[at] + 10

    jax.lax.fori_loop(0, x_ref.shape[0] // 1024, strip, None)


# ---- mesh_over_refs ----

"""Writes to a Ref around the launch, in a core_map over one core.

Stars: 3
"""

import jax.numpy as jnp
from jax.experimental.pallas import tpu as pltpu


def constant_add(x):
    x_ref, o_ref = jax.new_ref(x), jax.new_ref(pl.empty_like(x))

    @pl.core_map(pltpu.create_tensorcore_mesh("core", num_cores=1))
    def on_each_core():
        def body(scratch):
            pltpu.sync_copy(x_ref, scratch)
            scratch[...] = jnp.add(scratch[...], 10)
            pltpu.sync_copy(scratch, o_ref)

        pl.run_scoped(body, pltpu.VMEM(x.shape, x.dtype))

    return jax.freeze(o_ref)
