"""A traced launch as inert bytes, and back in a process that has never imported its file.

    dumping        a trace -> bytes, or what of it can't be carried
    loading        bytes -> a trace, whatever the bytes are
    table          which classes are carried
    forms          how: as which parts, and how they are put together again
    classes        those that are no more than their attributes
    containers     Python's containers, and objects of which JAX has one each
    equations      what makes up a jaxpr
    arrays         numbers, arrays and dtypes
    types          types of arrays, shardings, meshes
    kernels        grids, compiler parameters, TensorCores
    mosaic_gpu     what only launches on a GPU have
    trees          tree definitions, and operations that are objects with attributes
    layout         how the bytes are laid out
    limits         how much a trace may hold
    operations     JAX's own primitives, by module and name
    tracebacks     source lines, as data and as tracebacks
    prints         format strings that look into what they print
    left_behind    what stands for the functions that are not carried
    checking       whether a trace's types are true
    readiness      what is looked up for every trace, built ahead of time
    interpreting   who asks to be interpreted, and how it is decided

What is written is a table of nodes: numbers, texts, and objects out of earlier nodes. Reading it
builds objects of the classes in the table of forms and nothing else: it imports nothing, looks up
no name that isn't in that table, and calls no code but JAX's own constructors.
"""

from grader.kernels.carrier.checking import checked
from grader.kernels.carrier.dumping import dumped
from grader.kernels.carrier.errors import CarrierError, NotCarried
from grader.kernels.carrier.interpreting import asks_to_interpret, with_interpret
from grader.kernels.carrier.loading import loaded
from grader.kernels.carrier.readiness import make_ready, make_ready_for_gpus

__all__ = [
    "CarrierError",
    "NotCarried",
    "asks_to_interpret",
    "checked",
    "dumped",
    "loaded",
    "make_ready",
    "make_ready_for_gpus",
    "with_interpret",
]
