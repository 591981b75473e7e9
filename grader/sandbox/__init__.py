"""Runs learners' code in separate processes, so that no kata can hurt another or the session.

client              Questions to the workers about a kata, and clients for its two launches
devices             Detects TPUs and GPUs, and chooses the mode of a session
fork_server         The fork server: starts workers, and ends them with their session
gpu_judge_worker    The worker that runs, lowers and compiles traces of launches for GPUs
gpu_runs            Questions about launches for GPUs, and runs on the GPU of this machine
isolation/          Confines a process with a learner's code to its own folder and the interpreter
known_mistakes      Runs known mistakes, to compare their results with a wrong result
launch_client       Questions to the workers about one launch, the learner's or the solution's
launcher            Starts worker processes through a fork server
messages            The questions to workers and their answers, by the worker's role
mutant_trials       Tries a learner's test on mutants of the kernel under test
process_limits      Limits a worker's memory and files, and ends orphaned processes
request_queue       A queue of questions to one worker, asked ahead of time
solution_worker     The worker of the solution: inputs, references, the solution's trace
time_limits         Time limits that a busy machine does not use up
trace_worker        The worker that imports a learner's file and traces its launch
worker              The main loop of a worker: receives questions, sends answers
worker_environment  A worker's environment variables (jax's backend, XLA's flags) and its folder
worker_pool         Starts workers, sends them questions, stops them, and explains how they died
"""
