"""The table of GPUs, and tracing and lowering for a GPU that isn't here, with jax alone.

Sources of the numbers:

sheet     NVIDIA's data sheets of the H100 SXM5 and of the HGX B200
guide     CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
xla       the descriptions of the two chips that XLA ships for compiling without one
peak      derived from the sheet's peak: clock = peak / (2 * multiply-adds a cycle)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pallascope.tpu.hlo import LoweredProgram

_KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class GpuChip:
    """One GPU. Sizes in bytes; "of an SM" is of one streaming multiprocessor."""

    name: str
    title: str  # the CUDA driver's name for it
    capability: tuple[int, int]
    multiprocessors: int
    clock: float  # Hz, the highest
    bandwidth: float  # of HBM, bytes a second
    memory: int
    l2: int
    peak: float  # operations a second of the tensor cores, bfloat16 or float16, without sparsity
    tensor_memory: int  # of an SM, for tcgen05's accumulators; 0 if there is none
    shared: int = 228 * _KIB  # of an SM (guide)
    shared_of_block: int = 227 * _KIB  # the most for one block (guide)
    shared_reserved: int = _KIB  # of each block, by CUDA itself (guide)
    shared_unit: int = 128  # allocations are multiples of it
    registers: int = 64 * _KIB  # of an SM, of 32 bits each (guide)
    registers_of_thread: int = 255  # (guide)
    register_unit: int = 256  # allocations of a warp are multiples of it
    parts: int = 4  # of an SM, each with its share of the registers and of the warps
    warps: int = 64  # resident on an SM (guide)
    blocks: int = 32  # resident on an SM (guide)
    threads_of_block: int = 1024  # (guide)

    @property
    def target(self) -> str:
        """The architecture for ptxas, with the features of this generation alone."""
        return f"sm_{self.capability[0]}{self.capability[1]}a"


_ALL = (
    GpuChip(
        name="h100",
        title="NVIDIA H100 80GB HBM3",
        capability=(9, 0),
        multiprocessors=132,  # sheet
        clock=1.98e9,  # xla
        bandwidth=3352.32e9,  # xla; sheet: 3.35e12
        memory=84942979072,  # xla
        l2=50 << 20,  # sheet
        peak=989.4e12,  # sheet
        tensor_memory=0,
    ),
    GpuChip(
        name="b200",
        title="NVIDIA B200",
        capability=(10, 0),
        multiprocessors=148,  # xla
        clock=1.965e9,  # xla
        bandwidth=7672e9,  # xla; sheet: up to 8e12
        memory=191503470592,  # xla
        l2=132644864,  # xla
        peak=2250e12,  # sheet: half of the 4.5e15 with sparsity
        tensor_memory=256 * _KIB,  # guide: 512 columns of 128 lanes of 32 bits
    ),
)


@dataclass(frozen=True, slots=True)
class Peaks:
    """One product's peaks: bytes of HBM and the tensor cores' bfloat16 operations, a second."""

    bandwidth: float
    operations: float


#: By the driver's names: products of one generation differ (sheets of each).
_PEAKS = {
    **{chip.title: Peaks(chip.bandwidth, chip.peak) for chip in _ALL},
    "NVIDIA H200": Peaks(4.8e12, 989.4e12),
    "NVIDIA H100 PCIe": Peaks(2.0e12, 756e12),
}

CHIPS = {chip.name: chip for chip in _ALL}
DEFAULT = "h100"


def named(name: str) -> GpuChip:
    """The chip with this name. Raises ValueError with all names."""
    if name not in CHIPS:
        raise ValueError(f"unknown GPU {name!r}: choose from {', '.join(CHIPS)}")
    return CHIPS[name]


def peaks_of(title: str) -> Peaks | None:
    """The peaks of the GPU with this name in the driver; None if it is unknown."""
    return _PEAKS.get(title)


def description(chip: GpuChip) -> str:
    """XLA's description of a chip that isn't here: the text of a GpuTargetConfigProto."""
    major, minor = chip.capability
    device = {
        "threads_per_block_limit": chip.threads_of_block,
        "threads_per_warp": 32,
        "shared_memory_per_block": 48 * _KIB,
        "shared_memory_per_core": chip.shared,
        "shared_memory_per_block_optin": chip.shared_of_block,
        "threads_per_core_limit": chip.warps * 32,
        "core_count": chip.multiprocessors,
        "fpus_per_core": 128,
        "block_dim_limit_x": (1 << 31) - 1,
        "block_dim_limit_y": (1 << 16) - 1,
        "block_dim_limit_z": (1 << 16) - 1,
        "registers_per_core_limit": chip.registers,
        "registers_per_block_limit": chip.registers,
        "memory_bandwidth": round(chip.bandwidth),
        "l2_cache_size": chip.l2,
        "clock_rate_ghz": chip.clock / 1e9,
        "device_memory_size": chip.memory,
    }
    fields = " ".join(f"{name}: {value}" for name, value in device.items())
    return (
        f"gpu_device_info {{ {fields}"
        f" cuda_compute_capability {{ major: {major} minor: {minor} }} }}"
        ' platform_name: "CUDA" dnn_version_info { major: 9 }'
        " runtime_version { major: 12 minor: 9 }"
        f' device_description_str: "{chip.title}"'
    )


def program_of(function: Callable[..., Any], args: Sequence[Any], chip: GpuChip) -> LoweredProgram:
    """Trace and lower `function(*args)` for a chip. Propagates exceptions from jax."""
    import jax

    from pallascope.tpu.hlo import program_from_export

    with traced_for(chip):
        # A new function each time, because jax caches lowered functions.
        traced = jax.jit(lambda *arrays: jax.tree.leaves(function(*arrays)))
        return program_from_export(jax.export.export(traced, platforms=["cuda"])(*args))


@contextlib.contextmanager
def traced_for(chip: GpuChip) -> Iterator[None]:
    """Trace and lower as on this GPU: Mosaic GPU asks the device for its compute capability.

    A function that asks JAX for its devices gets the answers of that GPU.
    """
    from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

    from pallascope.kernels.lowering import as_on_gpu

    capability = ".".join(map(str, chip.capability))

    class Device(AbstractDevice):
        @property
        def compute_capability(self) -> str:
            return capability

    device = Device(device_kind=chip.title, num_cores=chip.multiprocessors, platform="cuda")
    with (
        as_on_gpu(chip.title, chip.multiprocessors, capability),
        use_abstract_mesh(AbstractMesh((), (), abstract_device=device)),
    ):
        yield
