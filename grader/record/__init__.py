"""What the repository remembers of passes: a text file (the ledger), and git.

commits  One git commit for each solved kata, and what the last one holds
history  The history of passes, from the ledger and git
ledger   The ledger of passes, and what a session adds to it
status   The state of each kata, from the ledger and the files
"""
