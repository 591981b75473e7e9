"""What to try, by what an error message says.

exceptions       what Python, JAX and Pallas raise while a launch is imported, traced or run
stores           values that do not fit the Ref that they are stored to
launches         specs, arrays, scratch and names that do not fit together
literals         Python's numbers that don't fit the dtype that they get
derivatives      rules of custom derivatives
older_spellings  what replaces names and arguments of older tutorials
other_libraries  what JAX calls what other libraries call otherwise
mosaic           what Mosaic does not lower
libtpu           what the TPU's compiler refuses although Mosaic has lowered it
"""
