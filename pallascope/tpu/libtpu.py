"""libtpu in this process: availability, loading, compiler options, dumps.

libtpu dumps schedules to a folder that it reads from the environment when it is loaded, once per
process. Each process has its own folder, which exists only during a compilation. jax and libtpu are
imported on first use.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import importlib.util
import math
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from pallascope.model import Axes, mesh_size
from pallascope.tools.versions import extras_available, install_hint, linux_only_message
from pallascope.tpu.chips import Chip

#: XLA:CPU runs the interpreter's programs without the algebraic simplifier, and libtpu reads the
#: same environment. A prediction for a TPU needs the simplifier.
_ALL_PASSES = {"xla_disable_hlo_passes": ""}

#: Lets libtpu load without a TPU, next to other processes that use it, and without output.
_ENVIRONMENT = {
    "TPU_SKIP_MDS_QUERY": "1",
    "TPU_ACCELERATOR_TYPE": "v5litepod-4",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_WORKER_ID": "0",
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_LOG_DIR": "disabled",
    "TPU_STDERR_LOG_LEVEL": "3",
    "TPU_MIN_LOG_LEVEL": "3",
}
#: The listing after register allocation; later listings leave out bundles that only wait.
LISTING = "packed-bundles-post-ra"
#: Otherwise operands may be put into VMEM before the kernel runs, which hides their traffic.
_OPERANDS_IN_HBM = {
    "xla_vf_vmem_memory_space_assignment": False,
    "xla_gf_vmem_memory_space_assignment": False,
    "xla_tpu_cmem_memory_space_assignment": False,
}


class CompilerUnavailable(RuntimeError):
    """libtpu can't be used in this process; the message has the reason and a remedy."""


def unavailable_reason() -> str:
    """The reason if libtpu can't be used here, otherwise ""; doesn't load libtpu."""
    if importlib.util.find_spec("libtpu") is None:
        return (
            install_hint("tpu")
            if extras_available()
            else linux_only_message("libtpu, the TPU's compiler,")
        )
    installed, required = _versions()
    if required and _numbers(installed) < _numbers(required):
        return f"libtpu {installed} is older than jax asks for ({required}): {install_hint('tpu')}"
    return ""


def not_checked_message(reason: str, subject: str = "and its time there") -> str:
    """The note that, because of `reason`, the compiler's acceptance and `subject` are unchecked."""
    return f"not checked: whether the TPU's compiler accepts it, {subject} ({reason})"


def version_mismatch() -> str:
    """A note if libtpu is newer than the version that the installed jax requires, otherwise ""."""
    installed, required = _versions()
    newer = required and _numbers(installed)[: len(_numbers(required))] > _numbers(required)
    return f"libtpu {installed}, while jax asks for {required}" if newer else ""


def _versions() -> tuple[str, str]:
    """The installed libtpu, and the one that jax's extra "tpu" requires ("" if none)."""
    try:
        installed = importlib.metadata.version("libtpu")
        requirements = importlib.metadata.requires("jax") or []
    except importlib.metadata.PackageNotFoundError:
        return "", ""
    matches = (
        re.match(r"libtpu *==? *([\d.]+\*?) *;.*['\"]tpu['\"]", line) for line in requirements
    )
    return installed, next((match[1] for match in matches if match), "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def lower_for_mesh(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, axes: Axes
) -> Any:
    """Trace and lower a kernel for a mesh of devices of the chip's topology.

    Raises CompilerUnavailable; propagates exceptions from jax.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from pallascope.kernels.lowering import for_chip
    from pallascope.kernels.sharding import split_rows, spread_over

    sizes, names = tuple(size for _, size in axes), tuple(name for name, _ in axes)
    devices = np.array(_devices(chip)[: mesh_size(axes)]).reshape(sizes)
    with for_chip(chip.kind, chip.cores, axes):
        spread, whole = spread_over(axes, function, args)
        mesh = Mesh(devices, names, axis_types=jax.sharding.get_abstract_mesh().axis_types)
        split = NamedSharding(mesh, split_rows(axes))
        shardings = [split if a.shape else NamedSharding(mesh, PartitionSpec()) for a in whole]
        placed = [
            jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)
            for a, sharding in zip(whole, shardings, strict=True)
        ]
        launched = jax.jit(lambda *arrays: spread(*arrays), out_shardings=split)
        return launched.trace(*placed).lower(lowering_platforms=("tpu",))


def lower(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> Any:
    """Trace and lower a function for one device of the chip's topology.

    Raises CompilerUnavailable; propagates exceptions from jax.
    """
    import jax

    from pallascope.kernels.lowering import for_chip

    sharding = jax.sharding.SingleDeviceSharding(device(chip))
    placed = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    with for_chip(chip.kind, chip.cores):
        # A new function each time, because jax caches by function: a cached one isn't compiled
        # again, and libtpu would dump nothing.
        # Without arguments, only out_shardings names the device to compile for.
        launched = jax.jit(lambda *arrays: function(*arrays), out_shardings=sharding)
        traced = launched.trace(*placed)
        return traced.lower(lowering_platforms=("tpu",))


def compiled(lowered: Any, **options: int) -> str:
    """Compile a lowered program to scheduled HLO. Propagates exceptions from the compiler."""
    import jax

    # jax would store the program in its cache, but couldn't load it again: there is no TPU.
    option = "jax_persistent_cache_min_compile_time_secs"
    previous = getattr(jax.config, option)
    jax.config.update(option, math.inf)
    try:
        return lowered.compile(
            compiler_options={**_OPERANDS_IN_HBM, **_ALL_PASSES, **options}
        ).as_text()
    finally:
        jax.config.update(option, previous)


@contextlib.contextmanager
def dump() -> Iterator[Path]:
    """The folder that libtpu dumps to, empty at first and removed afterwards."""
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)  # there if anything else was compiled in this process
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@functools.cache
def _folder() -> Path:
    """The name of a folder that no other process has."""
    path = tempfile.mkdtemp(prefix="pallas-katas-tpu-")
    os.rmdir(path)
    return Path(path)


@functools.cache
def _loaded_by_pid() -> int:
    """The process that loaded libtpu."""
    return os.getpid()


@functools.cache
def _topology(name: str) -> Any:
    from jax.experimental import topologies

    with _environment():
        try:
            return topologies.get_topology_desc(platform="tpu", topology_name=name)
        except Exception as error:
            what = f"libtpu can't be loaded ({str(error).partition(chr(10))[0]})"
            raise CompilerUnavailable(
                f"{what}; {version_mismatch() or install_hint('tpu')}"
            ) from error


def device(chip: Chip) -> Any:
    """A device of the chip's kind to compile for. Raises CompilerUnavailable."""
    return _devices(chip)[0]


def _devices(chip: Chip) -> Sequence[Any]:
    """All devices of the chip's topology. Raises CompilerUnavailable."""
    if reason := unavailable_reason():
        raise CompilerUnavailable(reason)
    if _loaded_by_pid() != os.getpid():
        raise CompilerUnavailable("libtpu was loaded before this process was forked")
    return _topology(chip.topology).devices


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """The environment in which libtpu is loaded, restored afterwards."""
    flags = f"--xla_jf_dump_to={_folder()} --xla_jf_dump_llo_text=true "
    flags += f"--xla_jf_dump_llo_pass_label_regex=(^|[^-]){LISTING}$"
    added = {**_ENVIRONMENT, **os.environ}
    added["LIBTPU_INIT_ARGS"] = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {flags}".strip()
    previous = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(previous)
