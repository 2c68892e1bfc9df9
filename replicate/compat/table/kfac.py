"""Rows of the modules of tensorflow/kfac; `kfac.moved_names` has the names that are gone."""

from replicate.compat.table.row import Row

ROWS = [
    Row("kfac.python.ops.*", "kfac"),
    Row("kfac.python.ops.kfac_utils.*", "kfac"),
    Row("tf.contrib.kfac.python.ops.*", "kfac"),
    Row(
        "kfac.python.keras.optimizers.*",
        "kfac.keras",
        "For the Keras that `tf.keras` is; for tf_keras beside Keras 3 there is "
        "`kfac.keras.legacy.Kfac`.",
    ),
    Row("kfac.python.keras.*", None, "Use kfac.keras.Kfac, as the optimizer of compile and fit."),
]
