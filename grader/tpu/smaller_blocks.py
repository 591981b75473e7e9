"""Which smaller blocks of a kernel would fit into VMEM.

A kernel's operands share their block sizes: `bm` is a dimension of x's block, of o's and of the
accumulator's. A KernelCall does not say so, but equal cuts of equal dimensions give it away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from grader.model import KernelCall, Operand, Role
from grader.tpu.tiling import Block, Space, dtype_bits, violations
from grader.tpu.vmem import block_bytes, in_vmem, is_fixed


@dataclass(frozen=True, slots=True)
class Fit:
    """A block, or a scratch buffer's shape, that differs from the kernel's own."""

    name: str
    block: Block


@dataclass(frozen=True, slots=True)
class _Cut:
    """A dimension of the arrays and the size of the blocks along it; all such are one."""

    size: int
    whole: int


@dataclass(frozen=True, slots=True)
class _Part:
    """One operand in VMEM; along each dimension of its block a cut, or a size that is fixed."""

    operand: Operand
    fixed: bool  # its block never moves, as the kernel is
    along: tuple[_Cut | int | None, ...]

    def block(self, sizes: dict[_Cut, int]) -> Block:
        return tuple(sizes[at] if isinstance(at, _Cut) else at for at in self.along)

    def size(self, sizes: dict[_Cut, int]) -> int:
        """Bytes of all its buffers: a block that never moved takes a second once it is cut."""
        block = self.block(sizes)
        buffers = self.operand.buffers
        if self.operand.role is Role.SCRATCH:
            buffers = 1
        elif self.fixed:
            buffers = 1 if block == self.operand.block else max(buffers, 2)
        return block_bytes(self.operand, block) * buffers


def fitting(call: KernelCall, limit: int, wanted: int = 0) -> tuple[Fit, ...]:
    """Blocks and scratch that differ and would fit into `limit` bytes; none if none is found.

    The largest block size is halved, or brought to the next legal size below, until all fits.
    `wanted` is what the compiler asks for as the kernel is: what goes beyond blocks and scratch,
    such as spills, is taken to shrink with them.
    """
    parts = list(_parts(call))
    cuts = dict.fromkeys(at for part in parts for at in part.along if isinstance(at, _Cut))
    sizes = {cut: cut.size for cut in cuts}
    own = sum(part.size(sizes) for part in parts)
    most = limit * min(1.0, own / wanted) if wanted else limit
    while sum(part.size(sizes) for part in parts) > most:
        smaller = {cut: n for cut in sizes if (n := _smaller(cut, parts, sizes))}
        if not smaller:
            return ()
        cut = max(smaller, key=lambda cut: _worth(cut, parts, sizes))
        sizes[cut] = smaller[cut]
    changed = ((part, part.block(sizes)) for part in parts)
    return tuple(Fit(p.operand.name, block) for p, block in changed if block != p.operand.block)


def _parts(call: KernelCall) -> Iterator[_Part]:
    blocks = []
    for operand in (o for o in call.role(Role.OUTPUT, Role.INPUT) if in_vmem(o)):
        dims = zip(operand.block, operand.array.shape, strict=True)
        along = tuple(_Cut(n, whole) if n is not None and n > 1 else n for n, whole in dims)
        blocks.append(_Part(operand, is_fixed(call, operand), along))
    yield from blocks
    for operand in (o for o in call.role(Role.SCRATCH) if in_vmem(o)):
        yield _Part(operand, True, _following(operand, blocks))


def _following(scratch: Operand, blocks: list[_Part]) -> tuple[_Cut | int | None, ...]:
    """Which cuts a scratch buffer's shape goes by: those of a block of its shape, else by size."""
    for part in blocks:
        along = tuple(at for at in part.along if at is not None)
        if tuple(at.size if isinstance(at, _Cut) else at for at in along) == scratch.block:
            return along
    cuts = {at for part in blocks for at in part.along if isinstance(at, _Cut)}

    def one(size: int | None) -> _Cut | int | None:
        same = [cut for cut in cuts if cut.size == size]
        return same[0] if len(same) == 1 else size

    return tuple(map(one, scratch.block))


def _smaller(cut: _Cut, parts: list[_Part], sizes: dict[_Cut, int]) -> int:
    """The next legal size of at most half, with a ragged edge only where there is one; else 0."""
    even = cut.whole % cut.size == 0
    for size in range(sizes[cut] // 2, 0, -1):
        if even and cut.whole % size:
            continue
        if all(_legal(part, {**sizes, cut: size}) for part in parts if cut in part.along):
            return size
    return 0


def _legal(part: _Part, sizes: dict[_Cut, int]) -> bool:
    operand = part.operand
    if operand.role is Role.SCRATCH:
        return True
    space = Space.of(None if operand.space == "default" else operand.space)
    bits = dtype_bits(operand.array.dtype)
    return not violations(part.block(sizes), operand.array.shape, bits, space, moves=True)


def _worth(
    cut: _Cut, parts: list[_Part], sizes: dict[_Cut, int]
) -> tuple[bool, bool, bool, int, int]:
    """What to cut first: of the dimensions that are cut already, the one with the largest blocks.

    Of those that are whole, one of the outputs, since a cut through another makes the kernel add up
    over grid steps; rather one that does not run along the lanes.
    """
    using = [part for part in parts if cut in part.along]
    is_cut = cut.size < cut.whole
    outputs = any(part.operand.role is Role.OUTPUT for part in using)
    rows = any(cut in part.along[:-1] for part in using)
    taken = sum(part.size(sizes) for part in using)
    return is_cut, is_cut or outputs, is_cut or rows, sizes[cut], taken
