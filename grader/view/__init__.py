"""The page of `kata view`: a launch's blocks in VMEM, grid step by grid step, as one HTML file.

The page's scripts only look up and sum numbers; `pallascope.tpu.pipeline_steps` computes them.

document     The page's data, as JSON
kernel_view  One kernel for the page: blocks, errors, chips, timeline
launch_view  Collects everything about a launch, and writes the page
"""
