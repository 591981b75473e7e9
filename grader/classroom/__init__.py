"""A class: one clone of the course for each student, and what a teacher wants to know of them.

class_report  A class as text, as a page, and as CSV
students      A class: clones, the state of each student, regrading, most missed
"""
