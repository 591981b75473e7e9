"""What to try, by what an error message says.

exceptions       what Python, JAX and Pallas raise while a launch is imported, traced or run
derivatives      rules of custom derivatives
older_spellings  what replaces names and arguments of older tutorials
mosaic           what Mosaic does not lower
libtpu           what the TPU's compiler refuses although Mosaic has lowered it
"""
