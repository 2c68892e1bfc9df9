"""Rows of functions of tf.contrib whose arguments have another order or other names now."""

from replicate.compat.table.row import Row

_CONTRIB = "tf.contrib"
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

ROWS = [
    *(
        Row(
            f"{_CONTRIB}.metrics.streaming_{name}",
            f"tf.metrics.{name}",
            _FIRST,
            keywords=tuple((each, each) for each in ("predictions", "labels", *others)),
        )
        for name, others in _STREAMING.items()
    ),
    Row(f"{_CONTRIB}.metrics.streaming_mean", "tf.metrics.mean"),
    *(
        Row(
            f"{_CONTRIB}.framework.{name}",
            f"tf.train.{name}",
            _DIRECTORY,
            keywords=((first, "ckpt_dir_or_file"), *((each, each) for each in others)),
        )
        for name, (first, *others) in _CHECKPOINTS.items()
    ),
]
