"""Tests of pallascope.testing, and of the fixture on top of it."""
