"""Names of tf.estimator that `replicate` lacks, each with its replacement.

Owns the hints only, and loads no TensorFlow. `replicate/__init__.py` adds the hint to the
AttributeError for such a name.
"""

import types
from collections.abc import Mapping

_MODEL_FN = (
    "Ready-made estimators are not here: write the model as a model_fn and pass it to "
    "replicate.Estimator(model_fn, model_dir, config). Feature columns work in it through "
    "tf.compat.v1.feature_column.input_layer and linear_model, as in "
    "examples/legacy/linear_and_deep.py."
)
_HEAD = (
    "Heads are not here: compute loss, train_op and metrics in model_fn, and return them in a "
    "replicate.EstimatorSpec."
)
_TPU = (
    "TPUs are not supported: use replicate.Estimator, replicate.EstimatorSpec and "
    "replicate.RunConfig, and replicate.replicate_model_fn for several devices."
)
_LOGITS = "Call your own function for the logits in model_fn."

HINTS: Mapping[str, str] = types.MappingProxyType(
    {
        **dict.fromkeys(
            (
                *(
                    f"{kind}{task}"
                    for kind in ("Baseline", "BoostedTrees", "DNN", "DNNLinearCombined", "Linear")
                    for task in ("Classifier", "Estimator", "Regressor")
                ),
                "LinearSDCA",
                "RNNClassifier",
                "RNNEstimator",
            ),
            _MODEL_FN,
        ),
        **dict.fromkeys(
            (
                "BinaryClassHead",
                "Head",
                "LogisticRegressionHead",
                "MultiClassHead",
                "MultiHead",
                "MultiLabelHead",
                "PoissonRegressionHead",
                "RegressionHead",
                "binary_classification_head",
                "logistic_regression_head",
                "multi_class_head",
                "multi_head",
                "multi_label_head",
                "poisson_regression_head",
                "regression_head",
            ),
            _HEAD,
        ),
        **dict.fromkeys(
            ("InputPipelineConfig", "TPUConfig", "TPUEstimator", "TPUEstimatorSpec", "tpu"), _TPU
        ),
        **dict.fromkeys(
            ("call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder"), _LOGITS
        ),
        **{
            name: f"It is replicate.export.{name}."
            for name in (
                "SupervisedInputReceiver",
                "UnsupervisedInputReceiver",
                "build_raw_supervised_input_receiver_fn",
                "build_supervised_input_receiver_fn_from_input_fn",
            )
        },
        "clip_gradients_by_norm": "Pass clip_norm to replicate.TowerOptimizer.",
        "experimental": (
            "Its hooks are in replicate itself: replicate.InMemoryEvaluatorHook, "
            "replicate.make_early_stopping_hook, replicate.stop_if_no_decrease_hook and so on. Its "
            "receivers are in replicate.export."
        ),
        "forward_features": "Return the features among the predictions of model_fn.",
    }
)
"""Name → advice about its replacement."""
