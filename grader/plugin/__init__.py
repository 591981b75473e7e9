"""The pytest plugin.

dependencies  Checks for missing packages, before anything imports them
hooks         pytest's hooks
items         Collectors and items for katas, and the session that they share
options       The options --kata-…
reporter      Collects grades from every process; writes the map and the record
start         Loads the plugin: options, then the process that imports jax
"""

from grader.plugin import dependencies

dependencies.require()

from grader.plugin.start import pytest_addoption, pytest_configure  # noqa: E402

__all__ = ["pytest_addoption", "pytest_configure"]
