"""Grades and the ledger in, text out.

completion    The text that a solved kata shows
failures      The text of a failed hidden case, for a learner and for pytest
history_log   The history of passes in words
maps          The maps of katas in a terminal: of a session, and of the record
report_files  Files for others: JSON, JUnit properties, Markdown, a badge
standings     From a session's grades to the standing of katas, tracks and course
"""
