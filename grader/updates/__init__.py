"""Merges upstream's new and changed katas into a learner's clone, for `kata update`.

file_merge        Merges three versions of one file, katas region by region
repository_merge  Merges upstream into a clone, with its uncommitted changes
upstream          Fetches upstream, and summarizes an update
"""
