"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

tasks      what is asked of whoever writes submissions: one prompt for each kata
samples    lines of a file -> submissions, and what is wrong with the others
answers    what a model says -> the submission in it
store      verdicts by submission, in SQLite: none is judged twice
batch      samples on their way through store and crew
crew       what a batch asks of those who judge
local_crew worker processes on this machine, each with an Examiner
waiting    jobs that nobody has begun, and which is best for whom
worker     what runs in each process
orders     what crosses between crew and worker
shards     which of several runs judges a sample
terms      what a run judges by
merging    the stores of several runs into one
scores     pass@k and fast_p, by track
"""
