"""Grades a kata on a hidden case.

cost_studies  Cost of a kata's launch at any size, and sizes that fit it
grader        Grades one kata on one hidden case
ladder        The ladder: the rungs in order; the first that fails stops
session_case  Grades a hidden case of a session: todo, --kata-require, changed files
"""
