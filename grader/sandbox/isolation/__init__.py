"""What a process that runs a learner's code can reach: its own folder, and the interpreter.

The zygote calls `confinement` once, before it forks. A forked worker enforces what that returned as
its first act, when it has moved into its own folder and before it reads a question: threads that
run already would stay free, and what was opened before stays open.

    prepared = isolation.confinement(Isolation.AUTO)
    ...
    os.fork()
    files.move_in()
    prepared.enforce(files.writable)

Nothing can take it back, and what the process starts is bound by it as well. It costs about a
millisecond. `level()` tells what a worker would get here, without binding anyone.

levels       how far this machine's kernel can isolate, in words
confining    what is prepared before a fork, and enforced after it
readable     the files that an interpreter and jax read
landlock     Linux's rules for files, TCP and signals
seccomp      Linux's filter of system calls
calls        which system calls are refused, and why
libc         system calls by number, through ctypes
"""

from grader.sandbox.isolation.confining import Confinement, confinement
from grader.sandbox.isolation.levels import Isolation, Level, NotIsolated, demanded, level

__all__ = ["Confinement", "Isolation", "Level", "NotIsolated", "confinement", "demanded", "level"]
