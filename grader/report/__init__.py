"""Writes grades and the ledger as text and files.

completion    The text that is shown when a kata is solved
failures      The text of a failed hidden case, for a learner and for pytest
history_log   The history of passes as text
maps          The maps of katas in a terminal: of a session, and of the record
report_files  JSON, JUnit properties, Markdown and SVG files
standings     The standing of katas, tracks and course from a session's grades
"""
