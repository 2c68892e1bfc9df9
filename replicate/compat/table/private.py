"""Rows and names of the private modules of tf.estimator, where libraries look."""

from replicate.compat.table.row import PRIVATE, TPU, Row, same

_OWN = "replicate.compat.private_names"
_OLD = "replicate.compat.old_tensorflow"
_HEAD_PARTS = (
    "CLASSIFY_SERVING_KEY",
    "DEFAULT_SERVING_KEY",
    "PREDICT_SERVING_KEY",
    "REGRESS_SERVING_KEY",
    "all_class_ids",
    "all_classes",
    "check_logits_final_dim",
    "classification_output",
    "create_eval_metrics_tuple",
    "summary_key",
)
_SPEC_PARTS = ("create_estimator_spec_summary", "create_estimator_spec_train_op")
ROWS = [
    Row(f"{PRIVATE}.canned.prediction_keys.PredictionKeys", f"{_OWN}.PredictionKeys"),
    Row(f"{PRIVATE}.canned.metric_keys.MetricKeys", f"{_OWN}.MetricKeys"),
    Row(f"{PRIVATE}.canned.dnn.dnn_model_fn_v2", f"{_OLD}.model_fns.dnn_model_fn_v2"),
    Row(f"{PRIVATE}.canned.dnn._dnn_model_fn", f"{_OLD}.model_fns.dnn_model_fn"),
    Row(f"{PRIVATE}.canned.linear._linear_model_fn", f"{_OLD}.model_fns.linear_model_fn"),
    Row(f"{PRIVATE}.canned.linear.linear_model_fn_v2", f"{_OLD}.model_fns.linear_model_fn_v2"),
    Row(
        f"{PRIVATE}.canned.dnn_linear_combined._dnn_linear_combined_model_fn",
        f"{_OLD}.model_fns.dnn_linear_combined_model_fn",
    ),
    Row(f"{PRIVATE}.canned.dnn._dnn_logit_fn_builder", "replicate.dnn_logit_fn_builder"),
    Row(f"{PRIVATE}.canned.linear._linear_logit_fn_builder", "replicate.linear_logit_fn_builder"),
    Row(f"{PRIVATE}.canned.optimizers.get_optimizer_instance", f"{_OWN}.get_optimizer_instance"),
    Row(
        f"{PRIVATE}.canned.head._Head",
        f"{_OLD}.heads.Head",
        "Its abstract members are those of TensorFlow 1; the heads of replicate are its instances.",
    ),
    *(
        Row(f"{PRIVATE}.{module}.{prefix}{name}", f"{_OLD}.heads.{name}")
        for module, prefix, names in (
            ("canned.head", "_", (*_HEAD_PARTS, "binary_logistic_or_multi_class_head")),
            ("head.base_head", "", (*_HEAD_PARTS, *_SPEC_PARTS)),
        )
        for name in names
    ),
    Row(
        f"{PRIVATE}.head.head_utils.binary_or_multi_class_head",
        f"{_OLD}.heads.binary_logistic_or_multi_class_head",
    ),
    Row(
        f"{PRIVATE}.canned.head._binary_logistic_head_with_sigmoid_cross_entropy_loss",
        f"{_OWN}.binary_logistic_head",
    ),
    Row(
        f"{PRIVATE}.canned.head._multi_class_head_with_softmax_cross_entropy_loss",
        f"{_OWN}.multi_class_head",
    ),
    Row(f"{PRIVATE}.canned.head._regression_head", f"{_OWN}.regression_head"),
    Row(
        f"{PRIVATE}.canned.optimizers.get_optimizer_instance_v2",
        f"{_OWN}.get_optimizer_instance_v2",
    ),
    Row(
        f"{PRIVATE}.estimator._load_global_step_from_checkpoint_dir",
        f"{_OLD}.training.load_global_step",
    ),
    Row(f"{PRIVATE}.estimator._verify_model_fn_args", f"{_OLD}.training.verify_model_fn_args"),
    Row(
        f"{PRIVATE}.estimator.maybe_overwrite_model_dir_and_session_config",
        f"{_OLD}.training.maybe_overwrite_model_dir_and_session_config",
    ),
    Row(
        f"{PRIVATE}.estimator._canned_estimator_api_gauge",
        f"{_OLD}.exported_names.usage_counter",
    ),
    Row(
        f"{PRIVATE}.estimator_export.estimator_export",
        f"{_OLD}.exported_names.estimator_export",
        "It leaves what it decorates as it is.",
    ),
    Row(f"{PRIVATE}.exporter._SavedModelExporter", f"{_OLD}.training.SavedModelExporter"),
    *(
        Row(f"{PRIVATE}.gc.{old}", f"{_OLD}.saved_models.{new}")
        for old, new in (
            ("Path", "Path"),
            ("_get_paths", "get_paths"),
            ("_largest_export_versions", "largest_export_versions"),
            ("_negation", "negation"),
        )
    ),
    *(
        Row(f"{PRIVATE}.training.{old}", f"{_OLD}.training.{new}")
        for old, new in (
            ("_ContinuousEvalListener", "ContinuousEvalListener"),
            ("_EvalResult", "EvalResult"),
            ("_TrainingExecutor", "TrainingExecutor"),
            ("_assert_eval_spec", "assert_eval_spec"),
        )
    ),
    Row(f"{PRIVATE}.keras_lib.model_to_estimator", f"{_OWN}.model_to_estimator"),
    Row(f"{PRIVATE}.model_fn._TPUEstimatorSpec", "replicate.tpu.TPUEstimatorSpec", TPU),
    Row(f"{PRIVATE}.model_fn.LOSS_METRIC_KEY", "replicate.LOSS_METRIC_KEY"),
    Row(f"{PRIVATE}.model_fn.AVERAGE_LOSS_METRIC_KEY", "replicate.AVERAGE_LOSS_METRIC_KEY"),
    Row(f"{PRIVATE}.run_config.TaskType", "replicate.TaskType"),
    Row(f"{PRIVATE}.util.fn_args", f"{_OWN}.fn_args"),
    Row(f"{PRIVATE}.util.parse_input_fn_result", f"{_OWN}.parse_input_fn_result"),
    *same(f"{PRIVATE}.tpu.tpu_estimator", "replicate.tpu", ("TPUEstimator", "TPUEstimatorSpec")),
    *same(
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
        "estimator_export",
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
        "keras_lib",
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
