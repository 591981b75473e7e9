"""The rungs of the ladder, one module each: `check(evidence) -> Finding | None`.

A check asks one question about the evidence. It raises, prints and runs nothing.

communication_cost      ★★★ Bytes over links, shard sizes, overlap: compared with the solution
compare                 Compares a result with its expected values: tolerance, wrong blocks
compiles                ★★ Does libtpu accept the kernel, and does it fit into VMEM?
cost                    ★★★ Are HBM bytes and predicted cycles within the slack of par?
device_messages         Messages about races and other faults between the devices of a mesh
diagnoses/              What a wrong result looks like: one small function for each known pattern
disallowed_shortcuts    ★ Is it the file's own work, in a kernel, and are its results not baked in?
dma_messages            Messages about manual DMA: starts, waits, hazards
evidence                The evidence that rungs judge: one attempt at a kata, on one hidden case
exception_advice        Advice on exceptions that are raised while a file is imported, or a …
exceptions              ★ Does it import, trace and finish? Messages about exceptions, races and …
gpu_compiles            ★★ Do jax and a GPU's compiler accept the kernel, without spills?
gpu_hardware            ★★ and ★★★ Is it right and fast on the GPU of this machine?
gpu_interpreted         ★ Is it right in Mosaic GPU's interpreter, and by more than luck?
lowers                  ★★ Are block shapes legal, and does Mosaic lower the kernel?
numbers_and_tests       Katas without a kernel: predicted numbers, and a learner's test
phrasing                Small pieces of prose that several checks share
production_values       ★ Are the values right at production size, as far as they are computed?
random_statistics       Statistics of random results: bounds, frequencies, repetition
randomness              ★ Are random results distributed as they should be?
shapes_and_dtypes       ★ Does the launch return the annotated shapes and dtypes?
surrounding_operations  How much may be done around a kernel: by cost, dtype and name
values                  ★ Is every element right, within what rounding explains?
"""
