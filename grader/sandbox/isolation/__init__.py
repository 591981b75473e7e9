"""What a process that runs a learner's code can reach: its own folder, and the interpreter.

The fork server calls `confinement` once, before it forks. A forked worker enforces the result as
its first act, when it has moved into its own folder and before it reads a question: threads that
run already would stay free, and files that were opened before stay open.

    prepared = isolation.confinement(Isolation.AUTO)
    ...
    os.fork()
    files.move_in()
    prepared.enforce(files.writable)

Nothing can take it back, and what the process starts is bound by it as well. It costs about a
millisecond. `level()` tells what a worker would get here, without binding anyone.

confine   How far this kernel can isolate a process, and doing it
landlock  Landlock: the files that a worker may read
seccomp   seccomp: the system calls that a worker is refused
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
