"""Right kernels of async_copy in other styles: see docs/authoring.md."""

# ---- async_copy ----

"""pltpu.async_copy, which starts at once, and a sum that is stored once.

Stars: 2, since the sum, a value of 2 MiB at production size, is spilled from registers.
"""


def async_copy_kernel(x_ref, w_hbm, o_ref, w_ref, sems):
    K = x_ref.shape[1]
    halves = [pl.ds(0, K // 2), pl.ds(K // 2, K // 2)]
    copies = [
        pltpu.async_copy(w_hbm.at[rows], w_ref.at[n], sems.at[n]) for n, rows in enumerate(halves)
    ]
    total = 0
    for n, rows in enumerate(halves):
        copies[n].wait()
        total += jnp.dot(x_ref[:, rows], w_ref[n], preferred_element_type=jnp.float32)
    o_ref[...] = total


# ---- second_half_first ----

"""Brings the second half first, into slot 0, and multiplies by it first.

Stars: 3
"""


def async_copy_kernel(x_ref, w_hbm, o_ref, w_ref, sems):
    half = x_ref.shape[1] // 2
    late = pltpu.make_async_copy(w_hbm.at[:half], w_ref.at[1], sems.at[1])
    early = pltpu.make_async_copy(w_hbm.at[half:], w_ref.at[0], sems.at[0])
    early.start()
    late.start()
    early.wait()
    o_ref[...] = jnp.dot(x_ref[:, half:], w_ref[0], preferred_element_type=jnp.float32)
    late.wait()
    o_ref[...] += jnp.dot(x_ref[:, :half], w_ref[1], preferred_element_type=jnp.float32)
