"""Reads, interprets, checks, compiles and predicts Pallas kernels on a machine without a TPU.

It knows nothing of katas; `grader` does, and imports it.

model           values that all rooms share: kernels, faults and observations as data
tools           arrays and frozen values as bytes, text, Python files, the terminal

kernels         a function's kernels as data; the strict interpreter; a traced launch as bytes
tpu             the TPU's compiler, its schedule executed, predicted times, advice
gpu             Mosaic GPU kernels: followed, interpreted, compiled, run
"""
