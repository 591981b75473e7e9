"""A worker's environment: variables with jax's backend and XLA's flags, and its folder.

    N/out, N/err    its stdout, and its stderr with faulthandler's output; it holds them open
    N/scratch       its current folder, also for temporary files

A worker doesn't know other workers' folders. A learner's code may have replaced the files, so
reading them doesn't follow links.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.verdict import Device
from pallascope.model import Mode
from pallascope.runs.run_process import interpreter_flags
from pallascope.tools.text import printable, shortened

#: The variables that are passed on, by names and by prefixes. Others may be secrets of the person
#: who grades, and a kata's code could print them.
_NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TZ", "LANG", "LANGUAGE"),
    *("TMPDIR", "TEMP", "TMP", "NPROC", "VIRTUAL_ENV", "CONDA_PREFIX", "DEBUGINFOD_URLS"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE"),
)
_BEGINNINGS = (
    *("LC_", "LD_", "DYLD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "MKL_", "OPENBLAS_", "NVPL_"),
    *("JAX_", "XLA_", "TPU_", "LIBTPU_", "MOSAIC_", "PALLAS_", "PJRT_", "TF_CPP_", "TF_XLA_"),
    *("JAXTYPING_", "BEARTYPE_", "CUDA_", "ROCM_", "ROCR_", "HIP_", "HSA_", "NCCL_", "MLIR_"),
    *("LLVM_", "TRITON_", "MEGASCALE_", "CLOUD_TPU_", "COV_CORE_", "COVERAGE_"),
)
#: These choose jax's backend and its plugins, which only this module decides.
_BACKENDS = (
    *("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_XLA_BACKEND", "JAX_DEFAULT_DEVICE"),
    "PJRT_NAMES_AND_LIBRARY_PATHS",
)
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python, jax and the compilers read."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _NAMES or name.startswith(_BEGINNINGS))
        and not (name in _BACKENDS or _SECRET.search(name))
    }


def environment(device: Device, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of `environ` that are passed on, and those that start JAX on this device."""
    added = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_SKIP_MDS_QUERY": "1"}
    # The TPU is requested by name, so that jax raises an error with a reason if it can't be used.
    added["JAX_PLATFORMS"] = "cpu" if device.backend == "cpu" else f"{device.backend},cpu"
    if device.mode is not Mode.COMPILED:
        added["XLA_FLAGS"] = interpreter_flags(environ)
    return {**passed_on(environ), **added}


# ---- the folder ----

READ_MOST = 1 << 26  # bytes from the start of a process's stdout
COMPLAINT_MOST = 1 << 20  # bytes from the end of its stderr


@dataclass(frozen=True, slots=True)
class WorkerFiles:
    """The files of one worker, below `folder`."""

    folder: Path

    @property
    def out(self) -> Path:
        return self.folder / "out"

    @property
    def err(self) -> Path:
        return self.folder / "err"

    @property
    def scratch(self) -> Path:
        return self.folder / "scratch"

    @property
    def writable(self) -> tuple[Path, ...]:
        """The files and folders that the worker may write."""
        return self.scratch, self.out, self.err

    def make(self) -> None:
        """Make the folder, for this user alone."""
        self.folder.mkdir(mode=0o700)
        self.scratch.mkdir()

    def move_in(self) -> int:
        """Let this process work and print in its folder. Its stdin is empty from then on.

        Returns a second descriptor of `out`, for `take_printed`: a kata may close the first.
        """
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for file, descriptor in ((self.out, 1), (self.err, 2)):
            opened = os.open(file, os.O_CREAT | os.O_RDWR | os.O_APPEND, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)
        os.chdir(self.scratch)
        tempfile.tempdir = os.environ["TMPDIR"] = str(self.scratch)
        return os.dup(1)

    def take_printed(self, out: int) -> str:
        """This process's output since the last call. Empties the file.

        `out` is the descriptor that `move_in` returned. Every level of isolation allows this; with
        Landlock before version 3, the filter only refuses to truncate a file by its path.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # a kata may have closed it, or replaced it
                stream.flush()
        text = _text(self.out)
        with contextlib.suppress(OSError):  # a kata may have closed this one, too
            os.ftruncate(out, 0)
        return text

    def printed(self) -> str:
        """The worker's output that wasn't taken, shortened."""
        return printable(shortened(_text(self.out).strip()))

    def complained(self) -> str:
        """The output of faulthandler and of native libraries."""
        return printable(_text(self.err, COMPLAINT_MOST).strip())

    def remove(self) -> None:
        """Remove the folder and everything in it."""
        removed(self.folder)


def removed(folder: Path) -> None:
    """Remove a folder that learners' code has written to, however deep it is."""
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except RecursionError:  # before Python 3.13
        subprocess.run(["rm", "-rf", str(folder)], check=False)


def _text(file: Path, last: int = 0) -> str:
    """The file's text, shortened if it is huge, or its `last` bytes; "" if it doesn't exist."""
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with contextlib.suppress(OSError), open(os.open(file, flags), "rb") as opened:
        found = os.fstat(opened.fileno())
        if stat.S_ISREG(found.st_mode) and last:
            opened.seek(max(0, found.st_size - last))
            return opened.read(last).decode(errors="replace")
        if stat.S_ISREG(found.st_mode):
            text = opened.read(READ_MOST).decode(errors="replace")
            return shortened(text, READ_MOST, max(0, found.st_size - READ_MOST))
    return ""
