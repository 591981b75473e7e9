"""Detects TPUs and GPUs, and chooses the mode of a session.

This module doesn't import jax. The modes:

    auto        in the strict interpreter; on a machine with a TPU, passing kernels also run on it
    strict      in the TPU interpreter: uninitialised memory is NaN, two cores, races found
    interpret   in the plain interpreter
    compiled    on the TPU alone

Interpreters run on the CPU. So with `auto`, the hardware changes no verdict: a launch that is right
in the strict interpreter and wrong on the TPU gets a note. `worker_environment.environment` gives
the choice to JAX, so that the header and the run can't disagree.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from grader.verdict import Device
from pallascope.model import Mode

AUTO = "auto"
MODES = (AUTO, *(mode.value for mode in Mode))
GOOGLE = "0x1ae0"  # the PCI vendor of a TPU
_NETWORK_DEVICES = ("0x02", "0x01")  # PCI classes that Google's virtual machines also carry


class ModeError(ValueError):
    """This machine doesn't offer the requested mode."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """This machine's accelerators, as data, so that tests can choose a mode without them."""

    tpu: bool
    gpu: bool
    platforms: str = ""  # JAX_PLATFORMS, where it is set

    def offers(self, *names: str) -> bool:
        """Whether JAX_PLATFORMS names one of these backends."""
        return not {name.strip() for name in self.platforms.split(",")}.isdisjoint(names)

    @property
    def usable_tpu(self) -> bool:
        """Whether jax would use a TPU. If JAX_PLATFORMS names one, it is not looked for."""
        return self.offers("tpu") if self.platforms else self.tpu

    @property
    def usable_gpu(self) -> bool:
        """Whether jax would use a GPU."""
        return self.gpu and (not self.platforms or self.offers("gpu", "cuda", "rocm"))


def probe(environ: Mapping[str, str], root: Path = Path("/")) -> Hardware:
    """Look for accelerators that the installed jax could use, in device files alone."""
    tpu = _installed("libtpu") and any(map(_is_tpu, root.glob("sys/bus/pci/devices/*")))
    plugins = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin")
    drivers = ("dev/nvidiactl", "dev/dxg", "dev/kfd")  # NVIDIA's, Windows' Linux, AMD's
    gpu = any((root / driver).exists() for driver in drivers) and any(map(_installed, plugins))
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


def choose(asked: str, hardware: Hardware, alone: bool = True) -> Device:
    """The device and mode of a session with --kata-mode `asked` (one of MODES).

    `alone`: no other process of the session grades. A TPU belongs to one process. Raises ModeError
    if this machine doesn't offer the mode.
    """
    if asked == AUTO:
        also = tuple(_also(hardware, alone))
        return Device("cpu", Mode.STRICT, also, hardware.usable_tpu and alone)
    mode = Mode(asked)
    if mode is not Mode.COMPILED:
        return Device("cpu", mode)
    if not hardware.usable_tpu:
        set_to = f"JAX_PLATFORMS={hardware.platforms}" if hardware.platforms else "none is here"
        raise ModeError(f"--kata-mode compiled needs a TPU: {set_to}")
    if not alone:
        raise ModeError("--kata-mode compiled uses the TPU from one process: run pytest without -n")
    return Device("tpu", mode)


def _also(hardware: Hardware, alone: bool) -> Iterator[str]:
    """The runs in addition to the strict one, in words."""
    if hardware.usable_tpu and alone:
        yield "kernels that pass also run on this machine's TPU; a difference is a note"
    elif hardware.usable_tpu:
        yield "this machine's TPU isn't used: several processes (-n) can't share it"
    if hardware.usable_gpu:
        yield "katas for GPUs also run on this machine's GPU, if it is a Hopper or newer"


def in_words(device: Device) -> str:
    """One line for the header: how kernels run, and the additional runs."""
    how = {
        Mode.STRICT: "strict TPU interpreter: NaN in unwritten memory, two cores, races",
        Mode.INTERPRET: "interpret: plain interpreter on the CPU, accepts much that a TPU doesn't; "
        "nothing is recorded",
        Mode.COMPILED: "compiled: on this machine's TPU only; nothing is recorded",
    }
    return "; ".join([how[device.mode], *device.also])
