"""Find three waits that are missing or in the wrong place in a colleague's kernel.

Goal
    The kernel below computes silu(g) * u, the middle of a SwiGLU layer, and scales each
    column by a number of s, in a loop like that of double_buffer. In the interpreter on a
    CPU, all its tests pass. On a TPU they pass on most days. Three bugs were reported, each
    in a few runs out of a thousand:

        A   The first rows of the result are scaled by numbers that aren't in s.
            All other rows are right.
        B   In a few rows, u is right, but g is that of two blocks earlier.
        C   A few rows of one block hold results of the block two steps later, but
            only while something else keeps HBM busy.

    Repair the kernel without making it slower. Each bug has a different cause.

Concept
    Why did no test see it? The plain interpreter performs each copy at `.start()`,
    immediately. A wait then has nothing to wait for, and a kernel without a single wait gives
    the right result:

        interpreter    start = copy ......... wait = nothing
        TPU            start .... copying .... the copy ends .... wait

    The grader runs the kernel in another way: in some cases it delays each copy until its
    wait, and in all cases it tracks each copy from its start to its wait. In between, it
    reports any forbidden access to the source or the target, one fault at a time. Before you
    read its report, make a list: for each Ref, in program order, what does step i do to it?
    Change only a comment first, so that the file counts as begun:
    `pytest --kata-mode interpret` then shows the results that your colleague saw.

        event                      condition before it
        read a slot                its copy has arrived
        store to a slot            the copy out of it has ended
        start a copy into a slot   all reads of the slot are done

    And for each wait: which copies use its semaphore?

    The tempting repair is a wait after each start. It is correct, but nothing overlaps any
    more. With 8192 x 2048 numbers in bfloat16, it takes 271 µs on a v5e, and a good repair
    125 µs.

Shapes
    name      dtype[dims]           memory space   Ref's shape    block
    g_hbm     g.dtype[M, N]         HBM            (M, N)         whole
    u_hbm     g.dtype[M, N]         HBM            (M, N)         whole
    s_hbm     float32[1, N]         HBM            (1, N)         whole
    o_hbm     g.dtype[M, N]         HBM            (M, N)         whole
    g_ref     g.dtype[2, bm, N]     VMEM scratch   (2, bm, N)     -
    u_ref     g.dtype[2, bm, N]     VMEM scratch   (2, bm, N)     -
    s_ref     float32[1, N]         VMEM scratch   (1, N)         -
    o_ref     g.dtype[2, bm, N]     VMEM scratch   (2, bm, N)     -
    sems      dma semaphore[2, 2]   SMEM scratch   (2, 2)         -
    s_sem     dma semaphore         SMEM scratch   ()             -

Try
    pytest -k find_the_wait          stuck?  kata hint find_the_wait

Needs     double_buffer, row_gather
Read on   TPU Pipelining, https://docs.jax.dev/en/latest/pallas/tpu/pipelining.html
"""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jaxtyping import Array, Float, Float32


def find_the_wait_spec(
    g: Float[Array, "M N"], u: Float[Array, "M N"], s: Float32[Array, "1 N"]
) -> Float[Array, "M N"]:
    """The required result, in plain jax.numpy."""
    return (jax.nn.silu(g) * u * s).astype(g.dtype)


def find_the_wait_kernel(g_hbm, u_hbm, s_hbm, o_hbm, g_ref, u_ref, s_ref, o_ref, sems, s_sem):
    bm = g_ref.shape[1]
    steps = g_hbm.shape[0] // bm

    def bring(hbm, ref, i, slot):
        return pltpu.make_async_copy(hbm.at[pl.ds(i * bm, bm)], ref.at[slot], sems.at[0, slot])

    def send(i, slot):
        return pltpu.make_async_copy(o_ref.at[slot], o_hbm.at[pl.ds(i * bm, bm)], sems.at[1, slot])

    bring_s = pltpu.make_async_copy(s_hbm, s_ref, s_sem)
    # BEGIN SOLUTION
    bring_s.start()
    bring(g_hbm, g_ref, 0, 0).start()
    bring(u_hbm, u_ref, 0, 0).start()

    @pl.loop(0, steps)
    def _(i):
        slot = i % 2

        @pl.when(i + 1 < steps)
        def _():
            bring(g_hbm, g_ref, i + 1, 1 - slot).start()
            bring(u_hbm, u_ref, i + 1, 1 - slot).start()

        bring(g_hbm, g_ref, i, slot).wait()
        gate = jax.nn.silu(g_ref[slot].astype(jnp.float32))
        bring(u_hbm, u_ref, i, slot).wait()
        u = u_ref[slot].astype(jnp.float32) * s_ref[...]
        o_ref[slot] = (gate * u).astype(o_ref.dtype)

        @pl.when(i == 1)
        def _():
            bring_s.wait()

        @pl.when(i >= 2)
        def _():
            send(i - 2, slot).wait()

        send(i, slot).start()

    for i in (steps - 2, steps - 1):
        send(i, i % 2).wait()
    # END SOLUTION


def find_the_wait(
    g: Float[Array, "M N"], u: Float[Array, "M N"], s: Float32[Array, "1 N"], *, bm: int = 128
) -> Float[Array, "M N"]:
    """Launch: one step; operands and result stay in HBM, with slots in VMEM."""
    N = g.shape[1]
    hbm = pl.BlockSpec(memory_space=pltpu.HBM)
    slots = pltpu.VMEM((2, bm, N), g.dtype)
    return pl.pallas_call(
        find_the_wait_kernel,
        in_specs=[hbm, hbm, hbm],
        out_specs=hbm,
        out_shape=jax.ShapeDtypeStruct(g.shape, g.dtype),
        scratch_shapes=[
            slots,
            slots,
            pltpu.VMEM((1, N), jnp.float32),
            slots,
            pltpu.SemaphoreType.DMA((2, 2)),
            pltpu.SemaphoreType.DMA,
        ],
        name="find_the_wait",
    )(g, u, s)


# ---- Given: inputs and helpers. ----


def test_find_the_wait(hidden_case):
    hidden_case.grade(find_the_wait)
