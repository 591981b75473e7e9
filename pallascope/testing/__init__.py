"""Tests of anybody's Pallas TPU kernels, on a machine without a TPU.

command       `python -m pallascope.testing` and `kata check`: checks one function
kernel_tests  `Pallas`: strict runs against a reference, refusals of the compiler, predicted costs
traced_call   One call of a function, traced for a TPU; the errors of its checks
"""
