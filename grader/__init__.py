"""Grades Pallas kernels: correct, acceptable to a TPU, fast there."""
