"""What grade_many is made of.

mixture      the submissions: solutions, mistakes, mutants, hostile ones, hangs, crashes
processes    this run's processes, known by a variable: their CPU time and memory
nodes        a Ray cluster of two nodes on this machine, and how one is killed
agreement    what pytest says of a submission, in a process of its own
"""
