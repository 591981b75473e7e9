"""Runs learners' code in processes of its own, so that no kata can hurt another or the session.

asking       the questions: a solution's side, a launch's side
recalling    what comes out of a kata's known mistakes
reseeding    the inputs of a launch with another seed in them
line         questions to one post, asked ahead and answered in any order
bench        in pytest's process: starts workers, sends questions, stops what hangs
channel      the bench's end of a socket to a worker
post         what each worker is there for
patience     how long an answer is waited for, on a machine that is busy; what is asked twice
accidents    what is said of a worker that was stopped, or that died
memory       whether the machine ran out of it
messages     what bench and workers say to each other
devices      which backend and mode this machine offers
environment  the variables that worker processes start with: backend, XLA's flags
launcher     starts processes: the zygote, and workers
zygote       a process that starts workers, as forks in about 12 ms, and ends them after the bench
reaping      ends workers, and what they leave running
folders      where one worker writes, and what of it is read
worker       stands at one post and answers; judges nothing
tracing      of one kata's file: its launch's trace, and no more
handing_over the launch function, from the kata's own test
solving      of a solution: inputs, what must come back, its launch's trace
judging      of a trace: what it holds, its results, its way to a TPU
problems     exceptions as data
warming      a kernel of no meaning, so that what is slow once is over before it matters
isolation    what a worker can reach of the machine: Landlock and seccomp, on Linux
debuggers    what a kata is told that opens a debugger
"""
