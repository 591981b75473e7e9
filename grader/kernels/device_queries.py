"""JAX's answers about devices, as on the chip that a function is traced for.

Kernel libraries choose block sizes, or a launch without a kernel, by `jax.devices()`,
`jax.default_backend()` or `jax.device_count()`. All of these functions, wherever they were imported
from, ask one function of JAX for the backend. Here, that function answers for the chip where the
question comes from the function that is traced. JAX asks the same function in order to compile and
to run: it gets the devices that are there.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from grader.kernels.jax_internals import (
    ASKED_THROUGH,
    ASKING_ON_BEHALF,
    UnsupportedJax,
    is_source,
)


@dataclass(frozen=True)
class Device:
    """A chip that need not be there, with the attributes of a `jax.Device`.

    JAX accepts it in a mesh and in `jax.device_put` while it traces. Nothing can run on it.
    """

    id: int
    client: Backend

    process_index = host_id = slice_index = core_on_chip = 0

    @property
    def __class__(self) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return jax.Device

    @property
    def platform(self) -> str:
        return self.client.platform

    @property
    def device_kind(self) -> str:
        return self.client.kind

    @property
    def num_cores(self) -> int:
        return self.client.cores

    @property
    def core_count(self) -> int:
        return self.client.cores

    @property
    def compute_capability(self) -> str:
        return self.client.compute_capability

    @property
    def local_hardware_id(self) -> int:
        return self.id

    @property
    def coords(self) -> list[int]:
        return [int(place) for place in np.unravel_index(self.id, _box(self.client.count))]

    def memory_stats(self) -> None:
        """JAX's answer for devices that count nothing."""

    def __repr__(self) -> str:
        return f"Device(id={self.id}, device_kind={self.device_kind!r})"


@dataclass(frozen=True)
class Backend:
    """The chips that `jax.devices()` is to give: so many (`count`), all of one process."""

    platform: str
    kind: str
    cores: int
    count: int = 1
    compute_capability: str = ""
    platform_version: str = ""

    def devices(self) -> list[Any]:
        return [Device(number, self) for number in range(self.count)]

    local_devices = devices

    def device_count(self) -> int:
        return self.count

    local_device_count = device_count

    def process_index(self) -> int:
        return 0


def _box(count: int) -> tuple[int, ...]:
    """Three sizes, as even as they can be, of a box with so many places: 4 is (2, 2, 1)."""
    sizes, factor = [1, 1, 1], 2
    while count > 1:
        if count % factor:
            factor += 1
            continue
        sizes[sizes.index(min(sizes))] *= factor
        count //= factor
    return tuple(sizes)


_TRACED_FOR: ContextVar[Backend | None] = ContextVar("traced_for", default=None)


def as_on_tpu(kind: str, cores: int, count: int = 1) -> contextlib.AbstractContextManager[None]:
    """As `count` TPUs with this `device_kind` and number of TensorCores: see `_answering`."""
    return _answering(Backend("tpu", kind, cores, count))


def as_on_gpu(kind: str, cores: int, capability: str) -> contextlib.AbstractContextManager[None]:
    """As a GPU with so many multiprocessors and this compute capability: see `_answering`."""
    return _answering(Backend("gpu", kind, cores, compute_capability=capability))


@contextlib.contextmanager
def _answering(backend: Backend) -> Iterator[None]:
    """Have JAX describe these chips to all that is imported or traced in this block and thread."""
    _install()
    token = _TRACED_FOR.set(backend)
    try:
        yield
    finally:
        _TRACED_FOR.reset(token)


@functools.cache
def _install() -> None:
    """Replace two functions of JAX for the life of the process. Raises UnsupportedJax.

    JAX remembers their answers. So ours ask JAX only where the question isn't about a chip.
    """
    from jax.extend import backend

    from grader.kernels.jax_internals import xla_bridge

    for name, ours, others in (
        ("get_backend", _get_backend, backend),
        ("local_devices", _local_devices, jax),
    ):
        if (usual := getattr(xla_bridge, name, None)) is None:
            raise UnsupportedJax(f"{xla_bridge.__name__}.{name}")
        replacement = functools.wraps(usual)(functools.partial(ours, usual))
        setattr(xla_bridge, name, replacement)
        setattr(others, name, replacement)


def _get_backend(usual: Callable[..., Any], platform: Any = None) -> Any:
    chip = _asked_for(platform)
    return usual(platform) if chip is None else chip


def _local_devices(
    usual: Callable[..., Any],
    process_index: int | None = None,
    backend: Any = None,
    host_id: int | None = None,
) -> Any:
    chip = None if process_index or host_id else _asked_for(backend)
    return usual(process_index, backend, host_id) if chip is None else chip.devices()


def _asked_for(platform: Any) -> Backend | None:
    """The chip that a question is about; None where it is about the devices that are there."""
    chip = _TRACED_FOR.get()
    if chip is None or isinstance(platform, Backend):
        return platform if isinstance(platform, Backend) else None
    names = {"gpu": ("gpu", "cuda")}.get(chip.platform, (chip.platform,))
    return chip if platform in (None, *names) and not _asked_by_jax() else None


def _asked_by_jax() -> bool:
    """Whether JAX itself asks, in order to compile or to run."""
    frame: Any = sys._getframe(1)
    while frame and frame.f_globals.get("__name__") in (*ASKED_THROUGH, __name__):
        frame = frame.f_back
    name = str(frame.f_globals.get("__name__")) if frame else ""
    return is_source(name) and name not in ASKING_ON_BEHALF
