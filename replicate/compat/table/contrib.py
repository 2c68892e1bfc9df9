"""Rows of tensorflow/kfac, and of tf.contrib's packages that have no file of their own.

`kfac.old_programs.table` has the names of tensorflow/kfac that are gone.
"""

from replicate.compat.table.row import CONTRIB, NOTHING, STRATEGY, Row, same

_FIRST = "Predictions come first there, labels come first here: pass them by keyword."
_COLLECTIONS = ("metrics_collections", "updates_collections")
_STREAMING = {
    "accuracy": ("weights", *_COLLECTIONS, "name"),
    "auc": ("weights", "num_thresholds", *_COLLECTIONS, "curve", "name"),
    "false_negatives": ("weights", *_COLLECTIONS, "name"),
    "false_positives": ("weights", *_COLLECTIONS, "name"),
    "mean_absolute_error": ("weights", *_COLLECTIONS, "name"),
    "mean_iou": ("num_classes", "weights", *_COLLECTIONS, "name"),
    "mean_squared_error": ("weights", *_COLLECTIONS, "name"),
    "precision": ("weights", *_COLLECTIONS, "name"),
    "recall": ("weights", *_COLLECTIONS, "name"),
    "root_mean_squared_error": ("weights", *_COLLECTIONS, "name"),
    "true_negatives": ("weights", *_COLLECTIONS, "name"),
    "true_positives": ("weights", *_COLLECTIONS, "name"),
}
_DIRECTORY = "The first argument is called `ckpt_dir_or_file`."
_CHECKPOINTS = {
    "init_from_checkpoint": ("checkpoint_dir", "assignment_map"),
    "list_variables": ("checkpoint_dir",),
    "load_checkpoint": ("filepattern",),
    "load_variable": ("checkpoint_dir", "name"),
}
_OURS = "replicate.compat.contrib.distribute"
_NO_EFFECT = "It has no effect: replicate_model_fn(reduction=…) chooses how towers are summed."

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
    Row("tf.contrib.*", None, NOTHING),
    *(
        Row(
            f"{CONTRIB}.metrics.streaming_{name}",
            f"tf.metrics.{name}",
            _FIRST,
            keywords=tuple((each, each) for each in ("predictions", "labels", *others)),
        )
        for name, others in _STREAMING.items()
    ),
    Row(f"{CONTRIB}.metrics.streaming_mean", "tf.metrics.mean"),
    *(
        Row(
            f"{CONTRIB}.framework.{name}",
            f"tf.train.{name}",
            _DIRECTORY,
            keywords=((first, "ckpt_dir_or_file"), *((each, each) for each in others)),
        )
        for name, (first, *others) in _CHECKPOINTS.items()
    ),
    *same(
        "tf.contrib.distribute",
        _OURS,
        ("DistributeConfig", "MirroredStrategy", "ParameterServerStrategy"),
        STRATEGY,
    ),
    Row("tf.contrib.distribute.OneDeviceStrategy", "tf.distribute.OneDeviceStrategy", STRATEGY),
    Row(
        "tf.contrib.distribute.CollectiveAllReduceStrategy",
        f"{_OURS}.CollectiveAllReduceStrategy",
        "A replicate.AllReduce.",
    ),
    *(
        Row(f"tf.contrib.distribute.{old}", f"tf.distribute.{new}")
        for old, new in (
            ("DistributionStrategy", "Strategy"),
            ("get_distribution_strategy", "get_strategy"),
            ("get_replica_context", "get_replica_context"),
            ("get_tower_context", "get_replica_context"),
            ("has_distribution_strategy", "has_strategy"),
            ("in_cross_replica_context", "in_cross_replica_context"),
            ("in_cross_tower_context", "in_cross_replica_context"),
        )
    ),
    *(
        Row(f"tf.contrib.distribute.{name}", f"{_OURS}.AllReduceCrossDeviceOps", _NO_EFFECT)
        for name in ("AllReduceCrossDeviceOps", "AllReduceCrossTowerOps")
    ),
    *(
        Row(f"tf.contrib.distribute.{name}", "tf.distribute.ReductionToOneDevice", _NO_EFFECT)
        for name in ("ReductionToOneDeviceCrossDeviceOps", "ReductionToOneDeviceCrossTowerOps")
    ),
    Row("tf.contrib.distribute.*", None, NOTHING),
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
