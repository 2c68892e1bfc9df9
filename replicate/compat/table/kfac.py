"""Rows of the modules of tensorflow/kfac; `kfac.moved_names` has the names that are gone."""

from replicate.compat.table.row import Row

ROWS = [
    Row("kfac.python.ops.*", "kfac"),
    Row("kfac.python.ops.kfac_utils.*", "kfac"),
    Row("tf.contrib.kfac.python.ops.*", "kfac"),
]
