"""Changes of one operation that make a launch right.

A diagnosis that names a line is tested: the launch runs again with one operation changed, as a
beginner would mend it: a store that adds, a comparison with another sign, another dimension of the
grid, another variable. `first_repair` tries all changes, operation by operation on the CPU, and
gives up a change at the first wrong block. If that can't be done, `repairs` lists a few changes
for runs in the strict interpreter.
"""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from jax.extend import core

from pallascope.kernels.block_samples import (
    Values,
    run_length,
)
from pallascope.kernels.cpu_runs import LaunchOnCpu, NotTried, Replacement, Spent
from pallascope.kernels.edges_of_mosaic import rewriting
from pallascope.kernels.jaxprs import (
    Site,
    inner_except_kernels,
    primitives,
    sites,
)
from pallascope.kernels.pallas_params import KERNELS, body, grid_mapping, is_pallas_call
from pallascope.kernels.possible_changes import (
    Dataflow,
    Names,
    Together,
    calls_of_libraries,
    further_changes,
    is_store,
    other_dimensions,
    other_index_maps,
    simple_changes,
)
from pallascope.kernels.source_lines import Source, files_of, line_of

# ---- repairs ----

#: The most changes of a launch that are tried: each compiles it once.
MOST_REPAIRS = 8
#: The length of all their runs together, in that of the longest run at production size.
MOST_LENGTH = 0.12


@dataclass(frozen=True, slots=True)
class Repair:
    """A change of operations in one line: "had <= instead of <"; `by` makes those in their place.

    Most lines have one such operation, those of an unrolled loop several.
    """

    change: str
    line: int
    by: tuple[tuple[core.JaxprEqn, Replacement], ...]

    @contextlib.contextmanager
    def made(self) -> Iterator[None]:
        """Let the strict interpreter run the changed kernel. Enter it before `running`."""

        def replacement(eqn: core.JaxprEqn, _: object) -> Sequence[core.JaxprEqn]:
            for old, new in self.by:
                same = eqn.primitive is old.primitive and eqn.source_info is old.source_info
                if same and eqn.params == old.params:
                    return new(eqn)
            return [eqn]

        with rewriting(replacement):
            yield


def repairs(kernels: Sequence[core.JaxprEqn], file: str) -> list[Repair]:
    """The changes of operations in lines of `file`, the likeliest first: at most MOST_REPAIRS.

    There are fewer for a long run, since each change needs one, but at least one.
    No condition changes in a kernel that copies or waits by itself, since it might wait for ever.
    """
    found = _Found()
    for kernel in kernels:
        names = set(primitives(body(kernel)))
        waits = any(name.startswith(("dma_", "semaphore_", "while")) for name in names)
        _find(found, list(sites(body(kernel))), _rank(kernel), waits, file)
    length = max(sum(map(run_length, kernels)), MOST_LENGTH / MOST_REPAIRS)
    return list(itertools.islice(found.repairs(), max(1, int(MOST_LENGTH / length))))


def _rank(kernel: core.JaxprEqn) -> int:
    return len(grid_mapping(kernel).grid) if is_pallas_call(kernel) else 0


class _Found:
    """Changes, each with the operations of its line that it may concern."""

    def __init__(self) -> None:
        self._by: dict[tuple[int, int, str], list[Together]] = {}

    def add(self, order: int, line: int, change: str, together: Together) -> None:
        self._by.setdefault((order, line, change), []).append(together)

    def repairs(self) -> Iterator[Repair]:
        """All changes by their order: of all operations of a line together, then of each."""
        for (_, line, change), every in sorted(self._by.items(), key=lambda each: each[0]):
            all_of_line = tuple(itertools.chain(*every))
            different = len({id(eqn) for eqn, _ in all_of_line}) == len(all_of_line)
            if len(every) > 1 and different:
                yield Repair(change, line, all_of_line)
            for together in every:
                yield Repair(change, line, together)


def _find(found: _Found, every: Sequence[Site], rank: int, waits: bool, file: str) -> None:
    """Add the changes of these operations."""
    dataflow = Dataflow(
        {id(var): site.eqn for site in every for var in site.eqn.outvars},
        {id(site.eqn.invars[1]): site.eqn for site in every if is_store(site.eqn)},
    )
    for site, line in _with_lines(every, file):
        for order, change, by in simple_changes(site.eqn, rank, waits, dataflow):
            found.add(order, line, change, ((site.eqn, by),))


def _with_lines(every: Sequence[Site], file: str) -> Iterator[tuple[Site, int]]:
    """The operations with a line of `file`, and no other: a function may be traced once only."""
    lines: dict[int, set[int]] = {}
    for site in every:
        lines.setdefault(id(site.eqn), set()).add(_line(site, file))
    for site in every:
        line, *others = lines[id(site.eqn)]
        if line and not others:
            yield site, line


def _line(site: Site, file: str) -> int:
    """The line of an equation; of the call, if it is in a function of jax.numpy, which is traced
    once for all calls."""
    calls = calls_of_libraries(site, file)
    return line_of((calls[0] if calls else site.eqn).source_info, file)


# ---- many changes, operation by operation ----


def first_repair(
    closed: core.ClosedJaxpr,
    inputs: Sequence[Values],
    expected: Sequence[Values],
    is_right: Callable[[Values, Values], bool],
    source: Source,
    change: tuple[str, int] | None = None,
) -> tuple[Repair, list[Values]] | None:
    """The first change that makes all results right, and these results; None if there is none.

    If there is a `change`, with its line, only that one is tried. Raises NotTried for a launch that
    can't be computed.
    """
    trial = LaunchOnCpu(closed, inputs, expected, is_right)
    try:
        if change is None and trial.results({}) is not None:
            return None
    except NotTried:
        raise
    except Exception as error:  # of jax or numpy: only the interpreter has an operation
        raise NotTried(f"{type(error).__name__} in an operation") from error
    with contextlib.suppress(Spent):
        for repair in _all_changes(closed, source):
            if change not in (None, (repair.change, repair.line)):
                continue
            try:
                results = trial.results({id(old): new for old, new in repair.by})
            except Spent:
                raise
            except Exception:  # of jax or numpy: the changed program makes no sense
                continue
            if results is not None:
                return repair, results
    return None


def _all_changes(closed: core.ClosedJaxpr, source: Source) -> Iterator[Repair]:
    """Changes in kernels and around them, the likeliest first."""
    found, file = _Found(), source.file
    around = list(sites(closed.jaxpr, inner_except_kernels))
    parts = [(around, closed.jaxpr, 0)]
    parts += [
        (list(sites(body(site.eqn))), body(site.eqn), _rank(site.eqn))
        for site in around
        if site.eqn.primitive.name in KERNELS
    ]
    for every, jaxpr, rank in parts:
        every = [site for site in every if _is_written(site, file)]
        _find(found, every, rank, False, file)
        names = Names.of(every, jaxpr, source)
        for site, line in _with_lines(every, file):
            for order, change, by in further_changes(site, names, jaxpr, file):
                found.add(order, line, change, ((site.eqn, by),))
        for change, line, together in other_dimensions(list(_with_lines(every, file))):
            found.add(4, line, change, together)
    for site in around:
        if is_pallas_call(site.eqn):
            for change, line, together in other_index_maps(site.eqn, file):
                found.add(8, line, change, together)
    return (one for one in found.repairs() if one.line in source.asked or not source.asked)


def _is_written(site: Site, file: str) -> bool:
    """Whether an equation stands for an operation in the file, not for one inside of jax.numpy."""
    inside = [str(eqn.params.get("name")) for eqn in calls_of_libraries(site, file)]
    if inside not in ([], ["_where"]):
        return False
    if site.eqn.primitive.name not in ("add", "lt", "select_n"):
        return True
    # An array as an index: x[i] also means x[i + size].
    indexing = os.path.join("numpy", "indexing.py")
    frames = itertools.takewhile(lambda name: name != file, files_of(site.eqn.source_info))
    return not any(name.endswith(indexing) for name in frames)
