"""What a confined process can't do, and what it still can."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from grader.sandbox import isolation
from grader.sandbox.isolation import Level, NotIsolated, confine
from tests.support import confined

LEVEL = isolation.level()
offered = pytest.mark.skipif(not LEVEL.isolated, reason=str(LEVEL))

#: What any process may do as its user, and a confined one may not: it succeeds without.
HOSTILE = {
    "reads-a-solution": "(repository / 'solution.py').read_text()",
    "reads-through-a-link": "os.symlink(repository / 'solution.py', 'l'); open('l').read()",
    "reads-by-a-way-round": "open(f'/proc/self/cwd/../repository/solution.py').read()",
    "reads-through-the-root": "open(f'/proc/self/root{repository}/solution.py').read()",
    "lists-the-repository": "os.listdir(repository)",
    "lists-the-root": "os.listdir('/')",
    "lists-processes": "os.listdir('/proc')",
    "reads-a-users-list": "open('/etc/passwd').read()",
    "reads-the-parents-environment": "open(f'/proc/{os.getppid()}/environ').read()",
    "reads-the-parents-command": "open(f'/proc/{os.getppid()}/cmdline').read()",
    "reads-the-parents-memory-map": "open(f'/proc/{os.getppid()}/maps').read()",
    "opens-the-parents-files": "os.listdir(f'/proc/{os.getppid()}/fd')",
    "reads-the-ledger": "(elsewhere / 'ledger.txt').read_text()",
    "appends-to-the-ledger": "open(elsewhere / 'ledger.txt', 'a').write('a pass')",
    "shortens-the-ledger": "os.truncate(elsewhere / 'ledger.txt', 3)",
    "writes-beside-its-folder": "(elsewhere / 'new').write_text('')",
    "writes-into-the-repository": "(repository / 'new.py').write_text('')",
    "makes-a-folder": "(elsewhere / f'{os.getpid()}').mkdir()",
    "removes-a-file": "os.unlink(elsewhere / 'victim')",
    "renames-a-folder": "os.rename(repository / 'katas', repository / 'katas2')",
    "takes-a-file-in": "os.link(repository / 'solution.py', f'{os.getpid()}')",
    "writes-to-shared-memory": "open(f'/dev/shm/{os.getpid()}', 'w').close()",
    "makes-a-socket": "import socket; socket.socket()",
    "makes-a-local-socket": "import socket; socket.socket(socket.AF_UNIX)",
    "makes-a-pair-of-datagrams": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)",
    "runs-a-program": "import subprocess; subprocess.run(['true'], check=True)",
    "runs-a-shell": "assert os.system('true') == 0",
    "spawns-a-program": "os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "forks": "if not os.fork(): os._exit(0)",
    "makes-a-process": "import multiprocessing as m\n"
    "p = m.get_context('fork').Process(target=print); p.start(); p.join()",
    "leaves-for-good": "if not os.fork(): os.setsid(); os._exit(0)",
    "holds-memory-in-a-file-of-no-name": "os.memfd_create('m')",
    "holds-memory-to-be-shared": "import mmap; mmap.mmap(-1, 4096)",
    "signals-a-bystander": "os.kill(bystander, 0)",
    "signals-its-parent": "os.kill(os.getppid(), 0)",
    "signals-a-thread-of-others": "call('tgkill', bystander, bystander, 0)",
    "takes-hold-of-a-process": "os.pidfd_open(bystander)",
    "limits-its-parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_NOFILE)",
    "slows-a-bystander": "os.setpriority(os.PRIO_PROCESS, bystander, 19)",
    "moves-a-bystander": "os.sched_setaffinity(bystander, {0})",
    "schedules-a-bystander": "os.sched_setscheduler(bystander, os.SCHED_BATCH, os.sched_param(0))",
    "reads-memory-of-others": "call('process_vm_readv', bystander, None, 0, None, 0, 0)",
    "writes-memory-of-others": "call('process_vm_writev', bystander, None, 0, None, 0, 0)",
    "changes-a-mode": "os.chmod(elsewhere / 'ledger.txt', 0o644)",
    "changes-an-owner": "os.chown(elsewhere / 'ledger.txt', os.getuid(), os.getgid())",
    "changes-a-time": "os.utime(elsewhere / 'ledger.txt')",
    "watches-files": "call('inotify_init1', 0)",
    "shares-memory": "call('shmctl', call('shmget', 0, 4096, 0o600), 0, None)",
    "sends-messages": "call('msgctl', call('msgget', 0, 0o600), 0, None)",
    "makes-a-pipe-with-a-name": "os.mkfifo(f'pipe{os.getpid()}')",
    "starts-a-program": "import subprocess; subprocess.run(['true'])",
    "sets-signals-for-others": "import fcntl; fcntl.fcntl(os.pipe()[0], 8, bystander)",
}

#: What only some users or kernels are let do, or what would do harm where it worked.
DANGEROUS = {
    "traces-a-bystander": "call('ptrace', 16, bystander, None, None)",
    "mounts": "call('mount', None, b'/mnt', b'tmpfs', 0, None)",
    "unmounts": "call('umount2', b'/', 2)",
    "leaves-its-namespace": "call('unshare', 0x10000000)",
    "forks-into-a-namespace": "call('clone', 0x10000000 | 17, 0, None, None, 0)",
    "forks-the-new-way": "call('clone3', None, 0)",
    "changes-the-root": "os.chroot('.')",
    "queues-work-in-the-kernel": "call('io_uring_setup', 8, None)",
    "loads-a-filter": "call('bpf', 0, None, 0)",
    "counts-events": "call('perf_event_open', None, 0, 0, 0, 0)",
    "reads-keys": "call('keyctl', 0, 0, 0)",
    "opens-by-handle": "call('open_by_handle_at', 0, None, 0)",
    "makes-a-device": "os.mknod('disk', 0o60600, os.makedev(8, 0))",
    "types-into-a-terminal": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "handles-page-faults": "call('userfaultfd', 0)",
    "sets-the-clock": "call('clock_settime', 0, None)",
    "loads-a-module": "call('finit_module', 0, b'', 0)",
    "calls-what-came-later": "from grader.sandbox.isolation.seccomp import Libc; Libc().call(600)",
    "calls-in-32-bit-pointers": "from grader.sandbox.isolation.seccomp import Libc\n"
    "Libc().call(0x40000000 + 39)",
}

#: What Python, its libraries and jax do.
HARMLESS = {
    "works-in-its-folder": "import shutil\n"
    "os.makedirs('a/b'); open('a/b/c', 'w').write('x' * 100); os.rename('a/b/c', 'a/d')\n"
    "os.truncate('a/d', 3); assert open('a/d').read() == 'xxx'; shutil.rmtree('a')",
    "makes-files-of-no-name": "import tempfile; tempfile.tempdir = str(scratch)\n"
    "with tempfile.TemporaryDirectory() as folder: open(f'{folder}/x', 'w').write('x')",
    "imports": "import wave, sqlite3, numpy.fft",
    "starts-threads": "t = threading.Thread(target=print, args=('',)); t.start(); t.join()",
    "starts-many-threads": "many = [threading.Thread(target=print, args=('',)) for _ in '1' * 50]\n"
    "[t.start() for t in many]; [t.join() for t in many]",
    "maps-memory-and-files": "import mmap; open('m', 'wb').write(b'x' * 4096)\n"
    "mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)[0]\n"
    "with open('m', 'r+b') as m: mmap.mmap(m.fileno(), 0)[0] = 7",
    "signals-itself": "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)\n"
    "os.kill(os.getpid(), signal.SIGUSR1)",
    "raises-a-signal": "import signal; signal.signal(signal.SIGUSR1, lambda *_: None)\n"
    "signal.raise_signal(signal.SIGUSR1)",
    "talks-to-itself": "import socket; a, b = socket.socketpair(); a.sendall(b'x'); b.recv(1)",
    "limits-itself": "import resource; resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "draws-at-random": "import secrets; open('/dev/urandom', 'rb').read(3); secrets.token_hex()",
    "says-nothing": "open(os.devnull, 'w').write('x')",
    "looks-at-itself": "open('/proc/self/maps').read(), os.listdir('/proc/self/task')",
    "counts-cores": "assert os.cpu_count(); os.sched_getaffinity(0), open('/proc/cpuinfo').read()",
    "asks-whether-files-exist": "assert (repository / 'solution.py').exists()",
    "tells-the-time": "import time; time.localtime(); time.sleep(0.001)",
}


@pytest.fixture(scope="module")
def became(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[bool, str], str]:
    """What came of every snippet, by whether it was confined."""
    asked = [(True, text) for group in (HOSTILE, DANGEROUS, HARMLESS) for text in group.values()]
    asked += [(False, text) for text in HOSTILE.values()]
    folder = tmp_path_factory.mktemp("confined")
    return dict(zip(asked, confined.outcomes(folder, asked), strict=True))


@offered
@pytest.mark.parametrize("snippet", HOSTILE.values(), ids=HOSTILE)
def test_it_is_refused_what_others_may(became: dict[tuple[bool, str], str], snippet: str) -> None:
    assert became[True, snippet] in REFUSALS
    assert became[False, snippet] not in REFUSALS


REFUSALS = {"PermissionError EPERM", "PermissionError EACCES", "OSError EXDEV", "AssertionError "}


@offered
@pytest.mark.parametrize("snippet", DANGEROUS.values(), ids=DANGEROUS)
def test_it_is_refused_what_does_harm(became: dict[tuple[bool, str], str], snippet: str) -> None:
    assert became[True, snippet] in {*REFUSALS, "OSError ENOSYS"}


@offered
@pytest.mark.parametrize("snippet", HARMLESS.values(), ids=HARMLESS)
def test_it_can_still(became: dict[tuple[bool, str], str], snippet: str) -> None:
    assert became[True, snippet] == "done"


@offered
@pytest.mark.parametrize("version", range(1, max(2, LEVEL.landlock_abi)))
def test_an_older_landlock_is_made_up_for(tmp_path: Path, version: int) -> None:
    """By the filter: before version 3 it knows no truncate(), before 6 no signals."""
    found = confined.outcomes(tmp_path, [(True, text) for text in HOSTILE.values()], version)
    assert not [name for name, came in zip(HOSTILE, found, strict=True) if came not in REFUSALS]


JAX = """
import os, pathlib, sys, time
from pallascope.model import Mode
from grader.sandbox import isolation
from pallascope.runs import warmup as warming
folder = pathlib.Path(sys.argv[1])
prepared = isolation.confinement(isolation.Isolation.REQUIRE, never=[pathlib.Path(sys.argv[2])])
if not os.fork():
    os.chdir(folder)
    started = time.perf_counter()
    assert prepared.enforce([folder]).isolated
    print(f"{1000 * (time.perf_counter() - started):.2f} ms", file=sys.stderr)
    warming.run(Mode.STRICT)
    print("ran")
    sys.stdout.flush()
    os._exit(0)
os.wait()
"""


@offered
def test_jax_traces_and_interprets_when_confined(tmp_path: Path) -> None:
    """With races looked for, on two cores: callbacks, threads and XLA's compiler."""
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", JAX, str(tmp_path), os.getcwd()],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.stdout == "ran\n", ran.stderr


def test_the_header_says_the_level() -> None:
    assert str(Level(7, True)) == "isolated: landlock 7 + seccomp"
    assert str(Level(0, True, "no Landlock")) == "not isolated: no Landlock"
    assert not Level(7, False, "no seccomp").isolated


def _without_landlock(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(confine.landlock, "version", refuse)


def test_without_landlock_it_is_said_and_can_be_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    _without_landlock(monkeypatch)
    prepared = isolation.confinement(isolation.Isolation.AUTO)
    assert str(prepared.level).startswith("not isolated: ")
    assert not prepared.readable
    with pytest.raises(NotIsolated, match="isolation is required"):
        isolation.confinement(isolation.Isolation.REQUIRE)


def test_other_systems_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine.sys, "platform", "darwin")
    assert str(isolation.level()) == "not isolated: only Linux has Landlock and seccomp"
