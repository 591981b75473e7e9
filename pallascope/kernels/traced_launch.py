"""A traced launch: its contents, how to run it, how it is serialised."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.typing import ArrayLike

from pallascope.kernels.aliases import output_aliases, unused_outputs
from pallascope.kernels.block_samples import (
    NotSampled,
    Repeated,
    RunsAsAWhole,
    TooLong,
    run_inputs,
    unwritten_array,
)
from pallascope.kernels.calls import array_type, kernel_call
from pallascope.kernels.changed_operations import Repair, first_repair, repairs
from pallascope.kernels.collectives import collectives_of, cuts_of_inputs
from pallascope.kernels.edges_of_mosaic import operations_with_edges
from pallascope.kernels.evaluator import retraced, without_refs
from pallascope.kernels.host_values import known_values, on_host
from pallascope.kernels.index_maps import walk_of
from pallascope.kernels.interpreter import Interpret, UnwrittenMemory, running
from pallascope.kernels.jaxprs import array_struct, primitives, used
from pallascope.kernels.lowering import TracedKernel, kernels_in
from pallascope.kernels.outside_kernels import (
    OutsideReader,
    block_sample,
    large_constants,
    sample_of,
)
from pallascope.kernels.pallas_params import body
from pallascope.kernels.prng_emulation import drawing_line, same_seeds
from pallascope.kernels.serialization import (
    SerializationError,
    asks_to_interpret,
    checked,
    dumped,
    loaded,
    with_interpret,
)
from pallascope.kernels.sharding import spread, whole
from pallascope.kernels.source_lines import Source, authors, line_within, places_of
from pallascope.model import (
    ArrayType,
    Axes,
    BlockSample,
    Collective,
    Cut,
    Mode,
    Note,
    OutputBlocks,
    SameSeeds,
    Trace,
)

INTERPRETED = "the grader chooses interpret mode, and ignores the launch's own choice"


class TracedLaunch:
    """A launch, traced here or carried from another process.

    It doesn't need the function that was traced. Make it, and use it, `for_chip`.
    """

    def __init__(self, closed: core.ClosedJaxpr) -> None:
        self._as_traced = closed

    @functools.cached_property
    def closed(self) -> core.ClosedJaxpr:
        """The trace, with kernels that are for a chip, whatever the launch has asked for."""
        return with_interpret(self._as_traced, False)

    @classmethod
    def of(
        cls,
        function: Callable[..., object],
        args: Sequence[ArrayLike | jax.ShapeDtypeStruct],
        kwargs: Mapping[str, object],
    ) -> TracedLaunch:
        """Trace `function(*args, **kwargs)`. Propagates exceptions from the function and JAX."""
        return cls(jax.jit(lambda *arrays: function(*arrays, **kwargs)).trace(*args).jaxpr)

    @classmethod
    def carried(cls, data: bytes) -> TracedLaunch:
        """The launch from the bytes of `dumped`. Raises SerializationError for other bytes."""
        return cls(checked(loaded(data)))

    def dumped(self, for_runs: bool = False) -> bytes:
        """The trace as inert bytes. Raises NotSerializable, which names the refused part.

        `for_runs`: it will only be run, and needs nothing that only a compiler reads.
        """
        return dumped(self._as_traced, for_runs=for_runs)

    def demand_inputs(self, types: Sequence[ArrayType]) -> None:
        """Raises SerializationError unless the launch was traced for inputs of these types.

        A run gets the inputs themselves, a compilation the inputs' types in the trace.
        """
        own = list(map(array_type, self.closed.in_avals))
        if own != list(types):
            told = ", ".join(map(str, own)) or "nothing"
            raise SerializationError(f"a trace for other inputs than the case has: {told}")

    def trace(self, file: str = "", spec: str = "", spec_lines: range = range(0)) -> Trace:
        """Kernels, operations around them, results.

        `file` is the judged file's name in the trace's source info: lines are in it, and kernels
        of other files are marked. `spec` is the name of its function that a launch may not call,
        and `spec_lines` are the function's lines. All are "" if they aren't needed.
        """
        closed = without_refs(self.closed)
        reader = OutsideReader(closed, file)
        return Trace(
            calls=tuple(kernel_call(eqn, file) for eqn in reader.kernels),
            outside=tuple(reader.outside),
            results=tuple(map(array_type, closed.out_avals)),
            from_kernel=tuple(reader.from_kernel),
            constants=tuple(large_constants(closed, file)),
            from_spec=line_within(closed.jaxpr, file, spec, spec_lines) if spec else 0,
            notes=tuple(Note(INTERPRETED, line) for line in asks_to_interpret(self._as_traced)),
            unused=_unused(closed),
            draws=drawing_line(closed.jaxpr, file),
            places=places_of(closed.jaxpr, file) if file else (),
            kernel_outputs=output_aliases(closed, reader.kernels),
        )

    def unused_outputs(self) -> tuple[tuple[int, ...], ...]:
        """For each kernel, the numbers of its outputs that nothing uses: they serve as scratch."""
        closed = without_refs(self.closed)
        return unused_outputs(closed, OutsideReader(closed).kernels)

    def kernel_files(self) -> tuple[str, ...]:
        """The files in which the kernels' bodies are written, in program order; then other files
        with parts of them."""
        kernels = list(map(body, OutsideReader(without_refs(self.closed)).kernels))
        files = [kernel.debug_info.func_filename or "" for kernel in kernels]
        parts = (file for kernel in kernels for file in authors(kernel))
        return tuple(dict.fromkeys(file for file in (*files, *parts) if file))

    def fingerprint(self) -> str:
        """A digest of the operations, without places in files: equal for the same kernel."""
        text = re.sub(r" at \S+:\d+", "", str(self.closed))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def run(
        self,
        args: Sequence[ArrayLike],
        mode: Mode,
        seed: int = 0,
        unwritten: UnwrittenMemory | Literal["nan", "zero"] = "nan",
        padded: int | None = None,
        cores: int = 2,
        eager: bool = False,
        axes: Axes = (),
        as_xla: Collection[str] = (),
        races: bool = True,
    ) -> list[np.ndarray]:
        """The results as a flat list on the host; see `running` for the arguments.

        A launch for a mesh of these `axes` runs on as many devices of this process. Raises
        CopiesDiffer if devices that should have the same result don't.
        """
        with running(mode, seed, unwritten, padded, cores, eager, as_xla, races) as interpret:
            return self.compiled(args, interpret, axes)(args)

    def compiled(
        self, args: Sequence[ArrayLike], interpret: Interpret, axes: Axes = ()
    ) -> Callable[[Sequence[ArrayLike]], list[np.ndarray]]:
        """Compile the launch for arrays like `args`; call the result with such arrays.

        Compile and call it while `running`, which yields `interpret`.
        """
        launch = self._as_traced
        if "empty_ref" in primitives(launch.jaxpr):
            launch = without_refs(launch)  # then its contents come from an "empty"
        launch = with_interpret(launch, interpret)
        if "empty" in primitives(launch.jaxpr):
            launch = retraced(launch, {"empty": functools.partial(_unwritten, interpret)})
        compiled = jax.jit(core.jaxpr_as_fun(launch)).lower(*spread(args, axes)).compile()
        return lambda given: [whole(leaf, axes) for leaf in compiled(*spread(given, axes))]

    def function(self) -> Callable[..., list[jax.Array]]:
        """The launch as a function of its inputs, with kernels that are for a chip."""
        return core.jaxpr_as_fun(self.closed)

    def kernels(self, args: Sequence[ArrayLike | jax.ShapeDtypeStruct]) -> tuple[TracedKernel, ...]:
        """The kernels in program order, with everything that is known if `args` are passed."""
        return kernels_in(self.closed, args)

    def collectives(self, axes: Axes, file: str = "") -> tuple[Collective, ...]:
        """The collectives of a mesh of these `axes` outside of kernels."""
        return collectives_of(without_refs(self.closed), axes, file) if axes else ()

    def cuts(self, axes: Axes) -> tuple[Cut | None, ...]:
        """For each input, its parts on a mesh of these `axes`; None if unknown."""
        return cuts_of_inputs(without_refs(self.closed), axes) if axes else ()

    def operations_with_edges(self) -> tuple[str, ...]:
        """The operations in kernels that XLA on the CPU and a TPU compute differently at edges."""
        kernels = OutsideReader(without_refs(self.closed)).kernels
        named = (name for eqn in kernels for name in operations_with_edges(body(eqn)))
        return tuple(dict.fromkeys(named))

    def repairs(self, file: str) -> list[Repair]:
        """Changes of single operations of the kernels, in lines of `file`."""
        return repairs(OutsideReader(without_refs(self.closed)).kernels, file)

    def first_repair(
        self,
        inputs: Sequence[np.ndarray],
        expected: Sequence[np.ndarray],
        are_right: Sequence[Callable[[np.ndarray, np.ndarray], bool]],
        source: Source,
        change: tuple[str, int] | None = None,
    ) -> tuple[Repair, list[np.ndarray]] | None:
        """The first change of an operation that makes all results right: see `first_repair`."""
        with on_host():
            closed = without_refs(self.closed)
            return first_repair(closed, inputs, expected, are_right, source, change)

    def block_sample(
        self,
        inputs: Sequence[np.ndarray | tuple[np.ndarray, tuple[int, ...]]],
        seed: int,
        axes: Axes = (),
        targets: int = 0,
    ) -> BlockSample:
        """A few blocks of the results, for sizes that take too long to run.

        An input is an array; or values and a shape: its elements repeat the values. At least the
        blocks of `targets` elements of each result are computed. A launch with a kernel that copies
        from or to HBM itself, or for a mesh of these `axes`, runs as a whole in the strict
        interpreter, which doesn't look for races; so does one with operations that only that
        interpreter has. Propagates its exceptions.
        """
        arrays = [Repeated(*each) if isinstance(each, tuple) else each for each in inputs]
        try:
            return block_sample(self.closed, arrays, seed, targets)
        except RunsAsAWhole:
            pass
        try:
            values = run_inputs(OutsideReader(without_refs(self.closed)).kernels, arrays)
        except NotSampled as why:
            return BlockSample((), str(why), too_long=isinstance(why, TooLong))
        results = self.run(values, Mode.STRICT, seed, axes=axes, races=False)
        return BlockSample(tuple(sample_of(result, seed) for result in results))

    def same_seeds(
        self, args: Sequence[ArrayLike | jax.ShapeDtypeStruct], seed: int, most: int
    ) -> SameSeeds | None:
        """Two grid steps, or two seeds, that seed the generators alike: see `same_seeds`."""
        return same_seeds(without_refs(self.closed), args, seed, most)

    def walk(self, args: Sequence[ArrayLike]) -> OutputBlocks | None:
        """The output block that each grid step of the last kernel writes; None if unknown."""
        closed = without_refs(self.closed)
        if not (kernels := OutsideReader(closed).kernels):
            return None
        return walk_of(kernels[-1], known_values(closed, args)[-1])


def _unwritten(interpret: Interpret, eqn: core.JaxprEqn, _: object) -> Sequence[jax.Array]:
    """An array of `lax.empty`: NaN, as other unwritten memory. On the CPU, it would hold zeros."""
    struct = array_struct(eqn.outvars[0])
    zeros = getattr(interpret, "uninitialized_memory", "nan") == "zero"
    value = unwritten_array((), struct.dtype)
    return [jnp.full(struct.shape, 0 if zeros else value, struct.dtype)]


def _unused(closed: core.ClosedJaxpr) -> tuple[int, ...]:
    """The positions of the inputs that no equation of a trace takes and that aren't results."""
    taken = used(closed.jaxpr)
    return tuple(n for n, var in enumerate(closed.jaxpr.invars) if id(var) not in taken)
