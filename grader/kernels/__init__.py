"""From a function to what it launches: the only package that touches JAX's internals.

    jax_internals       all that these modules use of JAX's internals, in one place
    traced_launch       trace a launch function, and run the trace
    carrier             a trace as inert bytes, to another process and back
    interpreter         in which mode: the TPU interpreter, its parameters
    padding             which input's padding a kernel has used
    races               races and leftover semaphores, as the interpreter finds them
    copy_faults         copies started by hand, while they run: what goes wrong;
                        in_flight decides, copy_recorder hears, flights, ref_names
    meetings            what several devices do to each other, while they run;
                        watching_devices hears, exchange keeps it, exchange_faults
                        decides, exchange_told names it, wait_lines
    several_devices     a launch for several, on as many that jax simulates
    sharding            over which axes a shard_map splits
    collectives         what devices send to each other outside of kernels
    resharding          arrays that two shard_maps split in different ways
    kept_promises       what a kernel promises to the compiler, taken at its word
    faster_interpreter  what the strict interpreter would compile more often than it has to
    hardware_bits       the random bits that a core draws from its own generator
    parallel_dimensions in any place of a grid, not only before all others
    lowering            trace and lower for a TPU that need not be there
    device_queries      JAX's answers about devices, while that is done
    mosaic_errors       what Mosaic refuses to lower, and from which lines it came
    outside_kernels     the operations around the kernels of a trace
    bitcasts            which of these move nothing
    without_refs        a trace whose kernels are all calls: pl.core_map becomes one
    retrace             a trace made anew with some of its operations replaced
    large_constants     arrays whose contents a trace holds
    source_lines        from which file and line an equation comes
    calls               one kernel as data: operands, blocks, grid
    copies              what a kernel copies by itself, as far as its trace tells
    alias_copies        what XLA copies so that outputs may lie in the place of inputs
    other_chips         whether it has to do with other chips
    pallas_params       what Pallas keeps in the equation of a kernel, with types
    runs                how often a launch runs each kernel; repeated, loops
    block_positions     where each operand's block lies on each grid step
    held_outputs        which results are an output of the last kernel, or hold its elements
    known_values        values that are known before any kernel runs; known_steps,
                        and on_all_devices: those within a shard_map
    prefetch_reads      which cells of scalar prefetch the index maps read
    habits              what a kernel does that is slow, or that it never waits for
    narrow              where it computes with integers of fewer than 32 bits
    first_touches       what a kernel does first to each Ref
    flops               how many operations a jax.numpy function takes
    longest_sum         how many terms a spec adds up
    jaxprs              what these modules share
    carrier             a trace as inert bytes, and back in another process

Where JAX has moved an internal, UnsupportedJax names it.
"""

from grader.kernels.block_positions import walk_of
from grader.kernels.calls import kernel_call
from grader.kernels.carrier import CarrierError, NotCarried
from grader.kernels.copy_faults import watching_copies
from grader.kernels.copy_recorder import CopyWatch
from grader.kernels.first_touches import first_touches
from grader.kernels.flops import flops, flops_by_dtypes
from grader.kernels.interpreter import running
from grader.kernels.jax_internals import CALLBACK_LOGGER, UnsupportedJax
from grader.kernels.longest_sum import longest_product, longest_sum
from grader.kernels.lowering import for_chip
from grader.kernels.meetings import Meetings
from grader.kernels.mosaic_errors import NotLowered
from grader.kernels.padding import overhangs
from grader.kernels.races import watching
from grader.kernels.several_devices import CopiesDiffer
from grader.kernels.traced_launch import TracedLaunch
from grader.kernels.watching_devices import watching_devices

__all__ = [
    "CALLBACK_LOGGER",
    "CarrierError",
    "CopiesDiffer",
    "CopyWatch",
    "Meetings",
    "NotCarried",
    "NotLowered",
    "TracedLaunch",
    "UnsupportedJax",
    "first_touches",
    "flops",
    "flops_by_dtypes",
    "for_chip",
    "kernel_call",
    "longest_product",
    "longest_sum",
    "overhangs",
    "running",
    "walk_of",
    "watching",
    "watching_copies",
    "watching_devices",
]
