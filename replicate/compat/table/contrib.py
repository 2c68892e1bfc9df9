"""Rows of tf.contrib's packages that have no file of their own."""

from replicate.compat.table.row import Row

_CONTRIB = "It has no counterpart here."

ROWS = [
    Row(
        "tf.contrib.factorization.KMeansClustering",
        "replicate.KMeansClustering",
        "seed counts, and N towers find the centers that one finds.",
    ),
    Row(
        "tf.contrib.tensorboard.plugins.projector.*",
        "tensorboard.plugins.projector",
        "Needs TensorBoard: pip install tensorboard.",
    ),
    Row("tf.contrib.kfac.*", "kfac", "replicate-model-fn's own K-FAC."),
    Row("tf.contrib.*", None, _CONTRIB),
]
