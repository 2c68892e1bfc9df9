"""Rows of names that TensorFlow still has and that behave in another way than in TensorFlow 1.

A program of TensorFlow 1 finds the replacement in the place of TensorFlow's own.
"""

from replicate.compat.table.row import TPU, Row, same

_OLD = "replicate.compat.old_tensorflow"
_SHAPE = "The static shape of the result is output_shape, as far as that is known."

ROWS = [
    *same(
        "tf.nn",
        f"{_OLD}.shapes",
        ("conv1d_transpose", "conv2d_backprop_input", "conv2d_transpose", "conv3d_transpose"),
        _SHAPE,
    ),
    Row(
        "tf.name_scope",
        f"{_OLD}.scopes.name_scope",
        "The second argument may be the values, which TensorFlow now refuses.",
        kept_up_to=1,
    ),
    Row(
        "tf.train.Int64List",
        f"{_OLD}.messages.Int64List",
        "Booleans count as 0 and 1.",
    ),
    Row(
        "tf.distribute.cluster_resolver.TPUClusterResolver",
        "replicate.tpu.TPUClusterResolver",
        TPU,
    ),
]
