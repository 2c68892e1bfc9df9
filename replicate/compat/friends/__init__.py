"""What Python and the friends of TensorFlow lost since TensorFlow 1, one module for each friend.

`replicate.compat.table.lost` says which old name is what here.
"""
