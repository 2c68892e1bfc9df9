"""Rows of tf.estimator."""

from replicate.absent_names import HINTS
from replicate.compat.table.row import ESTIMATOR, HEAD, MEAN, STRATEGY, TPU, Row, absent, same
from replicate.compat.table.shared_names import (
    LOGIT_FNS,
    STOPPING,
    SUPERVISED,
    TPU_NAMES,
    WITH_HEAD,
)

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
V1_DEFAULTS = frozenset(
    (*_CLASSIFIERS_AND_REGRESSORS, "binary_classification_head", "multi_label_head")
)
"""Names whose defaults differ between `replicate` and `replicate.v1`."""
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

ROWS = [
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
        f"Settings cannot be set: config.replace(x=y) makes a copy. {STRATEGY}",
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
    *same(ESTIMATOR, "replicate", (*_RUNTIME, *_HOOKS)),
    *same(ESTIMATOR, "replicate", _CLASSIFIERS_AND_REGRESSORS, MEAN),
    *same(ESTIMATOR, "replicate", WITH_HEAD, "head comes first."),
    *same(ESTIMATOR, "replicate", _HEADS, HEAD),
    *same("tf.estimator.export", "replicate.export", (*_EXPORT, *SUPERVISED)),
    *same(
        "tf.estimator.inputs",
        "replicate.inputs",
        ("numpy_input_fn", "pandas_input_fn"),
        "Returns a dataset in place of tensors.",
    ),
    *same(
        "tf.estimator.experimental",
        "replicate",
        (
            "InMemoryEvaluatorHook",
            "KMeans",
            "SequentialHeadWrapper",
            "make_stop_at_checkpoint_step_hook",
            *STOPPING,
            *LOGIT_FNS,
        ),
    ),
    *same("tf.estimator.experimental", "replicate.export", SUPERVISED),
    *same("tf.estimator.tpu", "replicate.tpu", TPU_NAMES, TPU),
    *absent("tf.estimator.experimental", ("RNNClassifier", "RNNEstimator"), HINTS["RNNEstimator"]),
    *absent("tf.estimator.experimental", ("LinearSDCA",), HINTS["LinearSDCA"]),
    *(
        Row(f"tf.estimator.{name}", None, HINTS[name])
        for name in (
            "BoostedTreesClassifier",
            "BoostedTreesEstimator",
            "BoostedTreesRegressor",
        )
    ),
]
