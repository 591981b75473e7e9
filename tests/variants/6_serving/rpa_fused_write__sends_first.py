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
