"""Names that stand in tf.estimator and in packages of tf.contrib alike."""

WITH_HEAD = (
    "BaselineEstimator",
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "LinearEstimator",
)
HEAD_FUNCTIONS = (
    "binary_classification_head",
    "logistic_regression_head",
    "multi_class_head",
    "multi_head",
    "multi_label_head",
    "poisson_regression_head",
    "regression_head",
)
STOPPING = (
    "make_early_stopping_hook",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
)
LOGIT_FNS = ("call_logit_fn", "dnn_logit_fn_builder", "linear_logit_fn_builder")
SUPERVISED = (
    "SupervisedInputReceiver",
    "UnsupervisedInputReceiver",
    "build_raw_supervised_input_receiver_fn",
    "build_supervised_input_receiver_fn_from_input_fn",
)
TPU_NAMES = (
    "CrossShardOptimizer",
    "InputPipelineConfig",
    "RunConfig",
    "TPUConfig",
    "TPUEstimator",
    "TPUEstimatorSpec",
)
