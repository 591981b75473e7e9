"""The classes of JAX and Pallas that are taken apart attribute by attribute.

Each module's row lists what any supported version of JAX has there.
"""

from __future__ import annotations

from collections.abc import Iterator

from grader.kernels.carrier.forms import Form, filled, found, member, row

_ENUMS = {
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
_ROWS = {
    "jax._src.lax.control_flow.solves": "_LinearSolveTuple",
    "jax._src.lax.convolution": "ConvDimensionNumbers",
    "jax._src.lax.lax": "DotAlgorithm",
    "jax._src.lax.slicing": "GatherDimensionNumbers ScatterDimensionNumbers",
    "jax._src.linear_util": "DebugInfo",
    "jax._src.source_info_util": "Scope Transform",
}
_DATACLASSES = {
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
_SLOTTED = {
    "jax._src.core": {"NamedAxisEffect": ("name",)},
    "jax._src.lax.lax": {"Tolerance": ("atol", "rtol", "ulps")},
    "jax._src.state.types": {
        "AbstractRef": ("inner_aval", "memory_space", "kind"),
        "ReadEffect": ("input",),
        "WriteEffect": ("input",),
        "AccumEffect": ("input",),
    },
}


def forms() -> Iterator[Form]:
    """The forms of these classes, as far as this JAX has them."""
    for make, table in ((member, _ENUMS), (row, _ROWS), (filled, _DATACLASSES)):
        for module, names in table.items():
            yield from map(make, found(module, names))
    for module, attributes in _SLOTTED.items():
        for name, names in attributes.items():
            yield from (filled(kind, names) for kind in found(module, name))
