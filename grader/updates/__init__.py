"""Bringing upstream's new and changed katas into a repository in which some are solved.

`source` finds and fetches; `region_merge` keeps solution regions apart from what stands around
them, `contents` merges one file and `merging` all of them, in a work tree of its own first;
`pending` carries over what is not committed; `news` says what came.

file_merge        Merges a file of three versions, katas region by region
repository_merge  Merges upstream into a clone, with its uncommitted changes
upstream          Where an update comes from, and a summary of what it brought
"""
