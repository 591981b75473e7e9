"""Right kernels of rpa_fused_write in other styles: see docs/authoring.md."""

# ---- conditions_of_its_own ----

"""Where the next step reads the same pages, this one has new rows: `same` says it all.

Stars: 3
"""


def rpa_fused_write_step(step, steps, same, writes, bring, insert, send, attend):
    more = step < steps - 1

    def next_step():
        @pl.when(more)
        def _():
            bring(step + 1).start()

    @pl.when(step == 0)
    def _():
        bring(step).start()

    pl.when(jnp.logical_not(same))(next_step)
    bring(step).wait()
    pl.when(writes)(insert)
    pl.when(writes)(send.start)
    attend()
    pl.when(writes)(send.wait)
    pl.when(same)(next_step)


# ---- sends_first ----

"""Steps that write send their pages before they bring those of the next step.

Stars: 3
"""


def rpa_fused_write_step(step, steps, same, writes, bring, insert, send, attend):
    reads_again = writes & same
    pl.when(step == 0)(bring(0).start)
    pl.when((step + 1 < steps) & ~reads_again & ~writes)(bring(step + 1).start)
    bring(step).wait()

    @pl.when(writes)
    def _():
        insert()
        send.start()

    pl.when((step + 1 < steps) & ~reads_again & writes)(bring(step + 1).start)
    attend()
    pl.when(writes)(send.wait)
    pl.when((step + 1 < steps) & reads_again)(bring(step + 1).start)
