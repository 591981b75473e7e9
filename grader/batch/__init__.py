"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

tasks      what is asked of whoever writes submissions: one prompt for each kata
samples    lines of a file -> submissions, and what is wrong with the others
answers    what a model says -> the submission in it
store      verdicts by submission, in SQLite: none is judged twice
batch      samples on their way through store and crew
crew       worker processes, each with an Examiner, and what they are to do next
worker     what runs in each of them
orders     what crosses between crew and worker
evaluation tasks and marks for programs that evaluate models
scores     pass@k and fast_p, by track
"""
