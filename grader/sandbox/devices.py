"""Which backend this machine offers, and how kernels run on it. Does not import jax.

    backend   auto          why
    cpu       strict        the TPU interpreter: uninitialised memory is NaN, two cores, races found
    gpu       interpret     the plain interpreter, compiled by XLA
    tpu       compiled      the kernel itself

JAX is told what was decided here (`environment`), so that the header and the run cannot disagree.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.model import Device, Mode
from grader.tools.versions import versions

AUTO = "auto"
MODES = (AUTO, *(mode.value for mode in Mode))
GOOGLE = "0x1ae0"  # the PCI vendor of a TPU
_NETWORK_DEVICES = ("0x02", "0x01")  # PCI classes that Google's virtual machines also carry

#: Compiling takes a third of the time where XLA emits each operation the way it did before its
#: fusion emitters, in one piece. XLA ends a process that passes a flag which it does not know, so
#: these are for versions of jaxlib that were seen to know them: up to 0.11.0; 0.11.2 does not.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
QUICK_UNTIL = (0, 11, 0)


class ModeError(ValueError):
    """The mode asked for cannot be had on this machine."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What this machine has: read once, so that the choice can be tested without it."""

    tpu: bool
    gpu: bool
    platforms: str = ""  # JAX_PLATFORMS, where it is set


def probe(environ: Mapping[str, str], root: Path = Path("/")) -> Hardware:
    """Look for accelerators that the installed jax could use, in device files alone."""
    tpu = _installed("libtpu") and any(map(_is_tpu, root.glob("sys/bus/pci/devices/*")))
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin")
    gpu = (root / "dev/nvidiactl").exists() or (root / "dev/kfd").exists()
    gpu = gpu and any(map(_installed, plugins))
    return Hardware(tpu, gpu, environ.get("JAX_PLATFORMS", ""))


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _is_tpu(device: Path) -> bool:
    try:
        vendor = (device / "vendor").read_text().strip()
        kind = (device / "class").read_text().strip()
    except OSError:
        return False
    return vendor == GOOGLE and not kind.startswith(_NETWORK_DEVICES)


def choose(asked: str, hardware: Hardware) -> Device:
    """The device and mode of a session that was asked for `asked` (one of MODES).

    Raises ModeError for a mode that this machine cannot offer.
    """
    backend, reason = _backend(hardware)
    if asked == AUTO:
        mode = {"cpu": Mode.STRICT, "gpu": Mode.INTERPRET, "tpu": Mode.COMPILED}[backend]
        return Device(backend, mode, reason)
    mode = Mode(asked)
    asked_for = f"--kata-mode {asked}"
    if mode is Mode.STRICT:
        return Device("cpu", mode, asked_for)  # the TPU interpreter simulates a TPU on the CPU
    if mode is Mode.COMPILED and backend != "tpu":
        raise ModeError(f"{asked_for} needs a TPU; here is a {backend} ({reason})")
    return Device(backend, mode, asked_for)


def _backend(hardware: Hardware) -> tuple[str, str]:
    if hardware.platforms:
        first = hardware.platforms.split(",")[0].strip()
        backend = {"cuda": "gpu", "rocm": "gpu"}.get(first, first)
        if backend not in ("cpu", "gpu", "tpu"):
            raise ModeError(f"JAX_PLATFORMS={hardware.platforms}: katas run on cpu, gpu or tpu")
        return backend, f"JAX_PLATFORMS={hardware.platforms}"
    if hardware.tpu:
        return "tpu", "a TPU is here"
    if hardware.gpu:
        return "gpu", "a GPU is here, no TPU"
    return "cpu", "no TPU or GPU here"


def environment(device: Device, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ`, and the variables under which JAX starts on this device, quietly.

    An interpreted case is compiled once and run once, so optimising what XLA compiles costs more
    than it saves (a quarter of a matmul case's CPU time). And XLA must not keep more precision
    than the kernel asks for: a value rounded to bfloat16 is rounded, as it would be on a TPU.
    """
    added = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_SKIP_MDS_QUERY": "1"}
    if device.backend == "cpu":
        # Accelerators are JAX's own choice; asked for by name, one that is missing is an error.
        added["JAX_PLATFORMS"] = "cpu"
    if device.mode is not Mode.COMPILED:
        flags = "--xla_backend_optimization_level=0 --xla_allow_excess_precision=false"
        flags = f"{flags} {_quick_to_compile(versions()['jaxlib'])}"
        added["XLA_FLAGS"] = f"{flags} {environ.get('XLA_FLAGS', '')}".strip()
    return {**environ, **added}


def _quick_to_compile(jaxlib: str | None) -> str:
    """The flags that this version of jaxlib is known to know."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", jaxlib or "")[:3])
    return QUICK_TO_COMPILE if (0,) < numbers <= QUICK_UNTIL else ""


def in_words(device: Device) -> str:
    """One line for the header: backend, mode and why."""
    how = {
        Mode.STRICT: "strict: TPU interpreter, NaN for unwritten memory, two cores, race detection",
        Mode.INTERPRET: "interpret: plain interpreter, forgives much that a TPU does not",
        Mode.COMPILED: "compiled",
    }
    return f"{device.backend} ({device.why}), {how[device.mode]}"
