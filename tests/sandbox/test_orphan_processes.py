"""Processes that leave their parents."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux gives orphans away")

PARENT = """
import os, subprocess
from grader.sandbox import process_limits as reaping
FOUND
reaping.adopt_orphans()
spared = subprocess.Popen(["sleep", "60"])
daemon = "import subprocess; print(subprocess.Popen(['sleep', '60'], stdout=-3).pid)"
ran = subprocess.run([os.sys.executable, "-c", daemon], stdout=subprocess.PIPE, text=True)
orphan = int(ran.stdout)
assert reaping.children() == {spared.pid, orphan}, reaping.children()
reaping.kill_children(spared={spared.pid})
assert reaping.children() == {spared.pid}
assert spared.poll() is None
reaping.kill_children()
assert not reaping.children()
"""


@pytest.mark.parametrize("found", ["", "reaping._listed = lambda: open('')"], ids=["list", "scan"])
def test_orphans_are_found_and_killed(found: str) -> None:
    """Also where the kernel keeps no list of a process's children."""
    subprocess.run([sys.executable, "-c", PARENT.replace("FOUND", found)], check=True)
