"""The part of an answer key that says for which hardware a launch is: TPUs, or GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from grader.exercise.keys.table import Table

TARGETS = ("tpu", "gpu")
#: What a kernel can be asked to use on a GPU, in the words of `grader.gpu.sass`.
UNITS = ("wgmma", "tcgen05", "tensor memory", "TMA loads", "TMA stores", "mbarrier", "setmaxnreg")
#: The GPUs that a kata may be for alone, as `grader.gpu.chips` names them.
GPUS = ("h100", "b200")
#: What only a launch for a GPU has.
OF_GPUS = ("units", "not_interpreted", "only_on")
#: What only a launch for a TPU has.
_OF_TPUS = ("mesh", "cores", "random", "predictions", "tested", "block_by_block")


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """Of a launch for GPUs: which of a GPU's `units` its kernels have to use.

    `not_interpreted` says why Mosaic GPU's interpreter can't run it, "" where it can. `only_on` is
    the only GPU that has what the kata is about, "" where each has.
    """

    units: tuple[str, ...] = ()
    not_interpreted: str = ""
    only_on: str = ""


def gpu_of(source: Table) -> GpuTarget | None:
    """`target` and what belongs to it; None for TPUs. Raises KeyProblem."""
    target = source.data.get("target", "tpu")
    if target not in TARGETS:
        raise source.fail("target", f'needs "tpu" or "gpu", not {target!r}')
    if target == "tpu":
        for name in OF_GPUS:
            if name in source.data:
                raise source.fail(name, 'means nothing without target = "gpu"')
        return None
    for name in _OF_TPUS:
        if name in source.data:
            raise source.fail(name, 'means nothing where target = "gpu"')
    if source.data.get("kernel") is False:
        raise source.fail("target", 'target = "gpu" means nothing where there is no kernel')
    units = source.texts("units", ())
    for unit in units:
        if unit not in UNITS:
            raise source.fail("units", f"has no {unit!r}; known: {', '.join(UNITS)}")
    only_on = source.data.get("only_on", "")
    if only_on not in ("", *GPUS):
        raise source.fail("only_on", f"needs one of {', '.join(GPUS)}, not {only_on!r}")
    named = "not_interpreted" in source.data
    return GpuTarget(units, source.text("not_interpreted") if named else "", only_on)
