"""All uses of JAX's internals, for each version of jax: no other module names them.

    from pallascope.kernels.jax_internals import runtime_tokens

A name is looked up in JAX when it is first imported from here, because importing some of these
modules takes long. If this version of JAX keeps it elsewhere, the import raises UnsupportedJax with
its former place. `found` gives names that only some of the supported versions have.

Written against jax 0.10.2 and 0.12.0.1.
tests/pallascope/kernels/test_jax_internals.py looks up each name.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pallascope.tools.versions import TESTED_JAX

SOURCE = "jax._src."

_TPU_INTERPRETER = "jax._src.pallas.mosaic.interpret"
_GPU_INTERPRETER = "jax._src.pallas.mosaic_gpu.interpret"

#: Each name's place in JAX: a module, or something in one.
PLACES = {
    "AbstractRef": "jax._src.state.types.AbstractRef",
    "ArrayCopySemantics": "jax._src.dispatch.ArrayCopySemantics",
    "ArrayImpl": "jax._src.array.ArrayImpl",
    "Barrier": f"{_GPU_INTERPRETER}.shared_memory.Barrier",
    "DebugInfo": "jax._src.linear_util.DebugInfo",
    "ExtendedDType": "jax._src.dtypes.ExtendedDType",
    "InterpretGPUParams": f"{_GPU_INTERPRETER}.params.InterpretGPUParams",
    "JaxprTypeError": "jax._src.core.JaxprTypeError",
    "NDIndexer": "jax._src.state.indexing.NDIndexer",
    "NameStack": "jax._src.source_info_util.NameStack",
    "NamedSharding": "jax._src.named_sharding.NamedSharding",
    "PartitionSpec": "jax._src.partition_spec.PartitionSpec",
    "Semaphore": f"{_TPU_INTERPRETER}.shared_memory.Semaphore",
    "SharedMemory": f"{_TPU_INTERPRETER}.shared_memory.SharedMemory",
    "SourceInfo": "jax._src.source_info_util.SourceInfo",
    "Traceback": "jax._src.source_info_util.Traceback",
    "TransformedRef": "jax._src.state.types.TransformedRef",
    "TypedFloat": "jax._src.literals.TypedFloat",
    "TypedInt": "jax._src.literals.TypedInt",
    "TypedNdArray": "jax._src.literals.TypedNdArray",
    "WrappedFun": "jax._src.linear_util.WrappedFun",
    "callback": "jax._src.callback",
    "check_jaxpr": "jax._src.core.check_jaxpr",
    "convert_constvars_jaxpr": "jax._src.interpreters.partial_eval.convert_constvars_jaxpr",
    "dce_jaxpr": "jax._src.interpreters.partial_eval.dce_jaxpr",
    "debug_info": "jax._src.api_util.debug_info",
    "discharge_state": "jax._src.state.discharge.discharge_state",
    "extend_axis_env_nd": "jax._src.core.extend_axis_env_nd",
    "get_interpret_effects": "jax._src.pallas.core.get_interpret_effects",
    "gpu_callbacks": f"{_GPU_INTERPRETER}.gpu_callbacks",
    "get_p": "jax._src.state.primitives.get_p",
    "gpu_interpreter": f"{_GPU_INTERPRETER}.interpret_pallas_call",
    "gpu_shared_memory": f"{_GPU_INTERPRETER}.shared_memory",
    "is_user_filename": "jax._src.source_info_util.is_user_filename",
    "jax_core": "jax._src.core",
    "jit_p": "jax._src.pjit.jit_p",
    "layout_cast_p": "jax._src.pallas.mosaic_gpu.core.layout_cast_p",
    "linear_util": "jax._src.linear_util",
    "mesh": "jax._src.mesh",
    "mlir": "jax.interpreters.mlir",
    "mosaic_core": "jax._src.pallas.mosaic.core",
    "mosaic_primitives": "jax._src.pallas.mosaic.primitives",
    "multiple_of_p": "jax._src.pallas.primitives.multiple_of_p",
    "pallas_call": "jax._src.pallas.pallas_call",
    "pallas_core": "jax._src.pallas.core",
    "pallas_utils": "jax._src.pallas.utils",
    "prng": "jax._src.random.prng",
    "program_id_p": "jax._src.pallas.primitives.program_id_p",
    "pytree": "jax._src.lib.pytree",
    "race_detection_state": f"{_TPU_INTERPRETER}.race_detection_state",
    "ranges_overlap": f"{_TPU_INTERPRETER}.race_detection_state._ranges_overlap",
    "raw_frame_to_frame": "jax._src.source_info_util.raw_frame_to_frame",
    "runtime_tokens": "jax._src.dispatch.runtime_tokens",
    "source_info_context": "jax._src.source_info_util._source_info_context",
    "state_discharge": "jax._src.state.discharge",
    "summarize": "jax._src.source_info_util.summarize",
    "thread_map": f"{_TPU_INTERPRETER}.thread_map",
    "to_range": f"{_TPU_INTERPRETER}.utils.to_range",
    "tpu_interpreter": f"{_TPU_INTERPRETER}.interpret_pallas_call",
    "tpu_interpreter_utils": f"{_TPU_INTERPRETER}.utils",
    "trace_to_jaxpr_dynamic": "jax._src.interpreters.partial_eval.trace_to_jaxpr_dynamic",
    "tree_util": "jax._src.tree_util",
    "user_context": "jax._src.source_info_util.user_context",
    "user_frames": "jax._src.source_info_util.user_frames",
    "vector_clock": f"{_TPU_INTERPRETER}.vector_clock",
    "xla_bridge": "jax._src.xla_bridge",
}

# ---- modules that are used by name and not imported ----

#: The interpreter runs a kernel's memory operations as host callbacks. The caller gets only the
#: text of an exception in one of them; the exception itself, with its lines, goes to this logger.
CALLBACK_LOGGER = "jax._src.callback"
TPU_INTERPRETER = f"{_TPU_INTERPRETER}."
GPU_INTERPRETER = f"{_GPU_INTERPRETER}.interpret_pallas_call"
MOSAIC_GPU = "jax._src.pallas.mosaic_gpu"
#: Modules that ask for devices on behalf of the traced function: each describes or chooses
#: devices, and runs nothing.
ASKING_ON_BEHALF = (
    "jax._src.mesh_utils",
    "jax._src.pallas.mosaic.core",
    "jax._src.pallas.mosaic.tpu_info",
    "jax._src.random.core",
    "jax._src.sharding_impls",
    "jax._src.test_util",
    "jax._src.tpu_info",
)
#: Modules through which all questions about devices pass.
ASKED_THROUGH = ("jax._src.interpreters.pxla", "jax._src.xla_bridge")

# ---- the classes and objects that the carrier supports, for `found` ----

ENUMS = {
    "jax._src.api": "Inline",
    "jax._src.core": "MemorySpace UnreducedKind",
    "jax._src.lax.lax": (
        "AccuracyMode DotAlgorithmPreset Precision RaggedDotMode RandomAlgorithm RoundingMethod"
    ),
    "jax._src.lax.fft": "FftType",
    "jax._src.lax.slicing": "GatherScatterMode",
    "jax._src.layout": "LayoutMode",
    "jax._src.mesh": "AxisType",
    "jax._src.pallas.core": "MemorySpace RevisitMode",
    "jax._src.pallas.mosaic.core": (
        "CoreType GridDimensionSemantics MemorySpace SemaphoreType SideEffectType"
    ),
    "jax._src.pallas.primitives": "DeviceIdType",
    "jax._src.pallas.mosaic.pipeline": "BufferType",
}
NAMED_TUPLES = {
    "jax._src.lax.control_flow.solves": "_LinearSolveTuple",
    "jax._src.lax.convolution": "ConvDimensionNumbers",
    "jax._src.lax.lax": "DotAlgorithm",
    "jax._src.lax.slicing": "GatherDimensionNumbers ScatterDimensionNumbers",
    "jax._src.linear_util": "DebugInfo",
    "jax._src.source_info_util": "Scope Transform",
}
DATACLASSES = {
    "jax._src.lax.lax": "RaggedDotDimensionNumbers",
    "jax._src.mesh": "AbstractDevice",
    "jax._src.pallas.core": (
        "BlockMapping Blocked BoundedSlice Buffered CoreMemorySpace CostEstimate Element Indirect "
        "MemoryRef Squeezed"
    ),
    "jax._src.pallas.mosaic.core": (
        "AbstractSemaphore AccMemorySpace AccessAssumption AccessAssumptionTransform MemoryRef "
        "TensorCore"
    ),
    "jax._src.pallas.mosaic.interpret.params": "InterpretParams",
    "jax._src.source_info_util": "NameStack",
    "jax._src.state.indexing": "NDIndexer Slice",
    "jax._src.state.types": (
        "BitcastTransform MemorySpaceCastTransform RefIndexer ReshapeTransform SelectTransform "
        "TransformedRef TransposeTransform"
    ),
}
SLOTTED = {
    "jax._src.core": {"NamedAxisEffect": ("name",)},
    "jax._src.lax.lax": {"Tolerance": ("atol", "rtol", "ulps")},
    "jax._src.state.types": {
        "AbstractRef": ("inner_aval", "memory_space", "kind"),
        "ReadEffect": ("input",),
        "WriteEffect": ("input",),
        "AccumEffect": ("input",),
    },
}
SINGLES = {
    "jax._src.callback": "_IOEffect _OrderedIOEffect",
    "jax._src.core": "array_ref_effect abstract_token",
    "jax._src.debugging": "debug_effect ordered_debug_effect",
    "jax._src.lax.lax": "no_dce_effect",
    "jax._src.layout": "AutoLayout",
    "jax._src.lax.parallel": "single_side_collective_effect",
    "jax._src.named_sharding": "UNSPECIFIED",
    "jax._src.partition_spec": "_UNCONSTRAINED_PARTITION",
    "jax._src.pallas.core": "comms_effect dynamic_grid_dim",
    "jax._src.pallas.mosaic.primitives": "prng_effect trace_effect mxu_effect",
    "jax._src.pallas.primitives": "sem_effect delay_effect",
}
ERRORS = {"jax._src.checkify": "Error"}
FROZEN_DICTS = {"jax._src.frozen_dict": "FrozenDict"}
HIJAX_OPERATIONS = {"jax._src.hijax": "HiPrim VJPHiPrimitive"}
TENSOR_CORES = {"jax._src.pallas.mosaic.core": "TensorCore"}
TENSOR_CORE_MESHES = {"jax._src.pallas.mosaic.core": "TensorCoreMesh"}
#: Nested arguments in jax 0.12: the attributes of each class, in the constructor's order.
FLAT_TREES = {
    "jax._src.flattree": {
        "FTDict": ("keys", "_vals"),
        "FTPyTree": ("xs", "tree"),
        "FTSingleton": ("val",),
        "FTStatic": ("val",),
        "FTFiltered": ("val",),
    },
    "jax._src.util": {"Either": ("is_right", "val")},
}
FLAT_TUPLES = {"jax._src.flattree": "FTTuple"}

# The same for Mosaic GPU. Importing it takes 0.3 s: only a process with a launch for a GPU does.
GPU_CORE = "jax._src.pallas.mosaic_gpu.core"
GPU_ENUMS = {
    GPU_CORE: "Layout MemorySpace PrimitiveSemantics SemaphoreType TMEMLayout TraceScope",
    "jax._src.pallas.mosaic_gpu.primitives": "AtomicOpType",
    "jax.experimental.mosaic.gpu.core": "LoweringSemantics",
    "jax.experimental.mosaic.gpu.launch_context": "OOBFillMode",
}
GPU_DATACLASSES = {
    GPU_CORE: (
        "BarrierType ClusterBarrierType ClusterRefTransform ExtractAliasedRef "
        "CollapseLeadingBatchDimensionsTransform ExpandLeadingBatchDimensionsTransform "
        "GPUMemoryRef IdentityTransform Im2ColTransform Mesh MulticastRef ParameterizedLayout "
        "PeerMemRef ReducedLayout SwizzleTransform TilingTransform UnswizzleRef UntilingTransform "
        "WarpMesh"
    ),
    "jax.experimental.mosaic.gpu.fragmented_array": (
        "Replicated TiledLayout Tiling WGSplatFragLayout WGStridedFragLayout"
    ),
    "jax.experimental.mosaic.gpu.launch_context": "_Partitioned _Replicated",
    "jax.experimental.mosaic.gpu.tcgen05": "TMEMLayout",
}
GPU_SLOTTED = {
    GPU_CORE: {
        "AbstractRefUnion": ("inner_aval", "memory_space", "kind", "refs"),
        "AbstractTMEMRef": ("inner_aval", "memory_space", "kind", "layout", "collective"),
        "WGMMAAbstractAccumulatorRef": ("inner_aval", "memory_space", "kind"),
    }
}
GPU_SINGLES = {GPU_CORE: "_memory_effect _pdl_effect _wgmma_pipeline_effect"}
GPU_COMPILER_PARAMS = {GPU_CORE: "CompilerParams"}


class UnsupportedJax(RuntimeError):
    """This version of jax keeps a needed internal elsewhere."""

    def __init__(self, internal: str) -> None:
        import jax

        oldest, too_new = TESTED_JAX
        tested = f"these are tested: jax>={oldest},<{too_new}"
        super().__init__(f"jax {jax.__version__} has moved {internal}; {tested}")


def __getattr__(name: str) -> Any:
    if name not in PLACES:
        raise AttributeError(f"{name} isn't one of the internals of JAX that are used")
    place = PLACES[name]
    try:
        value = _at(place)
    except ImportError as error:
        if error.name and not error.name.startswith("jax."):
            raise  # JAX needs a package that isn't installed
        raise UnsupportedJax(place) from None
    return globals().setdefault(name, value)


def _at(place: str) -> Any:
    """The module with this name, or an attribute of a module."""
    module, _, name = place.rpartition(".")
    home = importlib.import_module(module)
    return getattr(home, name) if hasattr(home, name) else importlib.import_module(place)


def found(table: dict[str, Any]) -> Iterator[Any]:
    """The objects of a table, module by module, as far as this version of JAX has them.

    A row is names in one text, or a dict whose keys are names.
    """
    for module, row in table.items():
        try:
            home = importlib.import_module(module)
        except ImportError:
            continue
        for name in row.split() if isinstance(row, str) else row:
            if (value := getattr(home, name, None)) is not None:
                yield value


def short(module: str) -> str:
    """The name of a module of JAX without the part that all of them share."""
    return module.removeprefix(SOURCE)


def is_source(module: str) -> bool:
    """Whether a module is one of JAX's internals."""
    return module.startswith(SOURCE)


def imported() -> Iterator[tuple[str, ModuleType]]:
    """JAX's internal modules that this process has imported, by name, in order of import."""
    for name in sorted(filter(is_source, sys.modules)):
        yield name, sys.modules[name]
