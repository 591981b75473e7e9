"""Which backend this machine offers, and how kernels run on it. Does not import jax.

    backend   auto          why
    cpu       strict        the TPU interpreter: uninitialised memory is NaN, two cores, races found
    gpu       interpret     the plain interpreter, compiled by XLA
    tpu       compiled      the kernel itself

`environment` tells JAX what was decided here, so that the header and the run cannot disagree.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.model import Device, Mode

AUTO = "auto"
MODES = (AUTO, *(mode.value for mode in Mode))
GOOGLE = "0x1ae0"  # the PCI vendor of a TPU
_NETWORK_DEVICES = ("0x02", "0x01")  # PCI classes that Google's virtual machines also carry


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


def in_words(device: Device) -> str:
    """One line for the header: backend, mode and why."""
    how = {
        Mode.STRICT: "strict: TPU interpreter, NaN for unwritten memory, two cores, race detection",
        Mode.INTERPRET: "interpret: plain interpreter, forgives much that a TPU does not",
        Mode.COMPILED: "compiled",
    }
    return f"{device.backend} ({device.why}), {how[device.mode]}"
