"""Helpers of several tests: example kernels, evidence to judge, repositories to break."""
