"""The table of old names: for each name of TensorFlow 1 its replacement, and the difference.

Pure data, without TensorFlow. `old_modules.py` reads it to make the old modules, and the guides
list its names. A row has one of three forms:

- a name with a replacement: `Row("tf.estimator.Estimator", "replicate.Estimator")`;
- a name without one, whose advice is the text of the error when it is used;
- a package, whose names all stand in the replacement: `Row("tf.contrib.kfac.*", "kfac")`.

`tf.estimator` stands for `tf.compat.v1.estimator`, too. There `replicate.v1` takes the place of
`replicate`, with the default loss of TensorFlow 1.
"""

import dataclasses
import types
from collections.abc import Iterable, Mapping

from replicate.absent_names import HINTS

ESTIMATOR = "tf.estimator"
CONTRIB = "tf.contrib"
PRIVATE = "tensorflow_estimator.python.estimator"
"""Where libraries find the private modules of tf.estimator."""


@dataclasses.dataclass(frozen=True)
class Row:
    """One old name.

    Attributes:
      old: The dotted name in TensorFlow 1. With ".*" at its end, all names of a package.
      new: The dotted name of the replacement, where "tf" is `tf.compat.v1`. None if there is none.
      difference: What is different, or what to use if there is no replacement.
    """

    old: str
    new: str | None
    difference: str = ""


_MEAN = "The loss is the mean over the batch in TensorFlow 2, the sum in TensorFlow 1."
_HEAD = (
    "Optimizers are those of tf.compat.v1.train; trainable_variables=None means all of the graph."
)
_STRATEGY = (
    "Strategies of tf.distribute are not supported: pass the model_fn to "
    "replicate.replicate_model_fn, and its optimizer to replicate.TowerOptimizer."
)
_TPU = "TPUs are not supported: use_tpu must be False."
_CONTRIB = "It has no counterpart here."
_EXAMPLES = "TensorFlow no longer has its examples: read the data with NumPy or tf.keras.datasets."

_ADVICE = {
    "crf": "TensorFlow Addons has it for TensorFlow 2.15; its text/crf.py also works by itself.",
    "data": "Use the methods of tf.data.Dataset and tf.data.experimental.",
    "eager": "Programs of TensorFlow 1 run in graph mode here.",
    "estimator": "Use the names of replicate.",
    "framework": "tf-slim has most of it: pip install tf-slim, then import tf_slim.",
    "layers": "tf-slim has most of it: pip install tf-slim, then import tf_slim. Or use tf.layers.",
    "learn": "Use tf.estimator: fit is train, Experiment is train_and_evaluate, ModelFnOps is "
    "EstimatorSpec.",
    "lookup": "Use tf.lookup: StaticVocabularyTable, StaticHashTable, TextFileInitializer.",
    "metrics": "Use tf.metrics, whose functions take labels before predictions.",
    "opt": "Use the optimizers of tf.train, or replicate.ModelAverageOptimizer.",
    "rnn": "Use the cells of tf.nn.rnn_cell, and tf.nn.static_rnn or tf.nn.dynamic_rnn.",
    "seq2seq": "Nothing that is kept up has it. sequence_loss is "
    "tf.nn.sparse_softmax_cross_entropy_with_logits times the weights, over their sum.",
    "summary": "Use tf.summary.",
    "tpu": _TPU,
    "training": "Use replicate.TowerOptimizer and replicate.Estimator, or tf-slim.",
}


def _same(old: str, new: str, names: Iterable[str], difference: str = "") -> list[Row]:
    return [Row(f"{old}.{name}", f"{new}.{name}", difference) for name in names]


def _absent(old: str, names: Iterable[str], advice: str) -> list[Row]:
    return [Row(f"{old}.{name}", None, advice) for name in names]


_RUNTIME = (
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "ModeKeys",
    "TrainSpec",
    "VocabInfo",
    "add_metrics",
    "classifier_parse_example_spec",
    "regressor_parse_example_spec",
)
_HOOKS = (
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "FeedFnHook",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LoggingTensorHook",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
)
_CLASSIFIERS_AND_REGRESSORS = (
    "BaselineClassifier",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearRegressor",
)
_WITH_HEAD = (
    "BaselineEstimator",
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "LinearEstimator",
)
_HEADS = (
    "BinaryClassHead",
    "Head",
    "LogisticRegressionHead",
    "MultiClassHead",
    "MultiHead",
    "MultiLabelHead",
    "PoissonRegressionHead",
    "RegressionHead",
)
_HEAD_FUNCTIONS = (
    "binary_classification_head",
    "logistic_regression_head",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "regression_head",
)
_STOPPING = (
    "make_early_stopping_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
)
_LOGIT_FNS = ("call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder")
_EXPORT = (
    "ClassificationOutput",
    "EvalOutput",
    "ExportOutput",
    "PredictOutput",
    "RegressionOutput",
    "ServingInputReceiver",
    "TensorServingInputReceiver",
    "TrainOutput",
    "build_parsing_serving_input_receiver_fn",
    "build_raw_serving_input_receiver_fn",
)
_SUPERVISED = (
    "SupervisedInputReceiver",
    "UnsupervisedInputReceiver",
    "build_raw_supervised_input_receiver_fn",
    "build_supervised_input_receiver_fn_from_input_fn",
)
_TPU_NAMES = (
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
)

_ESTIMATOR_ROWS = [
    Row(
        "tf.estimator.Estimator",
        "replicate.Estimator",
        "config must be a replicate.RunConfig; the older export_savedmodel works, too.",
    ),
    Row(
        "tf.estimator.EstimatorSpec",
        "replicate.EstimatorSpec",
        "The error for a wrong field names the field and the accepted values.",
    ),
    Row(
        "tf.estimator.RunConfig",
        "replicate.RunConfig",
        f"Settings cannot be set: config.replace(x=y) makes a copy. {_STRATEGY}",
    ),
    Row(
        "tf.estimator.WarmStartSettings",
        "replicate.WarmStartSettings",
        "A pattern that matches no variable is an error.",
    ),
    Row(
        "tf.estimator.train_and_evaluate",
        "replicate.train_and_evaluate",
        "A wrong TF_CONFIG is a ClusterConfigError that shows the wrong part.",
    ),
    Row(
        "tf.estimator.BestExporter",
        "replicate.BestExporter",
        "After a restart it exports only results that are better than the best one so far.",
    ),
    *_same(ESTIMATOR, "replicate", (*_RUNTIME, *_HOOKS)),
    *_same(ESTIMATOR, "replicate", _CLASSIFIERS_AND_REGRESSORS, _MEAN),
    *_same(ESTIMATOR, "replicate", _WITH_HEAD, "head comes first."),
    *_same(ESTIMATOR, "replicate", _HEADS, _HEAD),
    *_same("tf.estimator.export", "replicate.export", (*_EXPORT, *_SUPERVISED)),
    *_same(
        "tf.estimator.inputs",
        "replicate.inputs",
        ("numpy_input_fn", "pandas_input_fn"),
        "Returns a dataset in place of tensors.",
    ),
    *_same(
        "tf.estimator.experimental",
        "replicate",
        (
            "InMemoryEvaluatorHook",
            "KMeans",
            "SequentialHeadWrapper",
            "make_stop_at_checkpoint_step_hook",
            *_STOPPING,
            *_LOGIT_FNS,
        ),
    ),
    *_same("tf.estimator.experimental", "replicate.export", _SUPERVISED),
    *_same("tf.estimator.tpu", "replicate.tpu", _TPU_NAMES, _TPU),
    *_absent("tf.estimator.experimental", ("RNNClassifier", "RNNEstimator"), HINTS["RNNEstimator"]),
    *_absent("tf.estimator.experimental", ("LinearSDCA",), HINTS["LinearSDCA"]),
    *(
        Row(f"tf.estimator.{name}", None, HINTS[name])
        for name in (
            "BoostedTreesClassifier",
            "BoostedTreesEstimator",
            "BoostedTreesRegressor",
        )
    ),
]

_CONTRIB_ROWS = [
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
    *_same(
        "tf.contrib.estimator",
        "replicate.v1",
        _HEAD_FUNCTIONS,
        "The function returns a head of replicate.",
    ),
    *_same("tf.contrib.estimator", "replicate", _WITH_HEAD, "head comes first."),
    *_same(
        "tf.contrib.estimator",
        "replicate",
        (
            "InMemoryEvaluatorHook",
            "add_metrics",
            "make_stop_at_checkpoint_step_hook",
            *_STOPPING,
            *_LOGIT_FNS,
        ),
    ),
    *_same("tf.contrib.estimator", "replicate.export", _SUPERVISED),
    Row(
        "tf.contrib.factorization.KMeansClustering",
        "replicate.KMeansClustering",
        "seed counts, and N towers find the centers that one finds.",
    ),
    *_same("tf.contrib.opt", "replicate", ("ModelAverageCustomGetter", "ModelAverageOptimizer")),
    Row("tf.contrib.learn.ModeKeys", "replicate.compat.contrib_learn.ModeKeys"),
    Row(
        "tf.contrib.learn.RunConfig",
        "replicate.compat.contrib_learn.RunConfig",
        "A replicate.RunConfig: num_cores, log_device_placement and gpu_memory_fraction become "
        "its session_config.",
    ),
    Row("tf.contrib.learn.KMeansClustering", "replicate.KMeansClustering"),
    Row("tf.contrib.training.HParams", "replicate.compat.hparams.HParams"),
    Row("tf.contrib.kfac.*", "kfac", "replicate-model-fn's own K-FAC."),
    Row("tf.contrib.slim.*", "tf_slim", "Needs tf-slim: pip install tf-slim."),
    *_same("tf.contrib.tpu", "replicate.tpu", _TPU_NAMES, _TPU),
    Row("tf.contrib.cluster_resolver.TPUClusterResolver", "replicate.tpu.TPUClusterResolver", _TPU),
    Row("tf.contrib.distribute.*", None, _STRATEGY),
    *_same(
        "tf.contrib.rnn",
        "tf.nn.rnn_cell",
        (
            "BasicLSTMCell",
            "BasicRNNCell",
            "DropoutWrapper",
            "GRUCell",
            "LSTMCell",
            "LSTMStateTuple",
            "MultiRNNCell",
            "RNNCell",
        ),
        "Needs tf-keras and TF_USE_LEGACY_KERAS=1, which the runner sets.",
    ),
    *_same("tf.contrib.rnn", "tf.nn", ("static_bidirectional_rnn", "static_rnn")),
    *_same(
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
    *_same(
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
    *(
        Row(f"tf.contrib.metrics.streaming_{name}", f"tf.metrics.{name}")
        for name in ("accuracy", "mean")  # The others take predictions first.
    ),
    *(Row(f"tf.contrib.{package}.*", None, advice) for package, advice in _ADVICE.items()),
    Row("tf.contrib.*", None, _CONTRIB),
    Row("tf.examples.*", None, _EXAMPLES),
]

_OWN = "replicate.compat.private_names"
_PRIVATE_ROWS = [
    Row(f"{PRIVATE}.canned.prediction_keys.PredictionKeys", f"{_OWN}.PredictionKeys"),
    Row(f"{PRIVATE}.canned.metric_keys.MetricKeys", f"{_OWN}.MetricKeys"),
    Row(f"{PRIVATE}.canned.dnn.dnn_model_fn_v2", f"{_OWN}.dnn_model_fn_v2"),
    Row(f"{PRIVATE}.canned.dnn._dnn_logit_fn_builder", "replicate.dnn_logit_fn_builder"),
    Row(f"{PRIVATE}.canned.linear._linear_logit_fn_builder", "replicate.linear_logit_fn_builder"),
    Row(f"{PRIVATE}.canned.optimizers.get_optimizer_instance", f"{_OWN}.get_optimizer_instance"),
    Row(f"{PRIVATE}.canned.head._Head", "replicate.Head", _HEAD),
    Row(
        f"{PRIVATE}.canned.head._binary_logistic_head_with_sigmoid_cross_entropy_loss",
        f"{_OWN}.binary_logistic_head",
    ),
    Row(
        f"{PRIVATE}.canned.head._multi_class_head_with_softmax_cross_entropy_loss",
        f"{_OWN}.multi_class_head",
    ),
    Row(f"{PRIVATE}.canned.head._regression_head", f"{_OWN}.regression_head"),
    Row(f"{PRIVATE}.model_fn._TPUEstimatorSpec", "replicate.tpu.TPUEstimatorSpec", _TPU),
    Row(f"{PRIVATE}.model_fn.LOSS_METRIC_KEY", "replicate.LOSS_METRIC_KEY"),
    Row(f"{PRIVATE}.model_fn.AVERAGE_LOSS_METRIC_KEY", "replicate.AVERAGE_LOSS_METRIC_KEY"),
    Row(f"{PRIVATE}.run_config.TaskType", "replicate.TaskType"),
    Row(f"{PRIVATE}.util.parse_input_fn_result", f"{_OWN}.parse_input_fn_result"),
    *_same(f"{PRIVATE}.tpu.tpu_estimator", "replicate.tpu", ("TPUEstimator", "TPUEstimatorSpec")),
    *_same(
        f"{PRIVATE}.tpu.tpu_config",
        "replicate.tpu",
        ("InputPipelineConfig", "RunConfig", "TPUConfig"),
    ),
]

PRIVATE_MODULES: frozenset[str] = frozenset(
    {
        "api",
        *(f"api.{name}" for name in ("_v1", "_v1.estimator", "_v2", "_v2.estimator")),
        "canned",
        *(
            f"canned.{name}"
            for name in (
                "baseline",
                "boosted_trees",
                "boosted_trees_utils",
                "dnn",
                "dnn_linear_combined",
                "head",
                "kmeans",
                "linear",
                "metric_keys",
                "optimizers",
                "parsing_utils",
                "prediction_keys",
                "rnn",
                "saved_model_estimator",
            )
        ),
        "early_stopping",
        "estimator",
        "estimator_lib",
        "export",
        *(f"export.{name}" for name in ("export", "export_lib", "export_output", "function")),
        "exporter",
        "extenders",
        "gc",
        "head",
        *(
            f"head.{name}"
            for name in (
                "base_head",
                "binary_class_head",
                "head_utils",
                "multi_class_head",
                "multi_head",
                "multi_label_head",
                "regression_head",
                "sequential_head",
            )
        ),
        "hooks",
        *(f"hooks.{name}" for name in ("basic_session_run_hooks", "hooks", "session_run_hook")),
        "inputs",
        *(f"inputs.{name}" for name in ("inputs", "numpy_io", "pandas_io")),
        "keras",
        "mode_keys",
        "model_fn",
        "run_config",
        "tpu",
        *(
            f"tpu.{name}"
            for name in ("error_handling", "tpu_config", "tpu_context", "tpu_estimator", "util")
        ),
        "training",
        "util",
    }
)
"""Modules below `PRIVATE`. Besides the names of their rows, each has all names of tf.estimator."""

TABLE: Mapping[str, Row] = types.MappingProxyType(
    {row.old: row for row in (*_ESTIMATOR_ROWS, *_CONTRIB_ROWS, *_PRIVATE_ROWS)}
)
"""All rows by their old names."""


def row_of(name: str) -> Row | None:
    """Returns the row of a name: its own one, or that of the closest package with ".*"."""
    if name in TABLE:
        return TABLE[name]
    package = name
    while package:
        if f"{package}.*" in TABLE:
            return TABLE[f"{package}.*"]
        package = package.rpartition(".")[0]
    return None


def names_below(package: str) -> frozenset[str]:
    """Returns the names that stand in a package: `export` and `Estimator` in "tf.estimator"."""
    start = f"{package}."
    below = (old[len(start) :].partition(".")[0] for old in TABLE if old.startswith(start))
    return frozenset(below) - {"*"}
