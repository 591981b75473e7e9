"""Runs learners' code in processes of its own, so that no kata can hurt another or the session.

bench      in pytest's process: starts workers, asks them, times them out, reads their remains
zygote     a process that has imported jax and runs nothing: a fresh worker is ready in about 12 ms
worker     imports one kata, observes its kernels, answers; judges nothing
debuggers  what a kata is told that opens a debugger
messages   what they say to each other
"""
