"""The environment variables of worker processes: which backend jax takes, and XLA's flags."""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import pkgutil
import re
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec

from grader.verdict import Device
from pallascope.model import Mode
from pallascope.tools.versions import versions

#: Compiling takes a third of the time where XLA emits each operation the way it did before its
#: fusion emitters, in one piece. XLA ends a process that passes a flag which it does not know, so
#: these are for versions of jaxlib that were seen to know them: up to 0.11.0; 0.11.2 does not.
QUICK_TO_COMPILE = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
QUICK_UNTIL = (0, 11, 0)

#: XLA's algebraic simplifier computes something else than a kernel says: a product with a mask
#: becomes a select, though NaN * 0 is NaN; exp(x) / exp(y) becomes exp(x - y), which doesn't
#: overflow; log(exp(x)), (x + a) - a and (x * a) / a become x. Mosaic does none of this. Without
#: the simplifier, grading all solutions takes as long as with it. YNNPACK, to which XLA hands sums
#: and products, leaves out a rounding to bfloat16 within them, whatever else is asked for.
AS_WRITTEN = (
    "--xla_allow_excess_precision=false --xla_cpu_experimental_ynn_fusion_type= "
    "--xla_disable_hlo_passes=algsimp"
)


#: What is passed on: by whole names, and by how names begin. Anything else may be a secret of
#: whoever grades, and a kata's code could print it.
_NAMES = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "PWD", "TZ", "LANG", "LANGUAGE"),
    *("TMPDIR", "TEMP", "TMP", "NPROC", "VIRTUAL_ENV", "CONDA_PREFIX", "DEBUGINFOD_URLS"),
    *("NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES", "NVIDIA_TF32_OVERRIDE"),
)
_BEGINNINGS = (
    *("LC_", "LD_", "DYLD_", "PYTHON", "MALLOC_", "GLIBC_", "OMP_", "MKL_", "OPENBLAS_", "NVPL_"),
    *("JAX_", "XLA_", "TPU_", "LIBTPU_", "MOSAIC_", "PALLAS_", "PJRT_", "TF_CPP_", "TF_XLA_"),
    *("JAXTYPING_", "BEARTYPE_", "CUDA_", "ROCM_", "ROCR_", "HIP_", "HSA_", "NCCL_", "MLIR_"),
    *("LLVM_", "TRITON_", "MEGASCALE_", "CLOUD_TPU_", "COV_CORE_", "COVERAGE_"),
)
#: Which backend jax takes, and which plugins it loads, is decided here alone.
_BACKENDS = (
    *("JAX_PLATFORMS", "JAX_PLATFORM_NAME", "JAX_XLA_BACKEND", "JAX_DEFAULT_DEVICE"),
    "PJRT_NAMES_AND_LIBRARY_PATHS",
)
_SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def passed_on(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables that Python, jax and the compilers read."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _NAMES or name.startswith(_BEGINNINGS))
        and not (name in _BACKENDS or _SECRET.search(name))
    }


def environment(device: Device, environ: Mapping[str, str]) -> dict[str, str]:
    """What of `environ` is passed on, and what starts JAX on this device, quietly.

    An interpreted case is compiled once and run once, so optimising what XLA compiles costs more
    than it saves (a quarter of a matmul case's CPU time). And XLA must compute what the kernel
    says: a value rounded to bfloat16 is rounded, and NaN * 0 is NaN, as it would be on a TPU.
    """
    added = {"TF_CPP_MIN_LOG_LEVEL": "3", "TPU_SKIP_MDS_QUERY": "1"}
    # A TPU is asked for by name, so that one that can't be used is an error, which says why.
    added["JAX_PLATFORMS"] = "cpu" if device.backend == "cpu" else f"{device.backend},cpu"
    if device.mode is not Mode.COMPILED:
        quick = f"--xla_backend_optimization_level=0 {_quick_to_compile(versions()['jaxlib'])}"
        # XLA takes the last of a flag's values, so ours that decide verdicts stand behind theirs.
        added["XLA_FLAGS"] = f"{quick} {environ.get('XLA_FLAGS', '')} {AS_WRITTEN}"
    return {**passed_on(environ), **added}


def skip_plugins() -> None:
    """Keep jax from loading its plugins in this process, which uses the CPU or a TPU.

    jax loads all that are installed, such as CUDA's, also where it is to use the CPU. One that is
    broken would end the process.
    """
    names = {entry.value for entry in importlib.metadata.entry_points(group="jax_plugins")}
    with contextlib.suppress(ImportError):
        path = importlib.import_module("jax_plugins").__path__
        names |= {name for _, name, _ in pkgutil.iter_modules(path, "jax_plugins.")}
    for name in names:
        plugin = importlib.util.module_from_spec(ModuleSpec(name, None))
        plugin.initialize = lambda: None  # type: ignore[attr-defined]
        sys.modules[name] = plugin


def _quick_to_compile(jaxlib: str | None) -> str:
    """The flags that this version of jaxlib is known to know."""
    numbers = tuple(int(number) for number in re.findall(r"\d+", jaxlib or "")[:3])
    return QUICK_TO_COMPILE if (0,) < numbers <= QUICK_UNTIL else ""
