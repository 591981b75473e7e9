"""Many submissions at once: JSON lines in, JSON lines out, and a store that remembers verdicts.

answers           Finds the code in a model's answer
baseline          Samples whose verdicts are known: solutions and known mistakes
batch_run         One run of `kata grade`: a set of samples, a store, an executor
batch_worker      One worker process of `kata grade`
cluster_executor  An executor on the nodes of a cluster, and the upload to them
evaluation        For evaluation harnesses: tasks for a model, marks for its answers
executor          Executors grade submissions, each in a worker process
ray_cluster       Ray as the cluster: nodes, actors, retries
samples           Reads a file of samples: one JSON object a line
scores            pass@k and fast_p of a set of samples, and a page of them
store             Verdicts by submission in an SQLite file, and merging such files
"""
