"""The rungs of the ladder, one module each: `check(evidence) -> Finding | None`.

A check asks one question of what was observed. It raises nothing, prints nothing, runs nothing.

The rungs, from the lowest to the highest:

runs          does it import, trace and finish?
contract      does it return the shapes and dtypes that it is annotated with?
own_work      is it the file's own work, made of JAX's operations?
pallas_used   is the work inside a kernel?
values        is every element right?
randomness    do the results come about by the chances that they should?
block_shapes  does a TPU take the blocks?
lowers        does Mosaic lower the kernel?
compiles      does the TPU's compiler take it, and does it fit into VMEM?
cost          does it take about as many HBM bytes and cycles as par?

What they share:

evidence      what a check is given
compare       a result beside its expected values
diagnoses     what a wrong result looks like
between_devices what goes wrong between several devices
links         what a launch sends to other chips, beside par
collectives   what collectives around the kernels send
parts         where each device works on more than par's part of an array
interpreter   what the TPU interpreter raises or prints
races         accesses of two cores, or devices, that nothing orders
runtime_errors what the TPU interpreter raises or prints
advice        what to try, by what an exception says
outcome       how far a launch came on its way to a chip, for `kata cost` and `kata view`
prose         small pieces of text
"""
