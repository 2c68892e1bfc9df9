"""Rows of tf.estimator."""

from replicate.absent_names import HINTS
from replicate.compat.table.row import ESTIMATOR, MEAN, STRATEGY, Row, absent, public_names, same
from replicate.compat.table.shared_names import (
    LOGIT_FNS,
    STOPPING,
    SUPERVISED,
    TREES,
    WITH_HEAD,
    tpu_rows,
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
_CANNED = (
    "The same arguments in the order of TensorFlow 2: pass all but the first two by keyword. "
    "Optimizers given by name have the learning rates of TensorFlow 1. `devices=` trains on "
    "towers, `optimizer=` takes `tf.compat.v1.train`, Keras and K-FAC. Shared embeddings are "
    "trained. The tensors that programs log and fetch have the names that they had, such as "
    "`linear/head/truediv` and `dnn/head/predictions/probabilities`; on towers they are those of "
    "the first one. Other operations have other names."
)
_TREES = (
    "The same arguments in the same order. One process and one tower train. Checkpoints of "
    "`tf.estimator` are not read, as they hold its trees in a form of their own."
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
ROWS = [
    Row(
        "tf.estimator.Estimator",
        "replicate.Estimator",
        "`config` must be a `replicate.RunConfig`. `with_model_fn` makes a copy with another "
        "`model_fn`. The older name `export_savedmodel` works, too.",
    ),
    Row(
        "tf.estimator.EstimatorSpec",
        "replicate.EstimatorSpec",
        "The error for a wrong field names the field and the accepted values. `eval_metric_ops` "
        "and `add_metrics` take metric objects of Keras 2 (tf_keras), as before, and run all of "
        "their updates, not the first one only. Metric objects of Keras 3 are refused: they lose "
        "their updates in a graph.",
    ),
    Row("tf.estimator.ModeKeys", "replicate.ModeKeys"),
    *same(
        ESTIMATOR,
        "replicate",
        _HEADS,
        "Optimizers are those of `tf.compat.v1.train`; `trainable_variables=None` means all of the "
        "graph. Metrics are objects of our own, not of Keras. The heads of TensorFlow 1 summed the "
        "loss by default, these take the mean, as in TensorFlow 2.",
        "canned.md#heads",
    ),
    Row(
        "tf.estimator.RunConfig",
        "replicate.RunConfig",
        "The same arguments in the same order, and the same attributes. Settings cannot be set, "
        "`config.replace(x=y)` makes a copy with another one; attributes of your own such as "
        "`config.hparams` can. Both checkpoint intervals None (or one given as None, and the other "
        "left out): no checkpoint is saved. `tf_random_seed` is 1 unless it is given, and None for "
        "an unpredictable one. `graph.pbtxt` and `*.meta` do not hold the data of the input. "
        "`experimental_max_worker_delay_secs=None` starts all workers at once; a number delays "
        f"worker i by 5·(i + 1) seconds, that many at most, as before. {STRATEGY} "
        "`experimental_distribute` takes a `DistributeConfig` of two. New: "
        "`progress`, `profile_steps`, `save_input_position`, `continue_input`, `cluster`, "
        "`step_timeout_secs`, `max_restarts`, `steal_model_dir`, `on_save_error`.",
        "several_gpus.md#strategies-of-tfdistribute",
    ),
    *same(
        ESTIMATOR,
        "replicate",
        ("train_and_evaluate", "TrainSpec", "EvalSpec"),
        "A wrong TF_CONFIG is a ClusterConfigError that shows the wrong part; the address of an "
        "evaluator that is listed in the cluster is checked and not used. An evaluator ends when "
        "training has ended, with or without `max_steps`. Lost processes, synchronous training and "
        "exit codes are told elsewhere.",
        "parameter_servers.md",
    ),
    *same(ESTIMATOR, "replicate", ("Exporter", "FinalExporter", "LatestExporter")),
    Row(
        "tf.estimator.BestExporter",
        "replicate.BestExporter",
        "It does not mistake the current evaluation, which is in the event file already, for an "
        "earlier one; a result that is NaN is never the best. After a restart it exports only "
        "results that are better than the best one in the event files, while `tf.estimator` "
        "exports the first evaluation of every run; both export it if there is no export yet.",
    ),
    *same(
        ESTIMATOR,
        "replicate",
        _CLASSIFIERS_AND_REGRESSORS,
        f"{MEAN} {_CANNED}",
        "canned.md",
    ),
    *same(ESTIMATOR, "replicate", WITH_HEAD, f"`head` comes first. {_CANNED}", "canned.md"),
    Row(
        "tf.estimator.experimental.SequentialHeadWrapper",
        "replicate.SequentialHeadWrapper",
    ),
    Row(
        "tf.estimator.experimental.KMeans",
        "replicate.KMeans",
        "The same arguments; `seed` counts, and N towers find the centers that one finds.",
        "canned.md#k-means",
    ),
    *same(ESTIMATOR, "replicate", TREES, _TREES, "canned.md#boosted-trees"),
    *same(
        ESTIMATOR,
        "replicate",
        ("classifier_parse_example_spec", "regressor_parse_example_spec"),
    ),
    *same("tf.estimator.experimental", "replicate", LOGIT_FNS),
    *same(
        ESTIMATOR,
        "replicate",
        ("WarmStartSettings", "VocabInfo"),
        "`warm_start_from=` is used by `train`, `evaluate`, `predict` and exports if there is no "
        "checkpoint yet. Later starts do not need the source. An export also takes variables "
        "outside of the settings from the source, as before, and maps names and vocabularies, "
        "which failed before. For a directory, its newest readable checkpoint is used. A pattern "
        "that matches no variable is an error.",
    ),
    Row(
        "tf.estimator.add_metrics",
        "replicate.add_metrics",
        "Predictions of a replicated `model_fn` are those of the whole batch; `params` stay.",
    ),
    *same(
        "tf.estimator.experimental",
        "replicate",
        ("make_stop_at_checkpoint_step_hook", *STOPPING),
        page="early_stopping.md",
    ),
    Row(
        "tf.estimator.experimental.InMemoryEvaluatorHook",
        "replicate.InMemoryEvaluatorHook",
        "It takes a custom saver, saveables such as tables, and an `init_fn` that fills variables "
        "which training does not have; all of these were refused. It still refuses clusters, and "
        "an `init_fn` that it would ignore.",
    ),
    *same(ESTIMATOR, "replicate", _HOOKS, "They are those of `tf.compat.v1.train`."),
    *same(
        "tf.estimator.export",
        "replicate.export",
        public_names("replicate.export"),
        page="export.md",
    ),
    *same("tf.estimator.experimental", "replicate.export", SUPERVISED, page="export.md"),
    *same(
        "tf.estimator.inputs",
        "replicate.inputs",
        ("numpy_input_fn", "pandas_input_fn"),
        "They return a dataset in place of tensors.",
    ),
    *tpu_rows("tf.estimator.tpu"),
    *absent("tf.estimator.experimental", ("RNNClassifier", "RNNEstimator"), HINTS["RNNEstimator"]),
    *absent("tf.estimator.experimental", ("LinearSDCA",), HINTS["LinearSDCA"]),
]
