"""Programs with Mosaic GPU kernels, run on a GPU that is here.

    here         which GPU jax can use here, or why none: asked in a process of its own
    messages     what is asked of the process that runs a program, and what it answers
    apart        that process: its environment, its time, and what becomes of one that dies
    child        what it does
    launches     a program as something to call, into memory that was filled before
    guards       the pattern around every buffer, and what became of it
    timing       two launches timed in turns
    crashes      how a launch ends that does not return, in words
    sanitizer    compute-sanitizer around the process: where it is, and what it reports

Nothing here imports jax but the process that runs: `child`, `launches` and `guards`.
"""
