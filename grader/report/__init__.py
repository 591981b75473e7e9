"""Grades in, text out: `standings` counts, `terminal` and `jsonfile` put into words."""
