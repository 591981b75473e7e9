"""Git, the learner's editor, and pages of tables, for the commands and the reports.

editor  Opens a file at a line in the learner's editor
git     Runs git: what a clone knows of its files and their history
html    Pages of tables for a browser: one file, all text escaped
"""
