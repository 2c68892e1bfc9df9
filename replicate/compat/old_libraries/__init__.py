"""Names that Python and its libraries lost since TensorFlow 1, by library.

`replicate.compat.table.libraries` says which old name is what here.
"""
