"""Parses errors from tracing, lowering or compiling a Mosaic GPU kernel.

The texts are those of jax 0.10.2 and 0.12.0.1 and of CUDA 12.9's ptxas. A text of unknown form
becomes an INTERNAL failure with its full text.
"""

from __future__ import annotations

import enum
import re
import traceback
from dataclasses import dataclass

from pallascope.gpu.gpus import GpuChip
from pallascope.tools.files import user_line


class GpuRefusalKind(enum.Enum):
    """The kind of a refusal."""

    SHARED_MEMORY = "shared memory"  # it needs more than a block may have
    PRIMITIVE = "primitive"  # Mosaic GPU has no rule for a jax operation
    WGMMA = "wgmma"  # shapes, dtypes or layouts that the matrix unit doesn't support
    TMA = "tma"  # a copy that the TMA engine can't do
    SHAPES = "shapes"  # a copy whose two sides have different shapes
    TENSOR_MEMORY = "tensor memory"  # used like another memory, as threads or a Hopper use theirs
    LAYOUT = "layout"  # an array's layout in registers or in shared memory: tiling, swizzle
    THREADS = "threads"  # more threads or barriers than a block may have
    CHIP = "chip"  # an instruction that this generation doesn't have
    TRITON = "triton"  # Pallas' Triton backend, which compiles pallas_call on a GPU
    PTXAS = "ptxas"  # the assembler refuses it
    PYTHON = "python"  # the function raised while it was traced
    TIMEOUT = "timeout"  # the compiler took too long
    ABORT = "abort"  # the compiler ended its process
    INTERNAL = "internal"  # anything else


@dataclass(frozen=True, slots=True)
class GpuRefusal:
    """A refusal: the message, the whole text, and the user's line if it is known.

    Sizes are in bytes, and 0 unless there was too little shared memory.
    """

    kind: GpuRefusalKind
    message: str
    full: str
    line: str = ""
    wanted: int = 0
    limit: int = 0


_ROWS: tuple[tuple[GpuRefusalKind, str, str], ...] = (
    (
        GpuRefusalKind.SHARED_MEMORY,
        r"available shared memory: smem_bytes=(?P<wanted>\d+) > max_smem_bytes=(?P<limit>\d+)",
        "it needs {wanted} bytes of shared memory, and a block may have {limit}",
    ),
    (
        GpuRefusalKind.PRIMITIVE,
        r"(?:Unimplemented primitive in Pallas Mosaic GPU lowering:|Resource estimation does not "
        r"support) (?P<name>[\w-]+)",
        "Mosaic GPU can't do {name}",
    ),
    (
        GpuRefusalKind.WGMMA,
        r"WGMMA requires m and n to be multiples of 64 and 8, got (?P<m>\d+) and (?P<n>\d+)",
        "wgmma takes multiples of 64 rows and of 8 columns; one of these sizes isn't: {m}, {n}",
    ),
    (
        GpuRefusalKind.WGMMA,
        r"accumulator's first dimension must be a multiple of 64, but got (?P<m>\d+)",
        "wgmma's accumulator has a multiple of 64 rows, not {m}",
    ),
    (
        GpuRefusalKind.WGMMA,
        r"Only f16 WGMMA supports transposes",
        "wgmma reads operands of 16 bits in either order, others only with K as the last axis of "
        "both: b as [N, K], transposed by plgpu.transpose_ref",
    ),
    (
        GpuRefusalKind.WGMMA,
        r"When WGMMA (?P<side>lhs|rhs) is passed in as a ref, it must be transformed",
        "wgmma's {side} needs plgpu.TilingTransform and plgpu.SwizzleTransform in its SMEM",
    ),
    (
        GpuRefusalKind.WGMMA,
        r"WGMMA rhs swizzle must match lhs swizzle",
        "wgmma's two operands have different swizzles",
    ),
    (
        GpuRefusalKind.TENSOR_MEMORY,
        r"(?:Loads from|Stores to) TMEM are asynchronous|number of (?:in|out)_tmem_layouts",
        "tensor memory can't be indexed like a Ref to other memory",
    ),
    (
        GpuRefusalKind.TENSOR_MEMORY,
        r"Expected WGMMAAbstractAccumulatorRef got Ref<tmem>",
        "wgmma's accumulator is in registers, and this one is in tensor memory",
    ),
    (
        GpuRefusalKind.TENSOR_MEMORY,
        r"src must be a SMEM reference, got Ref<tmem>",
        "TMA copies out of shared memory, and this is tensor memory",
    ),
    (
        GpuRefusalKind.TENSOR_MEMORY,
        r"MMA barrier must have orders_tensor_core set to True",
        "the tensor cores can't arrive at this barrier: it has no orders_tensor_core=True",
    ),
    (GpuRefusalKind.WGMMA, r"\b(?P<text>(?:WGMMA|wgmma)\b[^\n]{5,160})", "{text}"),
    (
        GpuRefusalKind.LAYOUT,
        r"Swizzle (?P<bytes>\d+) requires the trailing dimension to be of size (?P<size>\d+)",
        "a swizzle of {bytes} bytes needs a tiling whose last size is {size}",
    ),
    (
        GpuRefusalKind.LAYOUT,
        r"must have a number of elements that is a multiple of 128 \(got (?P<got>\d+)\)",
        "a warpgroup's 128 threads share the elements of an array: {got} isn't a multiple of 128",
    ),
    (
        GpuRefusalKind.LAYOUT,
        r"Failed to infer a possible set of layouts",
        "no layouts fit all operations together: sizes that 128 threads can't share, or operands "
        "whose swizzles or tilings differ",
    ),
    (
        GpuRefusalKind.TMA,
        r"number of bits copied along the last dimension to be divisible by 128, but got "
        r"(?P<bits>\d+)",
        "TMA copies multiples of 16 bytes along the last axis, not {bits} bits",
    ),
    (
        GpuRefusalKind.TMA,
        r"only support copying <=256 elements along each dimension, got (?P<shape>\([\d, ]+\))",
        "TMA's box has at most 256 elements along each axis: {shape} needs several copies",
    ),
    (
        GpuRefusalKind.TMA,
        r"all GMEM strides except the last one to be a multiple of 16 bytes",
        "TMA needs an array in HBM whose rows are a multiple of 16 bytes long",
    ),
    (
        GpuRefusalKind.SHAPES,
        r"SMEM reference to have the same shape as the transformed slice: "
        r"(?P<smem>\([\d, ]+\)) != (?P<gmem>\([\d, ]+\))",
        "a copy between {gmem} in global memory and {smem} in shared memory",
    ),
    (
        GpuRefusalKind.SHAPES,
        r"Expected (?:source|destination) shape to be (?P<smem>\([\d, ]+\)), but got "
        r"(?P<gmem>\([\d, ]+\))",
        "a copy between {gmem} in global memory and {smem} in shared memory",
    ),
    (
        GpuRefusalKind.LAYOUT,
        r"Tiling .* does not apply to shape (?P<shape>\([\d, ]+\))",
        "no layout of a warpgroup's registers has the shape {shape}; to broadcast a value for each "
        "row, use lax.broadcast_in_dim(rows, shape, [0])",
    ),
    (
        GpuRefusalKind.THREADS,
        r"(?P<text>Too many CTA barriers requested[^\n.]*)",
        "too many threads or barriers for a block: {text}",
    ),
    (
        GpuRefusalKind.CHIP,
        r"'(?P<op>[\w.]+)' op is not supported on (?P<chip>sm_\w+)",
        "{chip} has no such instruction ({op})",
    ),
    (
        GpuRefusalKind.CHIP,
        r"Instruction '(?P<op>[\w.]+)' not supported on \.target '(?P<chip>sm_\w+)'",
        "{chip} has no such instruction ({op})",
    ),
    (
        GpuRefusalKind.TRITON,
        r"xla\.gpu\.triton",
        "pallas_call goes to Pallas' Triton backend here: launch the kernel with plgpu.kernel",
    ),
    (GpuRefusalKind.PTXAS, r"ptxas (?:fatal|error) *:? *(?P<text>[^\n]+)", "ptxas: {text}"),
)
_COMPILED = tuple((kind, re.compile(pattern), words) for kind, pattern, words in _ROWS)
_LOCATION = re.compile(r'loc\("([^"]+)":(\d+):\d+')


def read_refusal(error: BaseException) -> GpuRefusal:
    """Parse an exception that jax raised while it traced or lowered a function."""
    text = f"{type(error).__name__}: {error}"
    line = user_line(error)
    found = read_text(str(error), text)
    if found:
        return GpuRefusal(found.kind, found.message, text, line, found.wanted, found.limit)
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, AssertionError) and not str(error) and frames:
        return _asserted(frames[-1], text, line)
    kind = GpuRefusalKind.INTERNAL if _is_of_lowering(frames) else GpuRefusalKind.PYTHON
    return GpuRefusal(kind, text.strip().splitlines()[0], text, line)


def read_text(text: str, full: str = "") -> GpuRefusal | None:
    """Parse the compiler's output; None for a text of unknown form."""
    for kind, pattern, words in _COMPILED:
        if found := pattern.search(text):
            named = {name: _grouped(value) for name, value in found.groupdict().items()}
            sizes = {k: int(found[k]) for k in ("wanted", "limit") if k in found.groupdict()}
            return GpuRefusal(kind, words.format(**named), full or text, _place(text), **sizes)
    return None


def too_many_threads(chip: GpuChip, threads: int) -> GpuRefusal:
    """The refusal of a block that is too large: ptxas and XLA compile it; the launch then fails."""
    most = chip.threads_of_block
    message = f"a block of {threads:,} threads, and {chip.name} launches {most:,} at most"
    return GpuRefusal(GpuRefusalKind.THREADS, message, message)


def timed_out(seconds: float) -> GpuRefusal:
    message = f"the compiler has not finished after {seconds:g} s"
    return GpuRefusal(GpuRefusalKind.TIMEOUT, message, message)


def _asserted(frame: traceback.FrameSummary, text: str, line: str) -> GpuRefusal:
    """Explains an assertion of jax without a message."""
    tiles = "tiling" in (frame.line or "")
    if tiles:
        said = "a tiling that doesn't divide the last axes of its array"
        return GpuRefusal(GpuRefusalKind.LAYOUT, said, text, line)
    return GpuRefusal(
        GpuRefusalKind.INTERNAL, f"jax asserts: {(frame.line or '').strip()}", text, line
    )


def _is_of_lowering(frames: traceback.StackSummary) -> bool:
    return any("lowering" in frame.filename or "mlir" in frame.filename for frame in frames)


def _place(text: str) -> str:
    found = _LOCATION.search(text)
    return f"\n  line   {found[1]}:{found[2]}" if found else ""


def _grouped(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() else value
