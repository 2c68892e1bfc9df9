"""Rows of tf.contrib."""

from replicate.absent_names import HINTS
from replicate.compat.table.row import TPU, Row, same
from replicate.compat.table.shared_names import (
    HEAD_FUNCTIONS,
    LOGIT_FNS,
    STOPPING,
    SUPERVISED,
    TPU_NAMES,
    WITH_HEAD,
)

_CONTRIB = "It has no counterpart here."
_EXAMPLES = "TensorFlow no longer has its examples: read the data with NumPy or tf.keras.datasets."

_ADVICE = {
    "data": "Use the methods of tf.data.Dataset and tf.data.experimental.",
    "eager": "Programs of TensorFlow 1 run in graph mode here.",
    "estimator": "Use the names of replicate.",
    "learn": "Use tf.estimator: fit is train, Experiment is train_and_evaluate, ModelFnOps is "
    "EstimatorSpec.",
    "opt": "Use the optimizers of tf.train, or replicate.ModelAverageOptimizer.",
    "tpu": TPU,
}

ROWS = [
    Row(
        "tf.contrib.estimator.replicate_model_fn",
        "replicate.replicate_model_fn",
        "The same first three arguments, and more after them.",
    ),
    Row(
        "tf.contrib.estimator.TowerOptimizer",
        "replicate.TowerOptimizer",
        "A function that makes the optimizer is called once for all towers.",
    ),
    Row("tf.contrib.estimator.clip_gradients_by_norm", None, HINTS["clip_gradients_by_norm"]),
    Row("tf.contrib.estimator.forward_features", None, HINTS["forward_features"]),
    *same(
        "tf.contrib.estimator",
        "replicate.v1",
        HEAD_FUNCTIONS,
        "The function returns a head of replicate.",
    ),
    *same("tf.contrib.estimator", "replicate", WITH_HEAD, "head comes first."),
    *same(
        "tf.contrib.estimator",
        "replicate",
        (
            "InMemoryEvaluatorHook",
            "add_metrics",
            "make_stop_at_checkpoint_step_hook",
            *STOPPING,
            *LOGIT_FNS,
        ),
    ),
    *same("tf.contrib.estimator", "replicate.export", SUPERVISED),
    Row(
        "tf.contrib.factorization.KMeansClustering",
        "replicate.KMeansClustering",
        "seed counts, and N towers find the centers that one finds.",
    ),
    *same("tf.contrib.opt", "replicate", ("ModelAverageCustomGetter", "ModelAverageOptimizer")),
    Row("tf.contrib.learn.ModeKeys", "replicate.compat.contrib_learn.ModeKeys"),
    Row(
        "tf.contrib.learn.RunConfig",
        "replicate.compat.contrib_learn.RunConfig",
        "A replicate.RunConfig: num_cores, log_device_placement and gpu_memory_fraction become "
        "its session_config.",
    ),
    Row("tf.contrib.learn.KMeansClustering", "replicate.KMeansClustering"),
    Row(
        "tf.contrib.tensorboard.plugins.projector.*",
        "tensorboard.plugins.projector",
        "Needs TensorBoard: pip install tensorboard.",
    ),
    Row("tf.contrib.kfac.*", "kfac", "replicate-model-fn's own K-FAC."),
    *same("tf.contrib.tpu", "replicate.tpu", TPU_NAMES, TPU),
    Row("tf.contrib.cluster_resolver.TPUClusterResolver", "replicate.tpu.TPUClusterResolver", TPU),
    *same(
        "tf.contrib.data",
        "tf.data.experimental",
        (
            "AUTOTUNE",
            "group_by_reducer",
            "group_by_window",
            "map_and_batch",
            "parallel_interleave",
            "shuffle_and_repeat",
        ),
    ),
    Row("tf.contrib.data.Dataset", "tf.data.Dataset"),
    Row("tf.contrib.data.Iterator", "tf.data.Iterator"),
    Row("tf.contrib.data.TFRecordDataset", "tf.data.TFRecordDataset"),
    Row("tf.contrib.data.TextLineDataset", "tf.data.TextLineDataset"),
    *(Row(f"tf.contrib.{package}.*", None, advice) for package, advice in _ADVICE.items()),
    Row("tf.contrib.*", None, _CONTRIB),
    Row("tf.examples.*", None, _EXAMPLES),
]
