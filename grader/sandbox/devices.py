"""Detects TPUs and GPUs, and chooses the mode of a session.

How a session runs kernels, and on which hardware. Does not import jax.
asked for   runs kernels
    auto        in the strict interpreter and, where a TPU is here, what passes on the TPU as well
    strict      in the TPU interpreter: uninitialised memory is NaN, two cores, races found
    interpret   in the plain interpreter
    compiled    on the TPU alone

Interpreters run on the CPU. So with `auto`, the hardware changes no verdict: a launch that is right
in the strict interpreter and wrong on the TPU gets a note.
`environment` tells JAX what was decided here, so that the header and the run cannot disagree.

The environment variables of worker processes: which backend jax takes, and XLA's flags.
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
    """The mode asked for cannot be had on this machine."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What this machine has: read once, so that the choice can be tested without it."""

    tpu: bool
    gpu: bool
    platforms: str = ""  # JAX_PLATFORMS, where it is set

    def offers(self, *names: str) -> bool:
        """Whether JAX_PLATFORMS names one of these backends."""
        return not {name.strip() for name in self.platforms.split(",")}.isdisjoint(names)

    @property
    def usable_tpu(self) -> bool:
        """Whether jax would use a TPU. Where JAX_PLATFORMS asks for one, it has been seen."""
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
    """The device and mode of a session that was asked for `asked` (one of MODES).

    `alone`: no other process of the session grades. A TPU belongs to one process. Raises ModeError
    for a mode that this machine cannot offer.
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
    """In words: the runs that come in addition to the strict one."""
    if hardware.usable_tpu and alone:
        yield "what passes also runs on the TPU here; a difference there is a note"
    elif hardware.usable_tpu:
        yield "nothing runs on the TPU here, which several processes (-n) can't share"
    if hardware.usable_gpu:
        yield "katas for GPUs also run on the GPU here, if it is a Hopper or newer"


def in_words(device: Device) -> str:
    """One line for the header: how kernels are run, and which runs come in addition."""
    how = {
        Mode.STRICT: "strict TPU interpreter: NaN in unwritten memory, two cores, races",
        Mode.INTERPRET: "interpret: plain interpreter on the CPU, forgives much that a TPU does "
        "not; nothing is recorded",
        Mode.COMPILED: "compiled: on the TPU here alone; nothing is recorded",
    }
    return "; ".join([how[device.mode], *device.also])
