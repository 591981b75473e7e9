"""The environment variables of worker processes: which backend jax takes, and XLA's flags."""

from __future__ import annotations

import re
from collections.abc import Mapping

from grader.model import Device, Mode
from grader.tools.versions import versions

#: Compiling takes a third of the time where XLA emits each operation the way it did before its
#: fusion emitters, in one piece. XLA ends a process that passes a flag which it does not know, so
#: these are for versions of jaxlib that were seen to know them: up to 0.11.0; 0.11.2 does not.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
QUICK_UNTIL = (0, 11, 0)


def environment(device: Device, environ: Mapping[str, str]) -> dict[str, str]:
    """`environ`, and the variables under which JAX starts on this device, quietly.

    An interpreted case is compiled once and run once, so optimising what XLA compiles costs more
    than it saves (a quarter of a matmul case's CPU time). And XLA must not keep more precision
    than the kernel asks for: a value rounded to bfloat16 is rounded, as it would be on a TPU.
    """
    added = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_SKIP_MDS_QUERY": "1"}
    if device.backend == "cpu":
        # Accelerators are JAX's own choice; asked for by name, one that is missing is an error.
        added["JAX_PLATFORMS"] = "cpu"
    if device.mode is not Mode.COMPILED:
        flags = "--xla_backend_optimization_level=0 --xla_allow_excess_precision=false"
        flags = f"{flags} {_quick_to_compile(versions()['jaxlib'])}"
        added["XLA_FLAGS"] = f"{flags} {environ.get('XLA_FLAGS', '')}".strip()
    return {**environ, **added}


def _quick_to_compile(jaxlib: str | None) -> str:
    """The flags that this version of jaxlib is known to know."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", jaxlib or "")[:3])
    return QUICK_TO_COMPILE if (0,) < numbers <= QUICK_UNTIL else ""
