"""What is remembered of passes: a text ledger in the repository, and git.

ledger     the file, its lines, and what they say of a content
recording  a session's grades -> new lines
present    the ledger and the files as they are -> where each kata stands
head       what the last commit lacks of that
commits    one commit for each kata that it lacks
history    ledger and commits -> what happened when
"""
