"""Registers, spills, occupancy, shared memory and instructions of a kernel.

Registers and spills come from the output of `ptxas -v` in CUDA 12.9.

The instruction mix comes from nvdisasm's listing of the GPU's code. The names are those of CUDA's
binary utilities, "Instruction Set Reference" for Hopper and for Blackwell. Counts are instructions
in the listing, not executions.

The occupancy is the number of blocks that a multiprocessor holds at the same time, by the formula
of CUDA's Occupancy Calculator (cuda_occupancy.h) for compute capability 9.0 and 10.0: the least of
the limits by warps, registers and shared memory. Registers are allocated per warp in units of 256,
from the warp's quarter of the multiprocessor; shared memory in units of 128 bytes, and CUDA takes
1 KiB of each block.

Allocations in shared memory are read from the kernel's trace.

The launch's shape is read from the MLIR of Mosaic GPU's first pass. The file holds the module after
each pass, tens of megabytes in all. It is read up to the launch, which is within the first few
hundred lines of the first module.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pallascope.gpu.gpus import GpuChip

_USED = re.compile(r"Used (\d+) registers(?:, used (\d+) barriers)?(.*)")
_STATIC = re.compile(r"(\d+) bytes smem")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_ENTRY = re.compile(r"Compiling entry function '([^']+)' for '(\w+)'")
_TOLD = re.compile(r"^ptxas (?:warning *|info *: \((C\d+)\)|[^;]*; info *) *:? *(.+)$")


@dataclass(frozen=True, slots=True)
class Resources:
    """One kernel's registers per thread, and its bytes per thread for the stack and for spills.

    `static_shared` is in bytes per block. `barriers` are hardware barriers, as for bar.sync, not
    mbarriers in shared memory. `told` are ptxas's other remarks, each once.
    """

    target: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    barriers: int
    static_shared: int
    told: tuple[str, ...] = ()

    @property
    def spills(self) -> bool:
        return bool(self.spill_stores or self.spill_loads)


def read_resources(text: str) -> Resources | None:
    """Read ptxas's output; None if it names no entry function with its registers."""
    entry, used, frame = _ENTRY.search(text), _USED.search(text), _FRAME.search(text)
    if not (entry and used):
        return None
    static = _STATIC.search(used[3])
    stack, stores, loads = map(int, frame.groups()) if frame else (0, 0, 0)
    return Resources(
        target=entry[2],
        registers=int(used[1]),
        spill_stores=stores,
        spill_loads=loads,
        stack=stack,
        barriers=int(used[2] or 0),
        static_shared=int(static[1]) if static else 0,
        told=_remarks(text),
    )


def _remarks(text: str) -> tuple[str, ...]:
    """Warnings and numbered advice, without the PTX lines to which they refer."""
    found = (_TOLD.match(line) for line in text.splitlines())
    shown = (each[2] for each in found if each and (each[1] or "warning" in each[0]))
    plain = (re.sub(r" in around line \d+| in function '[^']*'", "", one) for one in shown)
    return tuple(dict.fromkeys(plain))


#: The families of instructions; an instruction belongs to one of them at most. A bulk copy's first
#: modifier is its direction: UBLKCP.S.G into shared memory, UBLKCP.G.S out of it.
FAMILIES: dict[str, tuple[str, ...]] = {
    "wgmma": ("HGMMA", "QGMMA", "IGMMA", "BGMMA"),
    "tcgen05": ("UTCHMMA", "UTCQMMA", "UTCIMMA", "UTCOMMA", "UTCMXQMMA"),
    "mma": ("HMMA", "QMMA", "IMMA", "DMMA", "BMMA", "OMMA"),
    "tensor memory": ("LDTM", "LDT", "STTM", "STT", "UTCCP", "UTCSHIFT"),
    "TMA loads": ("UTMALDG", "UBLKCP.S"),
    "TMA stores": ("UTMASTG", "UTMAREDG", "UBLKCP.G", "UBLKRED"),
    "cp.async": ("LDGSTS",),
    "mbarrier": ("SYNCS", "UTCBAR"),
    "bar.sync": ("BAR", "UCGABAR_ARV", "UCGABAR_WAIT"),
    "global loads": ("LDG", "LD"),
    "global stores": ("STG", "ST", "RED", "REDG", "ATOMG", "ATOM"),
    "shared loads": ("LDS", "LDSM"),
    "shared stores": ("STS", "STSM", "STAS"),
    "local loads": ("LDL",),
    "local stores": ("STL",),
    "setmaxnreg": ("USETMAXREG",),
}
_FAMILY = {name: family for family, names in FAMILIES.items() for name in names}
_INSTRUCTION = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P[T\d]+\s+)?([A-Z][A-Z0-9_]*)(\.\w+)?")
#: Fillers of the program's last line.
_PADDING = ("NOP",)


@dataclass(frozen=True, slots=True)
class Mix:
    """The number of instructions, and of those in each family, in the order of FAMILIES."""

    instructions: int
    families: tuple[tuple[str, int], ...]

    def count(self, family: str) -> int:
        """Raises KeyError for an unknown family."""
        return {**dict.fromkeys(FAMILIES, 0), **dict(self.families)}[family]


def read_mix(listing: str) -> Mix | None:
    """Read a listing; None if it has no instruction."""
    found = [each.groups() for each in _INSTRUCTION.finditer(listing)]
    names = [(name, f"{name}{modifier or ''}") for name, modifier in found if name not in _PADDING]
    if not names:
        return None
    counted = Counter(_FAMILY.get(name) or _FAMILY.get(longer) for name, longer in names)
    return Mix(len(names), tuple((f, counted[f]) for f in FAMILIES if counted[f]))


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Blocks and warps on one multiprocessor, what limits them, and the share of its warps."""

    blocks: int
    warps: int
    bound: str
    share: float


def occupancy(chip: GpuChip, threads: int, registers: int, shared: int) -> Occupancy:
    """The occupancy for this many threads and shared bytes a block, and registers a thread.

    0 blocks mean that it can't be launched. Raises ValueError for a block without threads.
    """
    if threads < 1:
        raise ValueError(f"a block has at least one thread, not {threads}")
    warps = -(-threads // 32)
    by = {
        "warps": chip.warps // warps if threads <= chip.threads_of_block else 0,
        "registers": _warps_by_registers(chip, registers) // warps,
        "shared memory": _blocks_by_shared(chip, shared),
        "blocks": chip.blocks,
    }
    blocks = min(by.values())
    bound = " and ".join(what for what, most in by.items() if most == blocks)
    return Occupancy(blocks, blocks * warps, bound, blocks * warps / chip.warps)


def _warps_by_registers(chip: GpuChip, registers: int) -> int:
    if registers > chip.registers_of_thread:
        return 0
    of_warp = max(_up(registers * 32, chip.register_unit), chip.register_unit)
    return chip.registers // chip.parts // of_warp * chip.parts


def _blocks_by_shared(chip: GpuChip, shared: int) -> int:
    if shared > chip.shared_of_block:
        return 0
    return chip.shared // _up(shared + chip.shared_reserved, chip.shared_unit)


def _up(size: int, unit: int) -> int:
    return -(-size // unit) * unit


#: A Ref in a trace: "Ref<smem>{float32[64,128]}", "Ref<smem>{barrier[2]}".
_REF = re.compile(r"Ref<smem>\{(\w+)\[([\d,]*)\]\}")
_BARRIER = 8


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """One allocation in its final form: tiled, and with one copy for each slot of a pipeline."""

    dtype: str
    shape: tuple[int, ...]
    size: int  # bytes
    name: str = ""  # the kernel's parameter; "" if it has none

    def __str__(self) -> str:
        array = f"{self.dtype}[{','.join(map(str, self.shape))}]"
        return f"{self.name}  {array}" if self.name else array


def buffers_of(function: Callable[..., Any], args: Sequence[Any]) -> tuple[SharedBuffer, ...]:
    """All allocations of the kernels of `function(*args)`, the largest first.

    Propagates exceptions from tracing.
    """
    import jax

    jaxpr = jax.make_jaxpr(lambda *arrays: function(*arrays))(*args).jaxpr
    found = [_buffer(text, name) for text, name in _allocated(jaxpr)]
    return tuple(sorted((b for b in found if b), key=lambda b: -b.size))


def _allocated(jaxpr: Any) -> Iterator[tuple[str, str]]:
    """The Refs that each run_scoped in a jaxpr allocates, at any depth, and their names."""
    from pallascope.kernels.jaxprs import equations, inner_jaxprs

    for equation in equations(jaxpr):
        if equation.primitive.name == "run_scoped":
            for body in inner_jaxprs(equation):
                names = getattr(body.debug_info, "arg_names", None) or ()
                for variable, name in itertools.zip_longest(body.invars, names):
                    if variable is not None:
                        yield str(variable.aval), name if str(name).isidentifier() else ""


def _buffer(text: str, name: str) -> SharedBuffer | None:
    if not (found := _REF.fullmatch(text)):
        return None
    shape = tuple(int(size) for size in found[2].split(",") if size)
    return SharedBuffer(found[1], shape, math.prod(shape) * _bytes(found[1]), name)


def _bytes(dtype: str) -> int:
    """The bytes of an element; an unknown dtype is a kind of barrier."""
    import jax.numpy as jnp

    try:
        return jnp.dtype(dtype).itemsize
    except TypeError:
        return _BARRIER


Extent = tuple[int, int, int]

_CONSTANT = re.compile(r"^\s*(%\w+) = arith\.constant (-?\d+) : (?:index|i\d+)")
_SIZES = re.compile(r"(clusters|blocks|threads)\([^)]*\) in \(([^)]*)\)")
_DYNAMIC = re.compile(r"dynamic_shared_memory_size (%\w+)")
_ONE = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Blocks of the grid, threads of a block, blocks of a cluster; bytes of dynamic shared memory.

    A dimension is 0 if it isn't a constant in the kernel.
    """

    grid: Extent
    threads: Extent
    cluster: Extent = _ONE
    dynamic_shared: int = 0

    @property
    def threads_of_block(self) -> int:
        x, y, z = self.threads
        return x * y * z

    @property
    def blocks(self) -> int:
        x, y, z = self.grid
        return x * y * z


def read_launch(lines: Iterable[str]) -> LaunchShape | None:
    """The first launch in a module's text; None if there is none."""
    constants: dict[str, int] = {}
    for line in lines:
        if found := _CONSTANT.match(line):
            constants[found[1]] = int(found[2])
        elif " gpu.launch " in line:
            return _launch(line, constants)
    return None


def _launch(line: str, constants: dict[str, int]) -> LaunchShape:
    sizes = {found[1]: _extent(found[2], constants) for found in _SIZES.finditer(line)}
    dynamic = _DYNAMIC.search(line)
    return LaunchShape(
        sizes.get("blocks", (0, 0, 0)),
        sizes.get("threads", (0, 0, 0)),
        sizes.get("clusters", _ONE),
        constants.get(dynamic[1], 0) if dynamic else 0,
    )


def _extent(text: str, constants: dict[str, int]) -> Extent:
    """ "%a = %c4, %b = %c1, %c = %c1" as numbers."""
    x, y, z = (constants.get(part.partition("=")[2].strip(), 0) for part in text.split(","))
    return x, y, z
