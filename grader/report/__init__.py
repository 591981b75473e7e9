"""Writes grades and the ledger as text and files.

completion         The text that is shown when a kata is solved
failures           The text of a failed hidden case, for a learner and for pytest
maps               The maps of katas in a terminal: of a session, and of the record
progress_exports   kata progress --log and --svg: the history of passes, and a badge
report_files       JSON, JUnit properties and Markdown of a session
session_standings  The standing of katas, tracks and course from a session's grades
"""
