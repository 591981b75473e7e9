"""Right kernels of right_permute in other styles: see docs/authoring.md."""

# ---- hears_the_right_only ----

"""Only the chip that is written to has to have begun, so each chip tells the one on its left.

Stars: 3
"""


def right_permute_kernel(x_ref, o_ref, send_sem, recv_sem):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id=(lax.rem(me + n - 1, n),))
    pl.semaphore_wait(begun, 1)
    right = lax.rem(me + 1, n)
    copy = pltpu.make_async_remote_copy(x_ref, o_ref, send_sem, recv_sem, device_id=(right,))
    copy.start()
    copy.wait()


# ---- names_its_axis ----

"""Chips numbered by where, named by a dict of axes; each end is waited for by itself.

Stars: 3
"""


def right_permute_kernel(x_ref, o_ref, send_sem, recv_sem):
    n = lax.axis_size("x")
    me = lax.axis_index("x")
    right = jnp.where(me == n - 1, 0, me + 1)
    left = jnp.where(me == 0, n - 1, me - 1)
    begun = pltpu.get_barrier_semaphore()
    pl.semaphore_signal(begun, device_id={"x": left})
    pl.semaphore_signal(begun, device_id={"x": right})
    pl.semaphore_wait(begun, 2)
    copy = pltpu.async_remote_copy(x_ref, o_ref, send_sem, recv_sem, device_id={"x": right})
    copy.wait_recv()
    copy.wait_send()


# ---- logical_numbers ----

"""Logical device numbers, and send and wait as one call in a named scope.

Stars: 3
"""


def right_permute_kernel(x_ref, o_ref, send_sem, recv_sem):
    n, me = lax.axis_size("x"), lax.axis_index("x")
    logical = pl.DeviceIdType.LOGICAL
    begun = pltpu.get_barrier_semaphore()
    with jax.named_scope("begin"):
        for step in (1, n - 1):
            other = lax.rem(me + step, n)
            pl.semaphore_signal(begun, 1, device_id=other, device_id_type=logical)
        pl.semaphore_wait(begun, 2)
    with jax.named_scope("send"):
        pltpu.make_async_remote_copy(
            src_ref=x_ref,
            dst_ref=o_ref,
            send_sem=send_sem,
            recv_sem=recv_sem,
            device_id=lax.rem(me + 1, n),
            device_id_type=logical,
        ).start()
        pltpu.make_async_copy(x_ref, x_ref, send_sem).wait()
        pltpu.make_async_copy(o_ref, o_ref, recv_sem).wait()
