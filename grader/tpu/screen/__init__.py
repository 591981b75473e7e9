"""What predictions look like on a terminal, from 40 columns on, with or without colour.

    launch     one screen for a launch: beside par and XLA, kernel by kernel, what to try
    kernel     one kernel: its bound, where its time goes, what moves, what takes VMEM
    sweep      a table of predicted times over block sizes
    baselines  XLA's own programs, instruction by instruction
    labelled   messages with labelled paragraphs, laid out for any width

Nothing here asks for a prediction: data in, renderables of rich's out.
"""

from grader.tpu.screen.baselines import baselines
from grader.tpu.screen.launch import Launch, Side, screen
from grader.tpu.screen.sweep import Tried, table

__all__ = ["Launch", "Side", "Tried", "baselines", "screen", "table"]
