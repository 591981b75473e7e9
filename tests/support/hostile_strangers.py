"""Submissions that attack the grader: several attacks each, with names.

In the end, each raises the names of attacks that succeeded. Refused attacks are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_TRIES = """
import ctypes, gc, os, socket, sys, threading

attained = []
PLACES = {places!r}

def tries(name, attack):
    try:
        found = attack()
    except BaseException:
        return
    if found is not False:
        attained.append(name)

def unrefused(result):
    return result != -1
"""
_TELL = """
raise RuntimeError("attained: " + ", ".join(attained or ["nothing"]))
"""

#: Beyond what tests/sandbox/isolation asks of a bare process: what lies around a worker, in the
#: pool of an Examiner. `PLACES` are the paths of what nobody may reach.
READS = """
for name, path in PLACES.items():
    tries("reads " + name, lambda: open(path, "rb").read(1))
    tries("lists " + name, lambda: os.listdir(path))
    tries("lists what is around " + name, lambda: os.listdir(os.path.dirname(path)))
tries("lists the workers", lambda: os.listdir("../.."))
tries("lists its worker", lambda: os.listdir(".."))
tries("reads what the fork server writes", lambda: open("../../fork_server.err").read())
for number in range(1, 30):
    there = f"../../{number}"
    if not os.path.exists(there + "/scratch/.") or not os.path.samefile(there + "/scratch", "."):
        tries(f"lists worker {number}", lambda: os.listdir(there + "/scratch"))
        tries(f"reads worker {number}", lambda: open(there + "/out").read())
mine = {os.getpid(), *map(int, os.listdir("/proc/self/task"))}
for pid in range(max(1, os.getpid() - 40), os.getpid() + 1):
    if pid not in mine:
        for what in ("environ", "cmdline", "maps", "mem", "fd/3", "cwd/."):
            tries(f"reads {what} of another process", lambda: open(f"/proc/{pid}/{what}", "rb"))
tries("sees a secret of its environment", lambda: "HELD" in str(os.environ))
tries("sees a secret that was there", lambda: b"HELD" in open("/proc/self/environ", "rb").read())
tries("holds a secret", lambda: any("HELD" + "-BACK" in str(one) for one in gc.get_objects()
                                    if type(one) in (str, dict) and len(one) < 500))
opened = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")
          if os.path.lexists(f"/proc/self/fd/{fd}")]
tries("has inherited files", lambda: bool([one for one in opened if one != "/dev/null"
      and not one.startswith(("socket:", "pipe:", "/proc/"))
      and not one.endswith(("/out", "/err"))]))
tries("has inherited sockets", lambda: len([one for one in opened if "socket:" in one]) > 1)
tries("has inherited pipes", lambda: bool([one for one in opened if "pipe:" in one]))
"""
WRITES = """
for name, path in PLACES.items():
    tries("writes beside " + name, lambda: open(os.path.dirname(path) + "/new", "w"))
    tries("changes " + name, lambda: open(path, "ab"))
    tries("removes " + name, lambda: os.unlink(path))
    tries("takes " + name, lambda: os.link(path, "taken"))
line = next(int(fd) for fd in os.listdir("/proc/self/fd")
            if os.path.lexists(f"/proc/self/fd/{fd}")
            and os.readlink(f"/proc/self/fd/{fd}").startswith("socket:"))
taken = socket.socket(fileno=os.dup(line))
import grader, jax
for name, folder in {"the grader": os.path.dirname(grader.__file__), "jax": jax.__path__[0],
                     "the machine's": "/tmp", "memory": "/dev/shm", "home": os.path.expanduser("~"),
                     "the workers": "../..", "its worker": ".."}.items():
    tries(f"writes into {name} folder", lambda: open(f"{folder}/left-by-a-kata", "w"))
    tries(f"makes a folder in {name} folder", lambda: os.mkdir(f"{folder}/made-by-a-kata"))
    tries(f"binds a socket in {name} folder", lambda: taken.bind(f"{folder}/s"))
tries("moves its folder", lambda: os.rename("../scratch", "../other"))
tries("removes what it prints to", lambda: os.unlink("../out"))
tries("hides from the killer", lambda: open("/proc/self/oom_score_adj", "w").write("-1000"))
tries("joins another group", lambda: open("/sys/fs/cgroup/cgroup.procs", "w"))
tries("opens a terminal", os.openpty)
for family in range(1, 45):
    for kind in (1, 2, 3):
        tries(f"opens a socket of {family}", lambda: socket.socket(family, kind))
tries("asks a name server", lambda: socket.getaddrinfo("example.com", 80))
for address in ("/run/docker.sock", "\\0abstract", "/var/run/dbus/system_bus_socket"):
    tries("sends to another's socket", lambda: taken.sendto(b"x", address))
    tries("sends a message there", lambda: taken.sendmsg([b""], [], 0, address))
    tries("turns its own socket", lambda: taken.connect(address))
"""
STAYS = """
tries("forks", os.fork)
tries("spawns", lambda: os.posix_spawn("/bin/true", ["true"], {}))
tries("starts a session", os.setsid)
for number in (1, os.getppid(), -os.getppid()):
    tries("signals others", lambda: os.kill(number, 0))
tries("joins its parent's group", lambda: os.setpgid(0, os.getppid()))
tries("raises its limits", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999)))
import resource
for name in ("CORE", "FSIZE", "NOFILE", "DATA"):
    most = resource.getrlimit(getattr(resource, "RLIMIT_" + name))[1]
    tries(f"has no limit of {name}", lambda: most == resource.RLIM_INFINITY)
tries("dumps its memory", lambda: resource.getrlimit(resource.RLIMIT_CORE)[1] > 0)
import mmap
tries("holds shared memory", lambda: mmap.mmap(-1, 1 << 20))
tries("maps zeros", lambda: mmap.mmap(os.open("/dev/zero", os.O_RDWR), 1 << 20))
tries("holds a file of no name", lambda: os.memfd_create("m"))
def fill():
    with open("large", "wb") as file:
        file.truncate(1 << 33)
tries("makes a file without end", fill)
def open_all():
    opened = [os.pipe() for _ in range(3000)]
tries("opens files without end", open_all)
"""
#: What stays behind in one process, and must not be met by the next.
LEAVES = """
import atexit, jax
if os.listdir("."):
    raise RuntimeError("files from before: " + str(os.listdir(".")))
if hasattr(jax, "been_here") or "planted" in sys.modules:
    raise RuntimeError("patched before")
jax.config.update("jax_compilation_cache_dir", os.getcwd())
jax.been_here = sys.modules["planted"] = sys
open("left", "w").write("x")
os.symlink("/", "root"); os.makedirs("a/b/c")
def later():
    import time
    while True:
        time.sleep(0.01)
threading.Thread(target=later, daemon=True).start()
threading.Thread(target=later).start()
atexit.register(later)
"""
#: Ways to end that are no verdict.
ENDS = {
    "leaves": "import os; os._exit(0)",
    "leaves-by-an-exception": "raise SystemExit(0)",
    "interrupts": "raise KeyboardInterrupt",
    "raises-what-nothing-catches": "class E(BaseException): pass\nraise E",
    "raises-what-says-nothing": "class E(Exception):\n"
    "    def __str__(self): raise SystemExit(0)\n    __repr__ = __str__\nraise E",
    "leaves-at-exit": "import atexit, os, sys; atexit.register(os._exit, 0); sys.exit(0)",
    "returns-what-equals-all": "class All:\n    shape, dtype = x.shape, x.dtype\n"
    "    def __eq__(self, _): return True\n    def __array__(self, *_, **__): return 1\n"
    "return All()",
    "closes-all": "import os; os.closerange(0, 1000)",
}


def attacks(text: str, places: Mapping[str, Path]) -> str:
    """The code of several attacks, which raises the names of those that succeed."""
    named = {name: str(path) for name, path in places.items()}
    return f"{_TRIES.format(places=named)}{text}{_TELL}"
