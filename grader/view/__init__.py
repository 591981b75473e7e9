"""A picture of a launch that moves: which blocks are in VMEM at which grid step, as one HTML file.

The page looks numbers up and adds them up from left to right; all that has to be known of a TPU is
worked out in `pallascope.tpu.pipeline_steps` and below.

document     The document that the page of `kata view` gets, as JSON
kernel_view  One kernel for the page: blocks, errors, chips, timeline
launch_view  Collects everything about a launch, and writes the page
"""
