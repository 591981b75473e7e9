"""How much a worker may take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has these limits")

LIMITED = """
import resource
from grader.sandbox import process_limits as limits
resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))
limits.limit_strangers()
limits.limit_memory()
for name in ("CORE", "FSIZE", "NOFILE", "DATA"):
    soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
    assert soft == hard
    print(name, hard)
try:
    with open("file", "wb") as file:
        file.truncate(limits.FILE + 1)
except OSError as error:
    print(error.strerror)
"""


def test_limits_are_lowered_for_good(tmp_path: Path) -> None:
    """A limit that was lower already stays."""
    ran = subprocess.run(
        [sys.executable, "-c", LIMITED],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = ran.stdout.splitlines()
    assert lines[:4] == ["CORE 0", f"FSIZE {256 << 20}", "NOFILE 200", f"DATA {8 << 30}"]
    assert lines[4] == "File too large"
