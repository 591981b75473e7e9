"""Katas, keys and cases as files."""
