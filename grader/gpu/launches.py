"""How a kernel is launched, from the MLIR that Mosaic GPU hands to its first pass.

The file holds the module after each pass, tens of megabytes in all. It is read up to the launch,
which the first module has within its first few hundred lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

Extent = tuple[int, int, int]

_CONSTANT = re.compile(r"^\s*(%\w+) = arith\.constant (-?\d+) : (?:index|i\d+)")
_SIZES = re.compile(r"(clusters|blocks|threads)\([^)]*\) in \(([^)]*)\)")
_DYNAMIC = re.compile(r"dynamic_shared_memory_size (%\w+)")
_ONE = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class LaunchShape:
    """Blocks of the grid, threads of a block, blocks of a cluster; bytes of dynamic shared memory.

    A dimension is 0 where the kernel does not say it as a constant.
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
    """The first launch in a module's text; None where it has none."""
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
