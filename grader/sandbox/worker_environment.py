"""A worker's environment: variables with jax's backend and XLA's flags, and its folder.

    N/out, N/err    its stdout, and its stderr with faulthandler's output; it holds them open
    N/scratch       its current folder, also for temporary files

A worker doesn't know other workers' folders. A learner's code may have replaced the files, so
reading them doesn't follow links.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from grader.verdict import Device
from pallascope.model import Mode
from pallascope.tools.text import printable, shortened
from pallascope.tools.versions import versions

#: Compilation takes a third of the time if XLA doesn't use its fusion emitters, and emits code in
#: one piece. XLA ends a process that passes an unknown flag, so these are only for versions of
#: jaxlib that were seen to know them: up to 0.11.0; 0.11.2 does not.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
QUICK_UNTIL = (0, 11, 0)

#: XLA's algebraic simplifier changes a kernel's results: a product with a mask becomes a select,
#: though NaN * 0 is NaN; exp(x) / exp(y) becomes exp(x - y), which doesn't overflow; log(exp(x)),
#: (x + a) - a and (x * a) / a become x. Mosaic does none of this. Without the simplifier, grading
#: all solutions takes equally long. YNNPACK, which XLA uses for sums and products, leaves out a
#: rounding to bfloat16 within them, whatever the other flags.
AS_WRITTEN = (
    "--xla_allow_excess_precision=false --xla_cpu_experimental_ynn_fusion_type= "
    "--xla_disable_hlo_passes=algsimp"
)


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
    """The variables of `environ` that are passed on, and those that start JAX on this device.

    An interpreted case is compiled once and run once, so XLA's optimizations cost more than they
    save (a quarter of a matmul case's CPU time). And XLA must compute exactly the kernel's
    operations: a value rounded to bfloat16 is rounded, and NaN * 0 is NaN, as on a TPU.
    """
    added = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_SKIP_MDS_QUERY": "1"}
    # The TPU is requested by name, so that jax raises an error with a reason if it can't be used.
    added["JAX_PLATFORMS"] = "cpu" if device.backend == "cpu" else f"{device.backend},cpu"
    if device.mode is not Mode.COMPILED:
        quick = f"--xla_backend_optimization_level=0 {_quick_to_compile(versions()['jaxlib'])}"
        # XLA takes the last value of a flag, so our flags that decide verdicts come last.
        added["XLA_FLAGS"] = f"{quick} {environ.get('XLA_FLAGS', '')} {AS_WRITTEN}"
    return {**passed_on(environ), **added}


def skip_plugins() -> None:
    """Keep jax from loading its plugins in this process, which uses the CPU or a TPU.

    jax loads all installed plugins, such as CUDA's, even if it uses the CPU. A broken plugin would
    end the process.
    """
    names = {entry.value for entry in importlib.metadata.entry_points(group="jax_plugins")}
    with contextlib.suppress(ImportError):
        path = importlib.import_module("jax_plugins").__path__
        names |= {name for _, name, _ in pkgutil.iter_modules(path, "jax_plugins.")}
    for name in names:
        plugin = importlib.util.module_from_spec(ModuleSpec(name, None))
        plugin.initialize = lambda: None  # type: ignore[attr-defined]
        sys.modules[name] = plugin


def _quick_to_compile(jaxlib: str | None) -> str:
    """The flags, if this version of jaxlib is known to accept them."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", jaxlib or "")[:3])
    return QUICK_TO_COMPILE if (0,) < numbers <= QUICK_UNTIL else ""


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
