"""Reports on a class: a folder with one clone of the course for each student.

class_report  A class's report as text, HTML and CSV
students      The clones, the standing of each student, regrading, most missed katas
"""
