"""Names that stand in tf.estimator and in packages of tf.contrib alike."""

from replicate.compat.table.row import TPU, Row

_TPU_PAGE = "from_tf_estimator.md#from-tpuestimator"
_KEPT = (
    "Kept, without effect: each step returns to the host, as before with `use_tpu=False`, whatever "
    "`iterations_per_loop` is."
)

WITH_HEAD = (
    "BaselineEstimator",
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "LinearEstimator",
)
TREES = (
    "BoostedTreesClassifier",
    "BoostedTreesEstimator",
    "BoostedTreesRegressor",
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


def tpu_rows(package: str) -> list[Row]:
    """Returns the rows of TPUEstimator and its kin."""
    differences = {
        "TPUEstimator": "`use_tpu=True`, the default as before, is an error. `config=None` takes "
        "the defaults. Exported models are for CPUs and GPUs, whatever `export_to_tpu` is. New: "
        "`devices`, `loss_reduction`, `uneven`.",
        "TPUEstimatorSpec": "A function that does not take its tensors is named in the error.",
        "RunConfig": 'All arguments of `replicate.RunConfig` besides. `master=""` and `"local"` '
        "stand for this process; in a cluster they keep TF_CONFIG's server. A resolver given as "
        "`cluster` has no effect.",
        "TPUConfig": _KEPT,
        "InputPipelineConfig": _KEPT,
        "CrossShardOptimizer": "On one device the wrapped optimizer, on towers a `TowerOptimizer`. "
        "So it needs no `if use_tpu`.",
    }
    return [
        Row(f"{package}.{name}", f"replicate.tpu.{name}", f"{difference} {TPU}", _TPU_PAGE)
        for name, difference in differences.items()
    ]
