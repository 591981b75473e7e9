"""The record of passes: a text file (the ledger), and git commits.

commits  Reads the last commit, and makes one commit for each solved kata
history  The history of passes, from the ledger and git
ledger   Reads the ledger of passes, and appends a session's passes
status   The status of each kata, from the ledger and the files
"""
