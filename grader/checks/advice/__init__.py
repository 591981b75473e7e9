"""Advice by error message.

exception_advice  Advice on exceptions while a file is imported, traced or run
libtpu_advice     Advice on what libtpu refuses although Mosaic lowered it
mosaic_advice     Advice on what Mosaic does not lower, with workarounds
"""
