"""Git, the learner's editor, and HTML tables, for the commands and the reports.

editor  Opens a file at a line in the learner's editor
git     Runs git commands in a clone
html    Writes HTML pages of tables, all text escaped
"""
