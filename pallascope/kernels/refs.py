"""Names of a kernel's buffers and semaphores, and their first access.

The strict interpreter knows buffers and semaphores by number. The first access of a kernel's body
to each of its Refs shows which are read before they are written.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jax.extend import core

from pallascope.kernels.dma_hazards import BufferPart
from pallascope.kernels.jaxprs import IN_HBM, equations, inner_jaxprs, memory_space, sites, used
from pallascope.kernels.manual_dma import ends, ref_of
from pallascope.model import FirstAccess

#: The first numbers that the interpreter gives on each core.
FIRST_BUFFER, FIRST_SEMAPHORE = 100, 2000
#: The name of a buffer that a pipeline allocates.
PIPELINES = "a buffer of a pipeline"


@dataclass(frozen=True, slots=True)
class RefNames:
    """Names by number. `garbage` are the shapes of the kernel's own scratch buffers."""

    buffers: dict[int, str] = field(default_factory=dict)
    semaphores: dict[int, str] = field(default_factory=dict)
    garbage: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, kernel: core.Jaxpr, mapping: Any, aliases: Any) -> RefNames:
        """The names of a kernel's operands, in the order in which the interpreter makes them."""
        found = cls()
        names = names_of(kernel)
        scalars, ins, outs = mapping.num_index_operands, mapping.num_inputs, mapping.num_outputs
        aliased = {result: given - scalars for given, result in aliases}
        number = FIRST_BUFFER
        inputs = {at: number + at for at in range(ins)}
        for at, own in inputs.items():
            found.buffers[own] = names[scalars + at]
        number += ins
        for at in range(outs):
            if (given := aliased.get(at)) is not None:
                found.buffers[inputs[given]] = names[scalars + ins + at]
                continue
            found.buffers[number] = names[scalars + ins + at]
            number += 1
        for at in range(scalars):
            found.buffers[number] = names[at]
            number += 1
        found._own(kernel, names, mapping, number)
        return found

    def _own(self, kernel: core.Jaxpr, names: list[str], mapping: Any, number: int) -> None:
        """Blocks in VMEM, scratch and semaphores."""
        scalars = mapping.num_index_operands
        blocks = [one.transformed_block_aval for one in mapping.block_mappings]
        semaphore = FIRST_SEMAPHORE
        for at, variable in enumerate(kernel.invars[scalars:]):
            aval: Any = blocks[at] if at < len(blocks) else variable.aval
            space, shape = memory_space(aval), tuple(getattr(variable.aval, "shape", ()))
            if _is_semaphore(space):
                self._semaphores(names[scalars + at], semaphore, shape)
                semaphore += math.prod(shape)
            elif space not in IN_HBM:
                self.buffers[number] = names[scalars + at]
                if at >= len(blocks):
                    self.garbage[number] = shape
                number += 1

    def _semaphores(self, name: str, first: int, shape: tuple[int, ...]) -> None:
        for at, index in enumerate(np.ndindex(shape)):
            text = f"[{', '.join(map(str, index))}]" if index else ""
            self.semaphores[first + at] = name + text

    def copy(self) -> RefNames:
        return RefNames(dict(self.buffers), dict(self.semaphores), dict(self.garbage))

    def add(self, variable: Any, name: str, numbers: np.ndarray) -> bool:
        """A run_scoped has allocated this; returns whether it is a buffer."""
        if _is_semaphore(memory_space(variable.aval)):
            self._semaphores(name, int(np.ravel(numbers)[0]), tuple(variable.aval.shape))
            return False
        self.buffers[int(numbers)] = name
        return True

    def part(self, part: BufferPart) -> str:
        """A part of a Ref, in its own indices: "x_slots[1, 0:8]"."""
        name = self.buffers.get(part.buffer, PIPELINES)
        texts = []
        for (start, stop, step), size in zip(part.span, part.shape, strict=True):
            if (start, stop, step) == (0, size, 1) and size > 1:
                texts.append(":")
            elif stop - start == 1:
                texts.append(str(start))
            else:
                texts.append(f"{start}:{stop}" + (f":{step}" if step > 1 else ""))
        while texts and texts[-1] == ":":
            texts.pop()
        if part.elements == math.prod(part.shape):
            return name
        return f"{name}[{', '.join(texts)}]" if texts else name

    def semaphore(self, number: int) -> str:
        """The name of a kernel's semaphore: "sems[1]"."""
        return self.semaphores.get(number, "a semaphore of a pipeline")


def _is_semaphore(space: str) -> bool:
    return space.startswith("semaphore")


def names_of(kernel: core.Jaxpr) -> list[str]:
    """The names of the traced function's arguments; never ""."""
    given = getattr(kernel.debug_info, "arg_names", None) or ()
    return [
        str(given[at]) if at < len(given) and given[at] else f"operand {at}"
        for at in range(len(kernel.invars))
    ]


def scoped_names(kernel: core.Jaxpr) -> dict[int, tuple[core.Jaxpr, tuple[str, ...]]]:
    """The bodies of all run_scoped in a kernel, by id, with the names of their buffers."""
    return {
        id(body): (body, tuple(names_of(body)))
        for eqn in equations(kernel)
        if eqn.primitive.name == "run_scoped"
        for body in inner_jaxprs(eqn)
    }


def buffers_of_scopes(kernel: core.Jaxpr) -> dict[int, list[str]]:
    """The buffers that a kernel's run_scoped allocate, by the id of the equation's source info."""
    found: dict[int, list[str]] = {}
    for eqn in equations(kernel):
        for body in inner_jaxprs(eqn) if eqn.primitive.name == "run_scoped" else ():
            own = zip(names_of(body), body.invars, strict=True)
            names = [name for name, var in own if not _is_semaphore(memory_space(var.aval))]
            # Only a pipeline's own buffers are parts of a structure: "allocations[0].window_ref".
            told = (PIPELINES if "." in name else name for name in names)
            found.setdefault(id(eqn.source_info), []).extend(told)
    return found


_READS = ("get", "masked_load", "load", "addupdate")


def first_accesses(kernel: core.Jaxpr) -> list[FirstAccess]:
    """The first access of a kernel's body to each of its Refs, in program order.

    A write inside a `pl.when` counts as guarded: whether it runs depends on the grid step.
    """
    touches = dict.fromkeys(map(id, kernel.invars), FirstAccess.NOTHING)
    used_in = functools.cache(used)
    for site in sites(kernel):
        eqn, name = site.eqn, site.eqn.primitive.name
        if name == "dma_wait" or inner_jaxprs(eqn):  # the start accesses the memory, not the wait
            continue
        # A store is a swap whose old value is unused.
        reads = name in _READS or (name == "swap" and id(eqn.outvars[0]) in used_in(site.jaxpr))
        source = ref_of(ends(eqn)[0]) if name == "dma_start" else None
        is_guarded = any(around.primitive.name == "cond" for around in site.path)
        write = FirstAccess.GUARDED_WRITE if is_guarded else FirstAccess.WRITE
        for var in eqn.invars:
            if touches.get(ref := id(site.root(var))) is FirstAccess.NOTHING:
                touches[ref] = FirstAccess.READ if reads or var is source else write
    return [touches[id(var)] for var in kernel.invars]
