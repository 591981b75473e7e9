"""Tests of one kernel: strict runs against a reference, refusals of the compiler, predicted costs.

The function is traced in the caller's process, for a TPU that need not be there. A process with
nothing of the caller's runs the trace in the strict interpreter, and another one compiles it.
Nothing in the caller's process is changed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from pallascope.checks import values
from pallascope.checks.exceptions import (
    FOUND,
    by_interpreter,
    interpreter_finding,
    outcome_of,
)
from pallascope.checks.launch_evidence import LaunchEvidence
from pallascope.checks.phrasing import listed, paragraph
from pallascope.kernels import NotLowered
from pallascope.model import (
    BROKEN_PROMISE,
    Array,
    ArrayType,
    Axes,
    Check,
    Clues,
    DmaHazard,
    Finding,
    Mode,
    Observation,
    Reference,
    Repaired,
    Roundings,
    Stage,
    mesh_size,
)
from pallascope.runs.exception_reports import problem_of
from pallascope.runs.questions import (
    InvestigateRun,
    LaunchQuestion,
    Predict,
    RepairRun,
    RunResult,
    RunTrace,
)
from pallascope.runs.run_process import SIMULATED_DEVICES, RunProcess
from pallascope.testing.traced_call import (
    KernelFault,
    KernelNotJudged,
    TracedCall,
    exact_array,
    is_floating,
    taken,
    traced_call,
)
from pallascope.tools.arrays import from_numpy, holds_infinity, holds_nan, in_float64
from pallascope.tools.child_process import ChildEnded, ChildTimeout
from pallascope.tpu import OnChip, libtpu
from pallascope.tpu.chips import DEFAULT, named
from pallascope.tpu.predict import predictions_by_child

INTERPRETERS = ("strict", "plain", "compiled", "auto")
#: Text that the interpreter prints about faults, which messages explain.
_REPORTED = re.compile(rf"{FOUND}\n(?:  .*\n)*\n?|Semaphore \d+ has non-zero count .*\n")
#: The interpreter's error about a copy through `ref.reshape` or `ref.bitcast`.
_LACKS_VIEWS = re.compile("(Reshape|Bitcast)Transform' object has no attribute")
#: The faults that `ignore` may name.
IGNORABLE = ("races", "copies", "semaphores", "devices", "promises", "bounds")
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """The predicted cost of all kernels of a launch on one chip.

    `seconds` without the launch overhead, `bytes` from and to HBM, `vmem` in bytes of the kernel
    that needs most. A number is None if it isn't known, and `unknown` is the reason. `kernels` has
    the same numbers for each kernel by name, in the order of the program. `fingerprint` is equal
    for the same operations and shapes.
    """

    chip: str
    seconds: float | None
    bytes: int | None
    vmem: int | None
    kernels: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    unknown: str = ""
    fingerprint: str = ""


@functools.cache
def _process(_number: int, does: str) -> RunProcess:
    """The process that "runs" launches, runs those of a "mesh", or "compiles" them.

    By this process's number: after a fork, there are others.
    """
    return RunProcess(meshed=does == "mesh")


class Pallas:
    """Tests kernels for TPUs. `function` in its methods is any function that launches kernels.

    Arrays and `jax.ShapeDtypeStruct`s among its arguments are traced, also inside of lists, dicts
    and other pytrees; other arguments stay as they are, as static arguments of `jax.jit`. Keywords
    that aren't the method's are passed to the function; `functools.partial` passes any.

    Messages show files relative to `root`. Kernels are traced for `chip`. `seed` determines random
    arrays. A run may take `seconds`. `interpreter` is the default of `check`.
    """

    def __init__(
        self,
        root: Path | None = None,
        chip: str = DEFAULT,
        seed: int = 0,
        seconds: float | None = SECONDS,
        interpreter: str = "auto",
    ) -> None:
        self.root, self.chip, self.seconds = root or Path.cwd(), named(chip).name, seconds
        self.interpreter = interpreter
        self._random = np.random.default_rng(seed)
        self._seed = seed % 2**31

    # ---- inputs ----

    def normal(self, shape: Sequence[int], dtype: Any = "float32", scale: float = 1.0) -> jax.Array:
        """An array of normally distributed numbers."""
        return jnp.asarray(scale * self._random.standard_normal(shape, np.float32), dtype)

    def integers(
        self, low: int, high: int, shape: Sequence[int], dtype: Any = "int32"
    ) -> jax.Array:
        """An array of random integers, at least `low` and less than `high`."""
        return jnp.asarray(self._random.integers(low, high, shape), dtype)

    # ---- runs ----

    def check(
        self,
        function: Callable[..., Any],
        *args: Any,
        expected: Any = None,
        rtol: float | None = None,
        atol: float | None = None,
        chip: str = "",
        interpreter: str = "",
        cores: Sequence[int] = (),
        mesh: Mapping[str, int] | Axes = (),
        ignore: Sequence[str] = (),
        **kwargs: Any,
    ) -> Any:
        """Run a function's kernels strictly, and compare its results. Returns the results.

        The strict interpreter finds races, copies that are read too early or never awaited,
        accesses out of bounds, semaphores that are left, and memory that is read before it was
        written.

        `expected` is a function of the same arguments, which is evaluated in float64 if possible,
        or the results themselves. Without it, values aren't compared. `rtol` and `atol` are those
        of numpy; if both are None, only errors that rounding explains are allowed.

        `interpreter`: "strict"; "plain" without races and unwritten memory; "compiled" on the TPU
        of this machine; "auto" is strict, and on a machine with a TPU compiled, too. `cores` are
        the numbers of cores that share parallel steps: by default two, and, if the kernel copies by
        itself, also the chip's own. `mesh` has the axes of simulated devices: {"x": 4}; then
        `jax.sharding.get_abstract_mesh()` is that mesh in the function. `ignore` names faults that
        are no faults: "races", "copies", "semaphores", "devices", "promises", or "bounds" for reads
        out of bounds, which then give NaN and the largest integers.

        Raises KernelFault, KernelNotJudged, and ValueError for wrong arguments.
        """
        __tracebackhide__ = True
        if isinstance(cores, int):
            raise ValueError(f"cores takes several numbers: cores=({cores},)")
        how = _named_interpreter(interpreter or self.interpreter)
        _demand_known(ignore)
        case = self._case(function, args, kwargs, chip, mesh)
        results = None
        if how != "compiled":
            mode = Mode.INTERPRET if how == "plain" else Mode.STRICT
            results = self._check_run(case, mode, expected, (rtol, atol), cores, ignore)
        has_tpu = jax.default_backend() == "tpu"
        if how == "compiled" and not has_tpu:
            raise KernelNotJudged(
                "jax finds no TPU on this machine, so the kernel can't be compiled"
            )
        if how == "compiled" or (how == "auto" and has_tpu and not case.axes):
            results = self._check_compiled(case, expected, (rtol, atol))
        return results

    def grad_check(
        self, function: Callable[..., Any], *args: Any, expected: Callable[..., Any], **how: Any
    ) -> Any:
        """Check the gradients of a function with respect to its floating arrays: see `check`.

        They are compared with those of `expected`, a function of the same arrays, for one random
        cotangent. Returns the gradients. Pallas can't differentiate a kernel: the function needs
        `jax.custom_vjp`.
        """
        __tracebackhide__ = True
        kwargs = {name: how.pop(name) for name in list(how) if name not in _HOW}
        leaves, tree = jax.tree.flatten(args)
        positions = [at for at, leaf in enumerate(leaves) if is_floating(leaf)]
        if not positions:
            raise ValueError("grad_check needs an argument that is an array of floating numbers")

        def of_arrays(
            called: Callable[..., Any], rest: Sequence[Any], arrays: Sequence[Any]
        ) -> Any:
            filled = dict(zip(positions, arrays, strict=True))
            all_leaves = [filled.get(at, leaf) for at, leaf in enumerate(rest)]
            given = kwargs if called is function else taken(called, kwargs)
            return called(*jax.tree.unflatten(tree, all_leaves), **given)

        shapes = jax.eval_shape(
            lambda *arrays: of_arrays(expected, leaves, arrays), *(leaves[at] for at in positions)
        )
        cotangent = jax.tree.map(lambda one: self.normal(one.shape, one.dtype), shapes)

        def gradients(called: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(called)
            def backward(cotangent: Any, *others: Any) -> Any:
                rest = jax.tree.leaves(others)
                primals = [rest[at] for at in positions]
                results, vjp = jax.vjp(lambda *xs: of_arrays(called, rest, xs), *primals)
                typed = jax.tree.map(lambda c, r: c.astype(r.dtype), cotangent, results)
                return vjp(typed)

            return backward

        return self.check(
            gradients(function), cotangent, *args, expected=gradients(expected), **how
        )

    def deterministic(
        self,
        function: Callable[..., Any],
        *args: Any,
        chip: str = "",
        mesh: Mapping[str, int] | Axes = (),
        **kwargs: Any,
    ) -> Any:
        """Run a function's kernels twice, with parallel steps in two orders on two cores and on
        one: all bits of the results must be the same. Returns the results.

        Raises KernelFault and KernelNotJudged.
        """
        __tracebackhide__ = True
        case = self._case(function, args, kwargs, chip, mesh)
        one, other = (
            self._run(case, Mode.STRICT, cores, seed=self._seed + cores) for cores in (2, 1)
        )
        for ran in (one, other):
            self._demand_ran(case, ran)
        for position, (before, now) in enumerate(zip(one.outputs, other.outputs, strict=True)):
            if before.data != now.data:
                raise KernelFault(_differs(case.name_of(position), before, now), case.about)
        return case.results(one.outputs)

    # ---- the compiler ----

    def accepted(
        self,
        function: Callable[..., Any],
        *args: Any,
        chips: Sequence[str] = ("v5e", "v6e"),
        mesh: Mapping[str, int] | Axes = (),
        **kwargs: Any,
    ) -> None:
        """Lower and compile a function's kernels for each of these chips.

        `args` may be `jax.ShapeDtypeStruct`s. Raises KernelFault for the first refusal, and
        KernelNotJudged without libtpu, after jax's own part of the compiler has accepted them.
        """
        __tracebackhide__ = True
        for chip in chips:
            self._compiled(self._case(function, args, kwargs, chip, mesh))

    def cost(
        self,
        function: Callable[..., Any],
        *args: Any,
        chip: str = "",
        mesh: Mapping[str, int] | Axes = (),
        **kwargs: Any,
    ) -> LaunchCost:
        """The predicted cost of a function's kernels on a chip; see `accepted` for errors.

        Arrays that decide which blocks are copied, such as page tables, need their contents.
        """
        __tracebackhide__ = True
        return self._compiled(self._case(function, args, kwargs, chip, mesh))

    # ---- how ----

    def _case(
        self,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        chip: str,
        mesh: Mapping[str, int] | Axes,
    ) -> TracedCall:
        """Raises KernelFault and ValueError."""
        __tracebackhide__ = True
        target = named(chip or self.chip)
        axes = tuple(mesh.items()) if isinstance(mesh, Mapping) else tuple(mesh)
        if mesh_size(axes) > SIMULATED_DEVICES:
            raise ValueError(f"a mesh of {mesh_size(axes)} devices: at most {SIMULATED_DEVICES}")
        return traced_call(function, args, kwargs, target, axes, self.root)

    def _check_run(
        self,
        case: TracedCall,
        mode: Mode,
        expected: Any,
        tolerances: tuple[float | None, float | None],
        cores: Sequence[int],
        ignore: Sequence[str],
    ) -> Any:
        __tracebackhide__ = True
        reference = self._reference(case, expected)
        results = None
        for count in cores or case.cores:
            for eager in (False, True) if case.copies_by_hand else (False,):
                run = functools.partial(
                    self._run, case, mode, count, eager, bounds="bounds" not in ignore
                )
                ran = run()
                if _ended_by_scratch(case, ran):
                    ran = run(races=False)
                self._demand_judged(case, ran)
                observed = _without(case, ignore, _observation(case, ran))
                like = reference or _as_it_is(case, observed)
                evidence = LaunchEvidence(
                    mode=mode,
                    file=case.shown,
                    attempt=observed,
                    reference=like,
                    chips=(case.target.name,),
                    roundings=Roundings(results=2, operands=1),
                    within=_within(tolerances),
                    compared=reference is not None,
                    clues=functools.cache(
                        functools.partial(self._clues, case, mode, eager, observed)
                    ),
                    repaired=functools.cache(
                        functools.partial(self._repaired, case, mode, eager, like)
                    ),
                )
                if finding := values.check(evidence):
                    finding = self._of_one_core(case, evidence, finding, count)
                    raise KernelFault(finding, f"{case.about} on {_cores(count)}")
                results = case.results(observed.outputs)
        return results

    def _of_one_core(
        self, case: TracedCall, evidence: LaunchEvidence, finding: Finding, cores: int
    ) -> Finding:
        """The finding of wrong values, which says so if they are right where one core takes the
        steps in their order, as in jax's plain interpreter."""
        parallel = sorted({axis for call in case.trace.calls for axis in call.parallel})
        sure = evidence.problem or evidence.observed.complaints or "parallel" in finding.message
        if cores == 1 or not parallel or sure or not _has_wrong(evidence):
            return finding
        ran = self._run(case, Mode.INTERPRET, 1)
        alone = dataclasses.replace(evidence, attempt=_observation(case, ran))
        if ran.problem or _has_wrong(alone):
            return finding
        dimensions = "dimensions" if len(parallel) > 1 else "dimension"
        why = (
            "If one core takes all steps in their order, the values are right. Along grid "
            f"{dimensions} {listed(parallel)}, which dimension_semantics marks parallel, cores "
            "share the steps, in any order, and each has its own scratch. Mark a dimension "
            "arbitrary if its steps need scratch or output of earlier ones."
        )
        told = f"{finding.message}\n{paragraph('cores', why)}"
        phrase = "right only if one core takes all steps in their order"
        return dataclasses.replace(finding, phrase=phrase, message=told)

    def _check_compiled(
        self, case: TracedCall, expected: Any, tolerances: tuple[float | None, float | None]
    ) -> Any:
        """Run the function on this machine's TPU."""
        __tracebackhide__ = True
        results = jax.jit(lambda: case.function(*case.args, **case.kwargs))()
        outputs = tuple(from_numpy(leaf) for leaf in jax.tree.leaves(results))
        reference = self._reference(case, expected)
        if reference is not None:
            evidence = LaunchEvidence(
                mode=Mode.COMPILED,
                file=case.shown,
                attempt=Observation(trace=case.trace, outputs=outputs),
                reference=reference,
                chips=(case.target.name,),
                roundings=Roundings(results=2, operands=1),
                within=_within(tolerances),
                clues=Clues,
            )
            if finding := values.check(evidence):
                raise KernelFault(finding, f"{case.about} on this machine's TPU")
        return results

    def _run(
        self,
        case: TracedCall,
        mode: Mode,
        cores: int,
        eager: bool = False,
        seed: int | None = None,
        races: bool = True,
        bounds: bool = True,
    ) -> RunResult:
        """Raises KernelFault if it doesn't end in time, KernelNotJudged if its process dies."""
        __tracebackhide__ = True
        question = RunTrace(
            *case.asked(),
            name="",
            mode=mode,
            seed=self._seed if seed is None else seed,
            cores=cores,
            eager=eager,
            again=True,
            races=races and case.may_race,
            bounds=bounds,
        )
        try:
            return self._ask(case, RunResult, question)
        except ChildTimeout as late:
            told = (
                f"The kernel hasn't ended after {late.args[0].removeprefix('no answer within ')}. "
                "It may wait for a signal or a copy that nothing starts, or loop for ever. A slow "
                "kernel needs smaller shapes, or a longer `pallas_timeout`."
            )
            finding = Finding(Check.RUNS, "hasn't ended in time", told)
            raise KernelFault(finding, f"{case.about} on {_cores(cores)}") from None
        except ChildEnded as ended:
            raise KernelNotJudged(f"{ended}, while it ran {case.about}") from None

    def _ask(self, case: TracedCall, kind: type[Any], question: LaunchQuestion) -> Any:
        process = _process(os.getpid(), "mesh" if case.axes else "runs")
        try:
            return process.answer(kind, question, self.seconds)
        finally:
            if printed := _REPORTED.sub("", process.take_printed()).strip():
                print(printed)

    def _demand_judged(self, case: TracedCall, ran: RunResult) -> None:
        """Raises KernelNotJudged if the interpreter lacks an operation."""
        __tracebackhide__ = True
        problem = ran.problem
        if problem is None or FOUND in problem.message or ran.copy_faults or ran.device_faults:
            return
        finding = interpreter_finding(problem, case.shown, case.trace.calls)
        if problem.stage is not Stage.RUN or by_interpreter(finding, problem):
            said = (problem.message.splitlines() or [""])[0]
            if _LACKS_VIEWS.search(said):
                raise KernelNotJudged("the interpreter can't copy through this view of a Ref")
            where = f" ({case.shown}:{problem.place.line})" if problem.place else ""
            raise KernelNotJudged(f"the interpreter can't run it: {problem.kind}: {said}{where}")

    def _demand_ran(self, case: TracedCall, ran: RunResult) -> None:
        """Raises KernelFault for a fault that ended the run."""
        __tracebackhide__ = True
        self._demand_judged(case, ran)
        if ran.problem:
            observed = _observation(case, ran)
            evidence = LaunchEvidence(
                mode=Mode.STRICT,
                file=case.shown,
                attempt=observed,
                reference=_as_it_is(case, observed),
                chips=(case.target.name,),
                clues=Clues,
            )
            finding = values.check(evidence)
            assert finding
            raise KernelFault(finding, case.about)

    def _reference(self, case: TracedCall, expected: Any) -> Reference | None:
        """The expected results; None if there are none. Raises ValueError for another structure."""
        __tracebackhide__ = True
        if expected is None:
            return None
        case.inputs()  # raises, before a reference is called without them
        sways: tuple[float, ...] = ()
        if callable(expected):
            told, sways = case.evaluated(expected, self._seed)
        else:
            told = tuple(map(exact_array, jax.tree.leaves(expected)))
        results = case.trace.results
        if [array.shape for array in told] != [result.shape for result in results]:
            types = [ArrayType(array.dtype, array.shape) for array in told]
            had, has = (", ".join(map(str, each)) or "nothing" for each in (types, results))
            raise ValueError(f"expected has other shapes than the results: {had}; {has}")
        terms = 1 if sways else max((n for array in case.given for n in array.shape), default=1)
        return case.reference(told, terms, sways)

    def _clues(self, case: TracedCall, mode: Mode, eager: bool, observed: Observation) -> Clues:
        nan = any(map(holds_nan, observed.outputs))
        infinite = not nan and any(map(holds_infinity, observed.outputs))
        question = InvestigateRun(*case.asked(), mode, self._seed, nan, eager, infinite)
        with contextlib.suppress(ChildTimeout, ChildEnded):
            return self._ask(case, Clues, question)
        return Clues()

    def _repaired(self, case: TracedCall, mode: Mode, eager: bool, like: Reference) -> Repaired:
        if mode is not Mode.STRICT:
            return Repaired()
        question = RepairRun(*case.asked(), mode, self._seed, like.expected, eager)
        with contextlib.suppress(ChildTimeout, ChildEnded):
            return self._ask(case, Repaired, question)
        return Repaired()

    def _compiled(self, case: TracedCall) -> LaunchCost:
        """Raises KernelFault and KernelNotJudged."""
        __tracebackhide__ = True
        chip = case.target.name
        try:
            if case.axes:
                question = Predict(*case.asked(runs=False))
                process = _process(os.getpid(), "compiles")
                found = process.answer(OnChip, question, None)
            else:
                found = OnChip(None, predictions_by_child(case.launch, case.given, chip))
        except NotLowered as error:
            found = OnChip(problem_of(error, case.source, Stage.LOWER))
        except ChildEnded as ended:
            raise KernelNotJudged(f"{ended}, while it compiled {case.about}") from None
        outcome = outcome_of(found, chip, case.shown)
        for finding in filter(None, (outcome.trouble, *outcome.refusals)):
            raise KernelFault(finding, f"{case.about} on a {chip}")
        for kernel in outcome.kernels:
            if _HANGS in kernel.unknown:
                told = (
                    f"{kernel.call.name} waits on a semaphore for something that nothing sends: a "
                    f"{chip} would wait for ever."
                )
                finding = Finding(Check.COMPILES, f"would hang on a {chip}", told)
                raise KernelFault(finding, f"{case.about} on a {chip}")
            if not kernel.compiled:
                missing = libtpu.unavailable_reason()
                raise KernelNotJudged(
                    libtpu.not_checked_message(missing) if missing else kernel.unknown
                )
        return _cost(chip, outcome.kernels, case.launch.fingerprint())


#: The keywords of `check`, for methods that pass them on.
_HOW = tuple(inspect.signature(Pallas.check).parameters)
_HANGS = "never sends"


def _named_interpreter(name: str) -> str:
    if name not in INTERPRETERS:
        raise ValueError(f"no interpreter {name!r}: choose one of {', '.join(INTERPRETERS)}")
    return name


def _demand_known(ignore: Sequence[str]) -> None:
    if isinstance(ignore, str):
        raise ValueError(f'ignore takes several names: ignore=("{ignore}",)')
    if unknown := [name for name in ignore if name not in IGNORABLE]:
        raise ValueError(f"ignore can't be {unknown[0]!r}: choose from {', '.join(IGNORABLE)}")


def _observation(case: TracedCall, ran: RunResult) -> Observation:
    names = [each.name for each in dataclasses.fields(ran)]
    observed = Observation(**{name: getattr(ran, name) for name in names})
    return dataclasses.replace(observed, trace=case.trace, devices=mesh_size(case.axes))


def _without(case: TracedCall, ignore: Sequence[str], observed: Observation) -> Observation:
    """The observation without faults that `ignore` names, and races of outputs that nothing
    uses."""

    def kind(complaint: str) -> str:
        if complaint.startswith(FOUND):
            return "races"
        return "promises" if complaint.startswith(BROKEN_PROMISE) else "semaphores"

    return dataclasses.replace(
        observed,
        complaints=tuple(
            text
            for text in observed.complaints
            if kind(text) not in ignore and not case.is_about_scratch(text)
        ),
        copy_faults=tuple(
            one
            for one in observed.copy_faults
            if ("bounds" if one.hazard is DmaHazard.OUTSIDE else "copies") not in ignore
        ),
        device_faults=() if "devices" in ignore else observed.device_faults,
    )


def _ended_by_scratch(case: TracedCall, ran: RunResult) -> bool:
    """Whether a race of outputs that nothing uses has ended the run, as in jax 0.12."""
    races = [text for text in ran.complaints if text.startswith(FOUND)]
    ended = ran.problem is not None and FOUND in ran.problem.message
    return ended and bool(races) and all(map(case.is_about_scratch, races))


def _has_wrong(evidence: LaunchEvidence) -> bool:
    """Whether a result has values that aren't those expected."""
    return any(result.wrong.any() for result in values.comparisons(evidence))


def _as_it_is(case: TracedCall, observed: Observation) -> Reference:
    """A reference with which all results agree."""
    outputs = observed.outputs or tuple(
        from_numpy(np.zeros(result.shape)) for result in case.trace.results
    )
    return case.reference(tuple(from_numpy(in_float64(output)) for output in outputs))


def _within(tolerances: tuple[float | None, float | None]) -> tuple[float, float] | None:
    """Relative and absolute tolerance; None if none is given."""
    if tolerances == (None, None):
        return None
    relative, absolute = tolerances
    return relative or 0.0, absolute or 0.0


def _cores(count: int) -> str:
    return f"{count} core{'s' * (count > 1)}"


def _differs(name: str, before: Array, now: Array) -> Finding:
    one, other = in_float64(before), in_float64(now)
    differs = ~((one == other) | (np.isnan(one) & np.isnan(other)))
    index = tuple(map(int, np.argwhere(differs)[0])) if differs.any() else ()
    told = (
        f"{name[0].upper()}{name[1:]} depends on the order of parallel steps: element {index} is "
        f"{one[index]:.9g} in one order, and {other[index]:.9g} in another. Give each parallel "
        "step elements of its own, or mark the dimension arbitrary."
        if differs.any()
        else f"The bits of {name} depend on the order of parallel steps: zeros have another sign."
    )
    return Finding(Check.VALUES, "depends on the order of its steps", told)


def _cost(chip: str, kernels: Sequence[Any], fingerprint: str) -> LaunchCost:
    rows: dict[str, dict[str, float | None]] = {}
    for kernel in kernels:
        number = sum(1 for name in rows if name.partition("[")[0] == kernel.call.name)
        rows[f"{kernel.call.name}[{number}]" if number else kernel.call.name] = {
            "seconds": kernel.seconds,
            "bytes": None if kernel.runs.untold else kernel.bytes,
            "vmem": kernel.vmem.used if kernel.vmem else None,
        }

    def together(name: str, combine: Callable[[Iterator[float]], float]) -> Any:
        numbers = [row[name] for row in rows.values()]
        return None if None in numbers else combine(iter(filter(None, numbers)))

    unknown = "; ".join(dict.fromkeys(kernel.unknown for kernel in kernels if kernel.unknown))
    seconds, size = together("seconds", sum), together("bytes", sum)
    vmem = together("vmem", lambda sizes: max(sizes, default=0))
    return LaunchCost(chip, seconds, size, vmem, rows, unknown, fingerprint)
