"""Merging upstream."""
