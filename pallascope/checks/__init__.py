"""Checks of a launch that has run, been lowered and been compiled, with messages for its author.

A check returns None, or a `Finding` with the cause. It raises, prints and runs nothing.

compare           Compares a result with its expected values: tolerance, wrong blocks
compiles          Does libtpu accept the kernel, and does it fit into VMEM?
device_messages   Messages about races and other faults between the devices of a mesh
diagnoses/        What a wrong result looks like: one small function for each known pattern
dma_messages      Messages about manual DMA: starts, waits, hazards
exception_advice  Advice on exceptions that are raised while a file is imported, or a launch traced
exceptions        Does it import, trace and finish? Messages about exceptions, races and crashes
expected_results  Evaluates expected results in float64, and their sensitivity to rounding
launch_evidence   The evidence that checks judge: one run of a launch, and its expected results
lowers            Are block shapes legal, and does Mosaic lower the kernel?
phrasing          Small pieces of prose that several checks share
values            Is every element right, within what rounding explains?
"""
