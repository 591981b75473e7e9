"""The pytest plugin.

needs      what the Python that runs pytest has to have, told before it would be imported
start      what pytest loads: options, and jax's process, begun before anything heavy is imported
hooks      what pytest calls: each hook hands on to something that can be tested without pytest
items      a collector for each kata's file, an item for each hidden case
reporter   grades as they arrive, the map at the end, the files for machines
session    what one pytest process knows of its katas
"""

from grader.plugin import needs

needs.require()

from grader.plugin.start import pytest_addoption, pytest_configure  # noqa: E402

__all__ = ["pytest_addoption", "pytest_configure"]
