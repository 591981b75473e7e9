"""A picture of a launch that moves: which blocks are in VMEM at which grid step, as one HTML file.

    gather     asks the workers: the blocks, the predicted schedule, what is wrong with the result
    document   what the page is given;  drawn, one kernel in its words
    timeline   the predicted schedule for the page
    heat       wrong elements, block by block, at a resolution that can be drawn
    page       document and web/ put together into one file
    web/       the page itself: HTML, CSS and JavaScript, without a framework

The page looks numbers up and adds them up from left to right; all that has to be known of a TPU is
worked out in `grader.tpu.motion` and below.
"""
