"""The stages of .ci/run: each is told with its seconds, whatever becomes of it."""

from __future__ import annotations

import subprocess

from tests.support.repositories import ROOT

BUSY = "python3 -c 'import time\nwhile time.process_time() < 1.5: pass'"
SCRIPT = f"""
set -euo pipefail
. .ci/stages.sh
fails() {{ local command="{BUSY} && false"; eval "$command"; echo "not reached"; }}
ends_well() {{ echo "$1"; }}
begin beside ends_well "said beside"
timed first fails
timed second ends_well "said after a failure"
finish beside
exit "$failed"
"""


def test_a_stage_that_fails_is_told_and_ends_no_other() -> None:
    ran = subprocess.run(
        ["bash", "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 1, ran.stderr
    assert ran.stderr == ""
    assert "not reached" not in ran.stdout
    assert "said after a failure" in ran.stdout
    assert "said beside" in ran.stdout
    table = ran.stdout.partition("CPU time on all cores\n")[2].splitlines()
    rows = {name: int(cpu) for _, cpu, name in (line.split(maxsplit=2) for line in table)}
    assert set(rows) == {"first: failed", "second", "beside", "all"}
    assert 1 <= rows["first: failed"] <= rows["all"]
