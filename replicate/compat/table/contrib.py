"""Rows of tf.contrib."""

from replicate.compat.table.row import STRATEGY, Row, same

_CONTRIB = "It has no counterpart here."

_ADVICE = {
    "framework": "tf-slim has most of it: pip install tf-slim, then import tf_slim.",
    "layers": "tf-slim has most of it: pip install tf-slim, then import tf_slim. Or use tf.layers.",
    "metrics": "Use tf.metrics, whose functions take labels before predictions.",
    "summary": "Use tf.summary.",
    "training": "Use replicate.TowerOptimizer and replicate.Estimator, or tf-slim.",
}

ROWS = [
    Row(
        "tf.contrib.factorization.KMeansClustering",
        "replicate.KMeansClustering",
        "seed counts, and N towers find the centers that one finds.",
    ),
    Row("tf.contrib.training.HParams", "replicate.compat.hparams.HParams"),
    Row("tf.contrib.kfac.*", "kfac", "replicate-model-fn's own K-FAC."),
    Row("tf.contrib.slim.*", "tf_slim", "Needs tf-slim: pip install tf-slim."),
    Row("tf.contrib.distribute.*", None, STRATEGY),
    *same(
        "tf.contrib.framework",
        "tf.train",
        (
            "get_or_create_global_step",
            "create_global_step",
            "get_global_step",
            "list_variables",
            "load_checkpoint",
            "load_variable",
            "init_from_checkpoint",
        ),
    ),
    Row("tf.contrib.framework.nest", "tf.nest"),
    *(
        Row(f"tf.contrib.metrics.streaming_{name}", f"tf.metrics.{name}")
        for name in ("accuracy", "mean")  # The others take predictions first.
    ),
    *(Row(f"tf.contrib.{package}.*", None, advice) for package, advice in _ADVICE.items()),
    Row("tf.contrib.*", None, _CONTRIB),
]
