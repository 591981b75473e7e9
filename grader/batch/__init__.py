"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

tasks      what is asked of whoever writes submissions: one prompt for each kata
samples    lines of a file -> submissions, and what is wrong with the others
answers    what a model says -> the submission in it
baseline   solutions and known mistakes as samples, and whether they came out as expected
store      verdicts by submission, in SQLite: none is judged twice
batch      samples on their way through store and crew
crew       what a batch asks of those who judge
local_crew worker processes on this machine, each with an Examiner
cluster_crew hands on the nodes of a cluster, which come, go and die
ray_cluster  Ray as that cluster
luggage    what is sent to its nodes
node       what runs on one of them, around a worker process
waiting    jobs that nobody has begun, and which is best for whom
worker     what runs in each process
orders     what crosses between crew and worker
shards     which of several runs judges a sample
terms      what a run judges by
merging    the stores of several runs into one
evaluation tasks and marks for programs that evaluate models
scores     pass@k and fast_p, by track
"""
