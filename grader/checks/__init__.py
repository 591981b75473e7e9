"""The rungs of the ladder, one module each: `check(evidence) -> Finding | None`.

A check asks one question about the evidence. It raises, prints and runs nothing. The checks that
need no kata are in `pallascope.checks`.

communication_cost      ★★★ Bytes over links, shard sizes, overlap: compared with the solution
cost                    ★★★ Are HBM bytes and predicted cycles within the slack of par?
disallowed_shortcuts    ★ Is it the file's own work, in a kernel, and are its results not baked in?
evidence                The evidence that rungs judge: one attempt at a kata, on one hidden case
gpu_compiles            ★★ Do jax and a GPU's compiler accept the kernel, without spills?
gpu_hardware            ★★ and ★★★ Is it right and fast on the GPU of this machine?
gpu_interpreted         ★ Is it right in Mosaic GPU's interpreter, and by more than luck?
numbers_and_tests       Katas without a kernel: predicted numbers, and a learner's test
production_values       ★ Are the values right at production size, as far as they are computed?
random_statistics       Statistics of random results: bounds, frequencies, repetition
randomness              ★ Are random results distributed as they should be?
shapes_and_dtypes       ★ Does the launch return the annotated shapes and dtypes?
surrounding_operations  How much may be done around a kernel: by cost, dtype and name
"""
