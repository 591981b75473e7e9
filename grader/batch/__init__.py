"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

batch_run     One run of `kata grade`: a set of samples, a store, an executor
batch_worker  A worker process of `kata grade`
evaluation    For evaluation harnesses: tasks for a model, marks for its answers
executor      Executors of jobs: messages, a queue, and processes on this machine
ray_cluster   `kata grade --ray`: grading on the nodes of a Ray cluster
samples       Reads a file of samples, one JSON object per line, and finds the code in a …
scores        Scores of a set of samples: pass@k, fast_p, agreement with a baseline
store         Verdicts by submission in an SQLite file, and merging such files
"""
