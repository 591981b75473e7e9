"""Grades and the ledger in, text out.

standings     grades -> where each kata and each track stands in this session
session_map   the map at the end of a pytest session
progress_map  the map that `kata progress` shows, from the ledger
marks         the bars, stars and next steps that both maps share
failures      a failed hidden case, as the learner reads it, and as pytest's report wants it
solved        what is said of a kata once it is solved
log           the history of passes: `kata progress --log`
badge         the picture of what is solved: `kata progress --svg`
markdown      the map for a GitHub job's summary: --kata-summary
jsonfile      grades for machines: --kata-json
junit         grades for machines: JUnit XML's properties
"""
