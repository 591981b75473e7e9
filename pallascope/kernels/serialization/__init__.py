"""A traced launch as inert bytes, and back in a process that has never imported its file.

The bytes are a table of nodes: numbers, texts, and objects made of earlier nodes. Reading it builds
objects of the classes in the table of encoders and nothing else: it imports nothing, looks up no
name that isn't in that table, and calls no code but JAX's own constructors.

array_encoders   Encoders of numbers, arrays, their types, and meshes
dump             Writes a trace as bytes; the table of all encoders
encoding         The encoder of a class: how its objects become parts and back
jaxpr_encoders   Encoders of jaxprs: variables, equations, contexts
load             Reads a trace from bytes, checks it, and sets `interpret`
pallas_encoders  Encoders of Pallas' objects, for TPUs and Mosaic GPU
python_encoders  Encoders of containers, tree definitions, primitives, functions
wire_format      The layout of the bytes, and source lines in them
"""

from pallascope.kernels.serialization.dump import dumped, make_ready, make_ready_for_gpus
from pallascope.kernels.serialization.encoding import NotSerializable, SerializationError
from pallascope.kernels.serialization.load import asks_to_interpret, checked, loaded, with_interpret

__all__ = [
    "NotSerializable",
    "SerializationError",
    "asks_to_interpret",
    "checked",
    "dumped",
    "loaded",
    "make_ready",
    "make_ready_for_gpus",
    "with_interpret",
]
