"""From a kata and a hidden case to a grade.

cost_studies  Cost of a kata's launch at any size, and sizes that fit it
grader        Grades one kata on one hidden case
ladder        The ladder: the rungs in order; the first that fails stops
session_case  How a hidden case counts: todo, content graded, required
"""
