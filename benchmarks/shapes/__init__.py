"""Gradients of well-known models, one file each: a name and its extents on every line. Data of `compll.shapes`."""
