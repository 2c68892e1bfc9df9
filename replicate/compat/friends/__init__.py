"""Names that Python and the friends of TensorFlow lost since TensorFlow 1, by friend.

`replicate.compat.table.lost` says which old name is what here.
"""
