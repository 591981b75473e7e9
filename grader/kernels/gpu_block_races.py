"""Blocks of a grid that write the same elements, on a jax whose interpreter doesn't look.

jax 0.10 runs one block after another and takes that for an order; jax 0.12 knows that a GPU has
none. What is found here is noted in the form of jax's own races.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

_GLOBAL_MEMORY = 0
#: Where a kernel's memory keeps what each block has written, by allocation.
_WRITTEN = "_written_by_blocks"


@contextlib.contextmanager
def between_blocks(note: Callable[[str], object]) -> Iterator[None]:
    """Within it, the first part that two blocks of a kernel write to is noted as a race."""
    if (found := _memory_of_blocks_in_turn()) is None:
        yield
        return
    memory, meet = found
    store, swap = memory.store_buffer_content, memory.swap_buffer_content

    def look(kept: Any, key: Any, part: Any, info: Any) -> None:
        if info is None or key.memory_space_id != _GLOBAL_MEMORY:
            return
        frame = _frame(info.source_info)
        with kept.lock:
            written = vars(kept).setdefault(_WRITTEN, {}).setdefault(key, [])
            others = (one for one in written if one[0] != info.grid_point_coords)
            earlier = next((one for one in others if meet(one[1], part)), None)
            written.append((info.grid_point_coords, part, frame))
        if earlier:
            block, its_part, its_frame = earlier
            note(
                f"RACE DETECTED\n"
                f"  write of {key}[{part}] from block {info.grid_point_coords}, {frame}\n"
                f"  write of {key}[{its_part}] from block {block}, {its_frame}\n"
            )

    def stored(kept: Any, key: Any, part: Any, *rest: Any, **named: Any) -> Any:
        look(kept, key, part, named.get("logging_info"))
        return store(kept, key, part, *rest, **named)

    def swapped(kept: Any, key: Any, part: Any, value: Any, mask: Any, *rest: Any, **named: Any):
        if mask is None:
            look(kept, key, part, named.get("logging_info"))
        return swap(kept, key, part, value, mask, *rest, **named)

    memory.store_buffer_content, memory.swap_buffer_content = stored, swapped
    try:
        yield
    finally:
        memory.store_buffer_content, memory.swap_buffer_content = store, swap


def _memory_of_blocks_in_turn() -> tuple[Any, Callable[..., bool]] | None:
    """The interpreter's class of memory, and whether two parts meet; None from jax 0.12 on."""
    from grader.kernels.jax_internals import gpu_callbacks, gpu_shared_memory, ranges_overlap

    if "grid_point_coords" not in gpu_callbacks._swap.__code__.co_varnames:
        return None
    return gpu_shared_memory.GPUSharedMemory, ranges_overlap


def _frame(source_info: Any) -> str:
    from grader.kernels.jax_internals import summarize

    return summarize(source_info) if source_info is not None else "a kernel"
