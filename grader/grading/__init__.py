"""From a kata and a hidden case to a grade.

ladder    the rungs in order, and the verdict on what was observed
grader    grades one case after another
studies   what a launch would cost at any size, beside par
"""
