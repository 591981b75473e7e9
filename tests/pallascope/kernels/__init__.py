"""Launches as data, and how they run."""
