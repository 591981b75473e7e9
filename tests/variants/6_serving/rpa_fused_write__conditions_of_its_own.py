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
