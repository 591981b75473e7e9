"""What to try, for what others say: exceptions of Python, JAX and Pallas, Mosaic, libtpu.

exceptions   what was raised while a launch was imported, traced or run
mosaic       what Mosaic does not lower
libtpu       what the TPU's compiler refuses although Mosaic lowered it
"""
