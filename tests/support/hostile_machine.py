"""Files that try to access the rest of the machine: other files, other processes, the network."""

from __future__ import annotations

from grader.verdict import State
from tests.support.hostile import LAUNCH, RIGHT, Hostile, fails_to
from tests.support.repositories import ROOT

DENIED = "PermissionError"
SOLUTION = ROOT / "solutions" / "1_basics" / "kata_01_constant_add.py"
OTHERS = """
import os
def others():
    mine = os.getpid()
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != mine:
            yield int(name)
"""
TRUE_PAR = """
import sys, types
def constant_add(x):
    return x + 10
"""

REACHES = (
    fails_to("reads the solution", f"print(open({str(SOLUTION)!r}).read())\n", DENIED),
    fails_to("reads the key", f"open({str(SOLUTION.with_suffix('.toml'))!r}).read()\n", DENIED),
    fails_to("lists the exercises", f"import os\nos.listdir({str(ROOT / 'katas')!r})\n", DENIED),
    fails_to(
        "reads its own file's neighbours",
        "import os\nfrom pathlib import Path\nlist(Path(__file__).parent.iterdir())\n",
        DENIED,
    ),
    fails_to(
        "writes a ledger",
        "from pathlib import Path\n(Path(__file__).parents[2] / 'progress.toml').write_text('x')\n",
        DENIED,
    ),
    fails_to(
        "rewrites its own file",
        "from pathlib import Path\nPath(__file__).write_text('x')\n",
        DENIED,
    ),
    fails_to(
        "reads its parent's memory",
        "import os\nopen(f'/proc/{os.getppid()}/mem', 'rb').read(1)\n",
        DENIED,
    ),
    fails_to(
        "reads its parent's environment",
        "import os\nopen(f'/proc/{os.getppid()}/environ', 'rb').read()\n",
        DENIED,
    ),
    fails_to("kills the zygote", "import os\nos.kill(os.getppid(), 9)\n", DENIED),
    fails_to("looks for the judge", OTHERS + "os.kill(next(others()), 9)\n", DENIED),
    fails_to(
        "traces its parent",
        """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
if libc.ptrace(16, os.getppid(), 0, 0):
    raise OSError(ctypes.get_errno(), "no tracing")
""",
        DENIED,
    ),
    fails_to("opens a socket", "import socket\nsocket.socket()\n", DENIED),
    fails_to("runs a program", "import os\nos.execv('/bin/true', ['true'])\n", DENIED),
    fails_to("forks, and lets the fork answer too", "import os\nos.fork()\n", DENIED),
    fails_to("forks without end", "import os\nwhile True:\n    os.fork()\n", DENIED),
    fails_to("takes all memory", "hoard = bytearray(20 << 30)\n", "MemoryError"),
    fails_to("leaves at once", "import os\nos._exit(0)\n", "exit code 0"),
)
HONEST = Hostile("is honest", RIGHT + LAUNCH, None, stars=3, state=State.PASSED)
