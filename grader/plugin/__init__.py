"""The pytest plugin.

hooks      what pytest calls: each hook hands on to something that can be tested without pytest
options    the options --kata-…
items      a collector for each kata's file, an item for each hidden case
reporter   grades as they arrive, the map at the end, the files for machines
session    what one pytest process knows of its katas
"""

from grader.plugin.hooks import (
    pytest_addoption,
    pytest_collect_file,
    pytest_configure,
    pytest_configure_node,
    pytest_report_header,
    pytest_report_teststatus,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    pytest_timeout_cancel_timer,
    pytest_timeout_set_timer,
    pytest_unconfigure,
)

__all__ = [
    "pytest_addoption",
    "pytest_collect_file",
    "pytest_configure",
    "pytest_configure_node",
    "pytest_report_header",
    "pytest_report_teststatus",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "pytest_timeout_cancel_timer",
    "pytest_timeout_set_timer",
    "pytest_unconfigure",
]
