"""Which GPU jax can use here, or why none: by files first, then by a process that asks jax.

Where there is no driver, no plugin, or the environment hides every GPU, no process is started. The
process has an environment of its own: that of workers keeps jax on the CPU.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.gpu.chips import Chip
from grader.gpu.toolchain import plugin_installed
from grader.tools.extras import remedy

#: Seconds for a process to import jax and to find the GPU. A driver may take several to wake up.
PATIENCE = 120.0
HOPPER = (9, 0)
NEEDED = "a Hopper (H100, H200) or newer"

#: Runs the process with an environment: its exit code, and what it prints.
Ask = Callable[[Mapping[str, str]], tuple[int, str]]

_MARK = "pallas-katas-gpu:"
_ASK = f"""
import sys
sys.path[:] = {{path!r}}
import jax
device = jax.devices("gpu")[0]
print("{_MARK}", getattr(device, "compute_capability", ""), device.device_kind, sep="\\t")
"""


@dataclass(frozen=True, slots=True)
class Here:
    """The GPU that jax calls `title`, with its compute capability; or `why_not`.

    `none`: there is no sign of any, so there is nothing to tell that is not expected.
    """

    title: str = ""
    capability: tuple[int, int] = (0, 0)
    why_not: str = ""
    none: bool = False

    def why_not_for(self, chip: Chip) -> str:
        """Why a kernel for `chip` is not run here; "" where it can be."""
        if self.why_not:
            return self.why_not
        if self.capability < HOPPER:
            told = ".".join(map(str, self.capability))
            return f"{self.title} has compute capability {told}: kernels need {NEEDED}"
        if self.capability[0] != chip.capability[0]:
            return (
                f"the kernel is for the generation of {chip.title}, and here is {self.title}: "
                "--kata-gpu chooses the other"
            )
        return ""


def here(
    environ: Mapping[str, str],
    root: Path = Path("/"),
    ask: Ask | None = None,
) -> Here:
    """The first GPU that jax can use."""
    if not _driver(root):
        return Here(why_not="no NVIDIA driver is here", none=True)
    if reason := _hidden(environ):
        return Here(why_not=reason)
    if not plugin_installed():
        return Here(why_not=f"a GPU is here; jax's CUDA plugin is not installed ({remedy('gpu')})")
    code, printed = (ask or _asked)(environment(environ))
    return _read(code, printed)


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Of `environ`, what a process that uses the GPU gets: what keeps workers off it is taken out.

    XLA's flags are for what is interpreted on a CPU, and some of them no GPU takes.
    """
    kept = {name: value for name, value in environ.items() if name not in _OFF}
    return {**kept, "JAX_PLATFORMS": "cuda", "TF_CPP_MIN_LOG_LEVEL": "2"}


_OFF = ("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "XLA_FLAGS")


def _driver(root: Path) -> bool:
    """Whether a driver has made its devices: on Linux, or on Windows' Linux."""
    return (root / "dev/nvidiactl").exists() or (root / "dev/dxg").exists()


def _hidden(environ: Mapping[str, str]) -> str:
    """By which variable whoever started this keeps jax from every GPU."""
    platforms = environ.get("JAX_PLATFORMS", "")
    if platforms and not {"cuda", "gpu"} & {name.strip() for name in platforms.split(",")}:
        return f"JAX_PLATFORMS={platforms} keeps jax from the GPU"
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.split(",")[0].strip() in ("", "-1", "NoDevFiles"):
        return f"CUDA_VISIBLE_DEVICES={visible} hides every GPU"
    return ""


def _asked(environ: Mapping[str, str]) -> tuple[int, str]:
    code = _ASK.format(path=sys.path)
    try:
        ran = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 1, f"no answer within {PATIENCE:g} seconds"
    return ran.returncode, ran.stdout.decode(errors="replace")


#: What tells more than the exception that jax raises in the end, which may have no words.
_SIGNS = ("CUDA_ERROR", "CUDA driver", "Unable to load", "cannot open shared object", "cuInit")


def _reason(code: int, printed: str) -> str:
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    if telling := [line for line in lines if any(sign in line for sign in _SIGNS)]:
        return telling[-1]
    if lines and lines[-1] == "AssertionError":
        return "it finds none that works, and does not say why"
    return lines[-1] if lines else f"exit code {code}"


def _read(code: int, printed: str) -> Here:
    told = [line for line in printed.splitlines() if line.startswith(_MARK)]
    if code or not told:
        return Here(why_not=f"jax can't use the GPU: {_reason(code, printed)[:200]}")
    _, capability, title = told[-1].split("\t", 2)
    try:
        major, minor = map(int, capability.split("."))
    except ValueError:
        return Here(why_not=f"jax names no compute capability of {title}")
    return Here(title, (major, minor))
