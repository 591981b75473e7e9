"""The hardware of a kata's kernel, TPUs or GPUs: choice of chip, required extras, fields of grades.

`Key.target` is an instance of one of these classes. Other code asks it for a property, or looks its
`name` up in a table that has an entry for each target. These are all the tables, so a new target is
a class here and a row in each:

    TARGETS          below                              the answer key: `target = "gpu"`
    TRACED_ON        grader/sandbox/trace_worker.py     where a launch is traced
    JUDGES           grader/sandbox/worker.py           the module that runs and compiles traces
    LAUNCH_CLIENTS   grader/sandbox/client.py           the questions to these workers
    LADDERS          grader/grading/ladder.py           the rungs and the cost
    EVIDENCE         grader/grading/grader.py           the answers that the rungs need
    COST_REPORTS     grader/commands/launches.py        `kata cost`
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any, ClassVar

from grader.exercise.key_tables import TomlTable
from pallascope.model import Check, Mode, NotJudged

#: The hardware units that a GPU kata may require, named as in `pallascope.gpu.gpu_resources`.
UNITS = ("wgmma", "tcgen05", "tensor memory", "TMA loads", "TMA stores", "mbarrier", "setmaxnreg")
#: The GPUs that `pallascope.gpu.gpus` knows.
GPUS = ("h100", "b200")


@dataclass(frozen=True, slots=True)
class TpuTarget:
    """A kata for TPUs. A class for another target has the same members."""

    name: ClassVar[str] = "tpu"
    title: ClassVar[str] = "TPUs"
    #: The fields of an answer key that only this target has.
    fields: ClassVar[tuple[str, ...]] = (
        "mesh",
        "cores",
        "random",
        "predictions",
        "tested",
        "block_by_block",
    )
    #: Whether libtpu compiles the kernel, so that its cost can be predicted and drawn.
    uses_libtpu: ClassVar[bool] = True

    @classmethod
    def read(cls, _source: TomlTable) -> TpuTarget:
        """The target of an answer key. Raises KeyProblem."""
        return cls()

    def chips(self, cores: int, tpus: tuple[str, ...], _gpu: str) -> tuple[str, ...]:
        """The chips that a launch is compiled for, of those that the session names.

        The cost is judged on the first. If none of the TPUs has enough TensorCores, it is another.
        """
        from pallascope.tpu.chips import chips_with_cores  # most commands need no chip

        return chips_with_cores(cores, tpus)

    def mode(self, session: Mode) -> Mode:
        """How launches are run in a session with this --kata-mode."""
        return session

    def missing(self) -> NotJudged | None:
        """Why this environment can't trace such a launch at all; None if it can."""
        return None

    def grade_fields(self, _chip: str) -> dict[str, Any]:
        """The fields of a Grade that only this target fills."""
        return {}


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """A kata for GPUs, whose kernels must use these `units`.

    `not_interpreted` says why Mosaic GPU's interpreter can't run the kernel, "" if it can.
    `only_on` names the only GPU that has the units, "" if all do. With `copies_ahead`, the kernel
    must have a copy into its slots under way while it uses another one.
    """

    units: tuple[str, ...] = ()
    not_interpreted: str = ""
    only_on: str = ""
    copies_ahead: bool = False
    name: ClassVar[str] = "gpu"
    title: ClassVar[str] = "GPUs"
    fields: ClassVar[tuple[str, ...]] = (
        *("units", "not_interpreted", "only_on"),
        "copies_ahead",
    )
    uses_libtpu: ClassVar[bool] = False

    @classmethod
    def read(cls, source: TomlTable) -> GpuTarget:
        if source.data.get("kernel") is False:
            raise source.fail("target", 'target = "gpu" has no meaning without a kernel')
        units = source.texts("units", ())
        for unit in units:
            if unit not in UNITS:
                raise source.fail("units", f"has no {unit!r}; known: {', '.join(UNITS)}")
        only_on = source.data.get("only_on", "")
        if only_on not in ("", *GPUS):
            raise source.fail("only_on", f"needs one of {', '.join(GPUS)}, not {only_on!r}")
        given = "not_interpreted" in source.data
        why = source.text("not_interpreted") if given else ""
        return cls(units, why, only_on, source.boolean("copies_ahead", False))

    def chips(self, _cores: int, _tpus: tuple[str, ...], gpu: str) -> tuple[str, ...]:
        return (self.only_on or gpu,)

    def mode(self, _session: Mode) -> Mode:
        return Mode.STRICT  # Mosaic GPU has one interpreter

    def missing(self) -> NotJudged | None:
        if importlib.util.find_spec("absl") is not None:
            return None
        return NotJudged(Check.RUNS, "Mosaic GPU needs absl-py: pip install absl-py")

    def grade_fields(self, chip: str) -> dict[str, Any]:
        return {"gpu": chip}


Target = TpuTarget | GpuTarget
TARGETS: dict[str, type[Target]] = {kind.name: kind for kind in (TpuTarget, GpuTarget)}
#: The target of a key that names none.
DEFAULT_TARGET = TpuTarget()


def target_of(source: TomlTable) -> Target:
    """`target` and the fields that belong to it. Raises KeyProblem."""
    name = source.data.get("target", DEFAULT_TARGET.name)
    if name not in tuple(TARGETS):
        known = " or ".join(f'"{known}"' for known in TARGETS)
        raise source.fail("target", f"needs {known}, not {name!r}")
    for kind in TARGETS.values():
        for field in kind.fields:
            if kind.name != name and field in source.data:
                here = f'with target = "{name}"'
                other = f'without target = "{kind.name}"'
                why = here if kind.name == DEFAULT_TARGET.name else other
                raise source.fail(field, f"has no meaning {why}")
    return TARGETS[name].read(source)
