"""Confines a process with a learner's code to its own folder and the interpreter.

The fork server calls `confinement` once, before it forks. A forked worker enforces the result
first, after it has moved into its own folder and before it reads a question. Threads that were
started earlier wouldn't be confined, and files that were opened earlier stay open.

    prepared = isolation.confinement(Isolation.AUTO)
    ...
    os.fork()
    files.move_in()
    prepared.enforce(files.writable)

The process can't undo this, and it also applies to everything that the process starts. It takes
about a millisecond. `level()` returns a worker's isolation on this machine, and confines nothing.

confine   Isolates a process as far as this machine's kernel can
landlock  Landlock: the files that a worker may read
seccomp   seccomp: the system calls that the kernel refuses to a worker
"""

from grader.sandbox.isolation.confine import (
    Confinement,
    Isolation,
    Level,
    NotIsolated,
    confinement,
    demanded,
    level,
)

__all__ = ["Confinement", "Isolation", "Level", "NotIsolated", "confinement", "demanded", "level"]
