"""Bringing upstream's new and changed katas into a repository in which some are solved.

`source` finds and fetches, `merging` merges in a work tree of its own, `fences` keeps the solution
regions apart from everything around them, `pending` carries over what is not committed, `news` says
what came.
"""
