"""libtpu in this process: whether it is there, loading it, its dumps.

libtpu writes schedules to files. Where it writes them is read from the environment when it is
loaded, once per process, and that happens here: in a folder of this process's own, which exists
only during a compilation. jax and libtpu are imported on first use, not before.
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

from pallascope.model import Axes, devices_of
from pallascope.tools.versions import exist_here, only_on_linux, remedy
from pallascope.tpu.chips import Chip

#: XLA:CPU runs what the interpreter runs without the algebraic simplifier, and libtpu reads the
#: same environment. For a TPU, the simplifier belongs to what is predicted.
_EVERY_PASS = {"xla_disable_hlo_passes": ""}

#: Under which libtpu loads where no TPU is, beside other processes that use it, and in silence.
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
#: The listing after register allocation: of the later ones, bundles that only wait are gone.
LISTING = "packed-bundles-post-ra"
#: Else operands may be put into VMEM before the kernel runs, and their traffic goes unseen.
_IN_HBM = {
    "xla_vf_vmem_memory_space_assignment": False,
    "xla_gf_vmem_memory_space_assignment": False,
    "xla_tpu_cmem_memory_space_assignment": False,
}


class CompilerUnavailable(RuntimeError):
    """libtpu can't be used in this process; the text says why, and what to do."""


def why_not() -> str:
    """Why libtpu can't be used here; "" where it can, as far as is known without loading it."""
    if importlib.util.find_spec("libtpu") is None:
        return remedy("tpu") if exist_here() else only_on_linux("libtpu, the TPU's compiler,")
    installed, asked = _versions()
    if asked and _numbers(installed) < _numbers(asked):
        return f"libtpu {installed} is older than jax asks for ({asked}): {remedy('tpu')}"
    return ""


def not_checked(reason: str, more: str = "and its time there") -> str:
    """What is said where `reason` kept the compiler from being asked, about it and `more`."""
    return f"not checked: whether the TPU's compiler accepts it, {more} ({reason})"


def other_version() -> str:
    """A word on a libtpu that is newer than the one that the installed jax asks for, else ""."""
    installed, asked = _versions()
    newer = asked and _numbers(installed)[: len(_numbers(asked))] > _numbers(asked)
    return f"libtpu {installed}, while jax asks for {asked}" if newer else ""


def _versions() -> tuple[str, str]:
    """The libtpu that is installed, and the one that jax's extra "tpu" asks for ("" if none)."""
    try:
        installed = importlib.metadata.version("libtpu")
        wanted = importlib.metadata.requires("jax") or []
    except importlib.metadata.PackageNotFoundError:
        return "", ""
    asked = (re.match(r"libtpu *==? *([\d.]+\*?) *;.*['\"]tpu['\"]", line) for line in wanted)
    return installed, next((found[1] for found in asked if found), "")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))


def lower_together(
    function: Callable[..., Any], args: Sequence[Any], chip: Chip, axes: Axes
) -> Any:
    """Trace and lower what one kernel does on each device of a mesh of the chip's topology.

    Raises CompilerUnavailable, and what jax raises.
    """
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    from pallascope.kernels.lowering import for_chip
    from pallascope.kernels.sharding import split_rows, spread_over

    sizes, names = tuple(size for _, size in axes), tuple(name for name, _ in axes)
    devices = np.array(_devices(chip)[: devices_of(axes)]).reshape(sizes)
    with for_chip(chip.kind, chip.cores, axes):
        spread, whole = spread_over(axes, function, args)
        mesh = Mesh(devices, names, axis_types=jax.sharding.get_abstract_mesh().axis_types)
        split = NamedSharding(mesh, split_rows(axes))
        given = [split if a.shape else NamedSharding(mesh, PartitionSpec()) for a in whole]
        placed = [
            jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding)
            for a, sharding in zip(whole, given, strict=True)
        ]
        launched = jax.jit(lambda *arrays: spread(*arrays), out_shardings=split)
        return launched.trace(*placed).lower(lowering_platforms=("tpu",))


def lower(function: Callable[..., Any], args: Sequence[Any], chip: Chip) -> Any:
    """Trace and lower a function for one device of the chip's topology.

    Raises CompilerUnavailable, and what jax raises.
    """
    import jax

    from pallascope.kernels.lowering import for_chip

    sharding = jax.sharding.SingleDeviceSharding(device(chip))
    placed = [jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=sharding) for a in args]
    with for_chip(chip.kind, chip.cores):
        # A new function each time: jax remembers what it has made of one that it knows, and then
        # compiles nothing, and nothing is written.
        # Without arguments, only the results say for which device it is compiled.
        launched = jax.jit(lambda *arrays: function(*arrays), out_shardings=sharding)
        traced = launched.trace(*placed)
        return traced.lower(lowering_platforms=("tpu",))


def compiled(lowered: Any, **options: int) -> str:
    """Compile what was lowered; the program's scheduled HLO. Raises what the compiler raises."""
    import jax

    # jax would store the program, if it stores any, but can't load it again: there is no TPU.
    stored = "jax_persistent_cache_min_compile_time_secs"
    before = getattr(jax.config, stored)
    jax.config.update(stored, math.inf)
    try:
        return lowered.compile(compiler_options={**_IN_HBM, **_EVERY_PASS, **options}).as_text()
    finally:
        jax.config.update(stored, before)


@contextlib.contextmanager
def dump() -> Iterator[Path]:
    """The folder that libtpu writes to, empty at first and gone afterwards."""
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
def _loader() -> int:
    """The process that has loaded libtpu."""
    return os.getpid()


@functools.cache
def _topology(name: str) -> Any:
    from jax.experimental import topologies

    with _environment():
        try:
            return topologies.get_topology_desc(platform="tpu", topology_name=name)
        except Exception as error:
            what = f"libtpu can't be loaded ({str(error).partition(chr(10))[0]})"
            raise CompilerUnavailable(f"{what}; {other_version() or remedy('tpu')}") from error


def device(chip: Chip) -> Any:
    """A device of the kind, to compile for. Raises CompilerUnavailable."""
    return _devices(chip)[0]


def _devices(chip: Chip) -> Sequence[Any]:
    """All devices of the chip's topology. Raises CompilerUnavailable."""
    if reason := why_not():
        raise CompilerUnavailable(reason)
    if _loader() != os.getpid():
        raise CompilerUnavailable("libtpu was loaded before this process was forked")
    return _topology(chip.topology).devices


@contextlib.contextmanager
def _environment() -> Iterator[None]:
    """What libtpu reads when it is loaded; put back afterwards, since it is for this process."""
    flags = f"--xla_jf_dump_to={_folder()} --xla_jf_dump_llo_text=true "
    flags += f"--xla_jf_dump_llo_pass_label_regex=(^|[^-]){LISTING}$"
    added = {**_ENVIRONMENT, **os.environ}
    added["LIBTPU_INIT_ARGS"] = f"{os.environ.get('LIBTPU_INIT_ARGS', '')} {flags}".strip()
    before = dict(os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
