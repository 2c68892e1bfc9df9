"""Rows of tf.contrib.slim, layers, framework, training, metrics, losses and summary.

A package has one row for all of its names. Rows for single names tell what differs. The private
modules below a package lead to the package, or to the module of tf-slim that has its private names.
"""

from replicate.compat.table.row import SLIM, Row, absent, modules_of, same

_OURS = "replicate.compat.contrib"
_COLUMN = "A column of tf.feature_column, which tf.estimator takes."
_PREDICTIONS_FIRST = (
    "The functions take predictions before labels; those of tf.metrics and tf.losses do not."
)

_PACKAGES = [
    Row("tf.contrib.slim.*", f"{_OURS}.slim", SLIM),
    Row("tf.contrib.layers.*", f"{_OURS}.layers", SLIM),
    Row("tf.contrib.framework.*", f"{_OURS}.framework", SLIM),
    Row("tf.contrib.training.*", f"{_OURS}.training", SLIM),
    Row("tf.contrib.metrics.*", f"{_OURS}.metrics", f"{_PREDICTIONS_FIRST} {SLIM}"),
    Row("tf.contrib.losses.*", f"{_OURS}.losses", f"{_PREDICTIONS_FIRST} {SLIM}"),
    Row("tf.contrib.summary.*", f"{_OURS}.summary", "Written by the default tf.summary writer."),
]
_CORE = [
    *same(
        "tf.contrib.framework",
        "tf.train",
        (
            "get_or_create_global_step",
            "create_global_step",
            "get_global_step",
            "assert_global_step",
        ),
    ),
    Row("tf.contrib.framework.is_tensor", "tf.is_tensor"),
    Row(
        "tf.contrib.framework.nest",
        f"{_OURS}.framework.nest",
        "tf.nest has the five functions that are used most.",
    ),
    Row("tf.contrib.training.HParams", f"{_OURS}.training.HParams"),
    Row("tf.contrib.training.Hparams", f"{_OURS}.training.HParams"),
]
_COLUMNS = [
    *same(
        "tf.contrib.layers",
        f"{_OURS}.layers",
        (
            "bucketized_column",
            "embedding_column",
            "one_hot_column",
            "real_valued_column",
            "shared_embedding_columns",
            "sparse_column_with_hash_bucket",
            "sparse_column_with_keys",
            "sparse_column_with_vocabulary_file",
            "weighted_sparse_column",
        ),
        _COLUMN,
    ),
    Row(
        "tf.contrib.layers.sparse_column_with_integerized_feature",
        f"{_OURS}.layers.sparse_column_with_integerized_feature",
        f"{_COLUMN} A number outside of [0, bucket_size) is an error; it was taken modulo.",
    ),
    Row(
        "tf.contrib.layers.crossed_column",
        f"{_OURS}.layers.crossed_column",
        f"{_COLUMN} Combinations lie in other buckets than in TensorFlow 1.",
    ),
    *absent(
        "tf.contrib.layers",
        ("scattered_embedding_column", "sparse_feature_cross"),
        "tf.feature_column has no counterpart: use crossed_column and embedding_column.",
    ),
    *absent(
        "tf.contrib.layers",
        ("regression_target", "multi_class_target"),
        "Use the heads of replicate, such as replicate.RegressionHead.",
    ),
]
_OTHERS = [
    *absent(
        "tf.contrib.training",
        (
            "batch_sequences_with_states",
            "bucket",
            "bucket_by_sequence_length",
            "rejection_sample",
            "stratified_sample",
        ),
        "Its queues are not here: use tf.data, with bucket_by_sequence_length, rejection_resample "
        "and padded_batch of tf.data.Dataset.",
    ),
    *absent(
        "tf.contrib.summary",
        ("create_db_writer", "graph", "import_event"),
        "Write graphs with tf.summary.FileWriter.",
    ),
]


_PRIVATE_MODULES = [
    *modules_of("tf.contrib.slim", ("python.slim",)),
    *modules_of(
        "tf.contrib.layers",
        (
            "python",
            "python.layers",
            "python.layers.embedding_ops",
            "python.layers.encoders",
            "python.layers.feature_column",
            "python.layers.feature_column_ops",
            "python.ops",
        ),
    ),
    *modules_of(
        "tf.contrib.framework",
        (
            "python",
            "python.framework",
            "python.framework.checkpoint_utils",
            "python.framework.experimental",
            "python.framework.tensor_util",
            "python.ops",
            "python.ops.checkpoint_ops",
            "python.ops.ops",
            "python.ops.sort_ops",
        ),
    ),
    *modules_of(
        "tf.contrib.training",
        (
            "python",
            "python.training",
            "python.training.device_setter",
            "python.training.hparam",
        ),
    ),
    *modules_of(
        "tf.contrib.metrics",
        (
            "python",
            "python.metrics",
            "python.ops",
            "python.ops.confusion_matrix_ops",
            "python.ops.set_ops",
        ),
    ),
    *modules_of("tf.contrib.losses", ("python", "python.losses", "python.losses.loss_ops")),
    Row("tf.contrib.losses.python.metric_learning.*", "tf.contrib.losses.metric_learning"),
    Row(
        "tf.contrib.losses.python.metric_learning.metric_loss_ops.*",
        "tf.contrib.losses.metric_learning",
    ),
    *modules_of("tf.contrib.summary", ("summary", "summary_ops")),
]

ROWS = [*_PACKAGES, *_CORE, *_COLUMNS, *_OTHERS, *_PRIVATE_MODULES]
