"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

baseline      Samples whose verdicts are known: solutions and known mistakes
batch_run     One run of `kata grade`: a set of samples, a store, an executor
batch_worker  One worker process of `kata grade`
completions   Makes a file of a completion, and finds the completion in a model's answer
evaluation    For evaluation harnesses: tasks for a model, marks for its answers
executor      Executors of jobs: messages, a queue, and processes of this machine
ray_cluster   `kata grade --ray`: the nodes of a Ray cluster grade
samples       Reads a file of samples: one JSON object a line
scores        pass@k and fast_p of a set of samples, and a page of them
store         Verdicts by submission in an SQLite file, and merging such files
"""
