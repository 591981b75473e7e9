"""A child process that runs traced launches: its environment, its loop, and its client.

RunProcess   the client: asks questions, kills the process if an answer takes too long
main         the loop in the process
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import os
import pkgutil
import re
import sys
import threading
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from typing import TypeVar

from pallascope.runs.questions import LaunchAnswer, LaunchQuestion
from pallascope.tools import codec
from pallascope.tools.child_process import ChildProcess, ParentConnection
from pallascope.tools.versions import versions

T = TypeVar("T")

#: Compilation takes a third of the time if XLA doesn't use its fusion emitters, and emits code in
#: one piece. XLA ends a process that passes an unknown flag, so these are only for versions of
#: jaxlib that were seen to know them: up to 0.11.0; 0.11.2 does not.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
QUICK_UNTIL = (0, 11, 0)

#: XLA's algebraic simplifier changes a kernel's results: a product with a mask becomes a select,
#: though NaN * 0 is NaN; exp(x) / exp(y) becomes exp(x - y), which doesn't overflow; log(exp(x)),
#: (x + a) - a and (x * a) / a become x. Mosaic does none of this. Without the simplifier, grading
#: all solutions takes equally long. YNNPACK, which XLA uses for sums and products, leaves out a
#: rounding to bfloat16 within them, whatever the other flags.
AS_WRITTEN = (
    "--xla_allow_excess_precision=false --xla_cpu_experimental_ynn_fusion_type= "
    "--xla_disable_hlo_passes=algsimp"
)
THREADS = 4  # of XLA, for each simulated device
#: The most devices of a mesh, which one process simulates.
SIMULATED_DEVICES = 8


def interpreter_flags(environ: Mapping[str, str]) -> str:
    """XLA_FLAGS for a process that interprets kernels.

    A case is compiled once and run once, so XLA's optimizations cost more than they save (a quarter
    of a matmul case's CPU time). And XLA must compute exactly the kernel's operations: a value
    rounded to bfloat16 is rounded, and NaN * 0 is NaN, as on a TPU.
    """
    quick = f"--xla_backend_optimization_level=0 {_quick_to_compile(versions()['jaxlib'])}"
    # XLA takes the last value of a flag, so our flags that decide verdicts come last.
    return f"{quick} {environ.get('XLA_FLAGS', '')} {AS_WRITTEN}"


def _quick_to_compile(jaxlib: str | None) -> str:
    """The flags, if this version of jaxlib is known to accept them."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", jaxlib or "")[:3])
    return QUICK_TO_COMPILE if (0,) < numbers <= QUICK_UNTIL else ""


def skip_plugins() -> None:
    """Keep jax from loading its plugins in this process, which uses the CPU or a TPU.

    jax loads all installed plugins, such as CUDA's, even if it uses the CPU. A broken plugin would
    end the process.
    """
    names = {entry.value for entry in importlib.metadata.entry_points(group="jax_plugins")}
    with contextlib.suppress(ImportError):
        path = importlib.import_module("jax_plugins").__path__
        names |= {name for _, name, _ in pkgutil.iter_modules(path, "jax_plugins.")}
    for name in names:
        plugin = importlib.util.module_from_spec(ModuleSpec(name, None))
        plugin.initialize = lambda: None  # type: ignore[attr-defined]
        sys.modules[name] = plugin


def simulate_devices(count: int) -> None:
    """Let jax have several devices; this must happen before its backend starts.

    The interpreter keeps a thread of XLA waiting for each core of each device, and XLA takes its
    number of threads from NPROC. With too few threads they would wait for each other forever.
    """
    import jax

    os.environ["NPROC"] = str(THREADS * count)
    jax.config.update("jax_num_cpu_devices", count)


#: The variable that asks a process to simulate several devices.
_MESHED = "PALLASCOPE_SIMULATES_DEVICES"


def main() -> None:
    """Answer questions until the parent ends."""
    parent = ParentConnection()
    skip_plugins()
    if _MESHED in os.environ:
        simulate_devices(SIMULATED_DEVICES)
    from pallascope.runs import launch_runs  # imports jax, which reads the environment

    while True:
        question = codec.unpack(LaunchQuestion, parent.receive())
        parent.send(codec.pack(launch_runs.answer(question)))


class RunProcess:
    """The process that runs launches, or those for a mesh of devices if it is `meshed`.

    It starts with the first question, and answers one at a time. If it dies, or takes too long, the
    next question starts another one.
    """

    def __init__(self, meshed: bool = False) -> None:
        self._meshed = meshed
        self._lock = threading.Lock()
        self._child: ChildProcess | None = None
        self._printed = 0  # the length of the output that `take_printed` has returned

    def _started(self) -> ChildProcess:
        if self._child is None:
            environ = {
                **os.environ,
                "JAX_PLATFORMS": "cpu",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "XLA_FLAGS": interpreter_flags(os.environ),
                **({_MESHED: "1"} if self._meshed else {}),
            }
            self._child, self._printed = ChildProcess.running(__name__, environ), 0
        return self._child

    def answer(self, kind: type[T], question: LaunchQuestion, seconds: float | None) -> T:
        """The answer, of this type. Raises ChildTimeout and ChildEnded."""
        with self._lock:
            child = self._started()
            try:
                child.send(question)
                answer = child.answer(LaunchAnswer, seconds)
            except BaseException:
                self._child = None  # otherwise the next question would get this one's answer
                child.close()
                raise
        assert isinstance(answer, kind), answer
        return answer

    def take_printed(self) -> str:
        """The text that launches have printed since the last call."""
        printed = self._child.printed() if self._child else ""
        new, self._printed = printed[self._printed :], len(printed)
        return new
