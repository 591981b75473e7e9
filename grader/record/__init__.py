"""What the repository remembers of passes: a text file (the ledger), and git.

ledger       the file, its lines, and what they say about a content
recording    a session's grades -> new lines in the ledger
status       the ledger and the files as they are -> where each kata stands
last_commit  what the last commit knows of katas and ledger, and what it lacks
commits      one commit for each solved kata that the last commit lacks
history      the ledger and git's commits -> what happened when
"""
