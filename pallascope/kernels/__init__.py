"""From a function to its launches: the only package that uses JAX's internals.

If JAX has moved an internal, UnsupportedJax names it.

aliases             Arrays that XLA copies because of input_output_aliases
block_samples       Some blocks of a kernel's outputs, at sizes that take too long to run …
calls               A kernel's equation as data: operands, blocks, grid, for TPUs and GPUs
changed_operations  Changes of one operation that make a launch right
collectives         Bytes that collectives and reshardings send outside of kernels
comm_timeline       Communication timeline: each chip's sends, arrivals and waits, in order
cpu_runs            Computes a launch one operation after another on the CPU, with some …
device_hooks        Hooks of the interpreter that record the devices' actions on each other
dma_events          DMA events of a kernel's body on each chip: copies, signals, products
dma_hazards         Outstanding DMAs of one core, and accesses that come before they end
dma_hooks           Hooks of the interpreter that record a kernel's manual DMA
evaluator           Evaluates jaxprs equation by equation, with values of any kind
faster_interpreter  Makes the strict interpreter faster; its findings stay the same
happens_before      Races between devices: the happens-before order of their events
host_values         Constant folding: values known before a kernel runs, also in shard_map
index_maps          Evaluates index maps: block positions and prefetched cells by grid step
interpreter         Runs kernels in the strict or plain interpreter, or compiled
jax_internals       All uses of JAX's internals: no other module names them
jaxprs              Reads and rewrites jaxprs: all equations with their places, calls, loops, Refs
lints               Lints: slow or often wrong habits, sub-word integers, remote DMA
liveness            How often a launch runs each kernel: loops, dead and repeated kernels
lowering            Traces and lowers a launch for a chip that isn't here
manual_dma          The DMAs that a kernel's body starts: operands, sizes, counts
operation_counts    Arithmetic operations and sum lengths of a jax.numpy function
outside_kernels     Operations around the kernels of a trace, and constants in it
pallas_params       The parameters in the equations of Pallas' kernels, with types
possible_changes    Changes of single operations with which a beginner would mend a kernel
prng_emulation      Emulates a TPU's random number generator in the interpreter
race_detection      Reads races and leftover semaphores from the interpreter's state
refs                Names of a kernel's buffers and semaphores, and their first access
serialization/      A traced launch as inert bytes, and back in a process that has never …
sharding            shard_map's splits, and a launch run on simulated devices
source_lines        The source line of an equation, its author, and the lines that wait
traced_launch       A traced launch: its contents, how to run it, how it is serialised
"""

from pallascope.kernels.calls import kernel_call
from pallascope.kernels.device_hooks import DeviceFaultLog, watching_devices
from pallascope.kernels.dma_hooks import CopyWatch, watching_copies
from pallascope.kernels.edges_of_mosaic import noting_nonfinite
from pallascope.kernels.index_maps import walk_of
from pallascope.kernels.interpreter import UnwrittenMemory, overhangs, running
from pallascope.kernels.jax_internals import CALLBACK_LOGGER, UnsupportedJax
from pallascope.kernels.lowering import NotLowered, for_chip
from pallascope.kernels.operation_counts import flops, flops_by_dtypes, longest_product, longest_sum
from pallascope.kernels.race_detection import watching
from pallascope.kernels.refs import first_accesses
from pallascope.kernels.serialization import NotSerializable, SerializationError
from pallascope.kernels.sharding import CopiesDiffer
from pallascope.kernels.traced_launch import TracedLaunch

__all__ = [
    "CALLBACK_LOGGER",
    "CopiesDiffer",
    "CopyWatch",
    "DeviceFaultLog",
    "NotLowered",
    "NotSerializable",
    "SerializationError",
    "TracedLaunch",
    "UnsupportedJax",
    "UnwrittenMemory",
    "first_accesses",
    "flops",
    "flops_by_dtypes",
    "for_chip",
    "kernel_call",
    "longest_product",
    "longest_sum",
    "noting_nonfinite",
    "overhangs",
    "running",
    "walk_of",
    "watching",
    "watching_copies",
    "watching_devices",
]
