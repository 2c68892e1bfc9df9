"""Rows of the packages of tf.contrib around the Estimator: learn, estimator, data, opt and more."""

from replicate.absent_names import HINTS
from replicate.compat.table.row import NOTHING, TPU, Row, absent, modules_of, same, written_here
from replicate.compat.table.shared_names import (
    HEAD_FUNCTIONS,
    LOGIT_FNS,
    STOPPING,
    SUPERVISED,
    WITH_HEAD,
    tpu_rows,
)

_OURS = "replicate.compat.contrib"
_FILES = "It reads files that are there, and downloads nothing."
_HEAD = "The function returns a head of replicate."

_ESTIMATOR = [
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
    Row("tf.contrib.estimator.clip_gradients_by_norm", f"{_OURS}.estimator.clip_gradients_by_norm"),
    Row("tf.contrib.estimator.forward_features", None, HINTS["forward_features"]),
    Row("tf.contrib.estimator.Head", "replicate.Head"),
    *same("tf.contrib.estimator", "replicate.v1", HEAD_FUNCTIONS, _HEAD),
    *same("tf.contrib.estimator", "replicate", WITH_HEAD, "head comes first."),
    *same(
        "tf.contrib.estimator",
        "replicate",
        (
            "BoostedTreesEstimator",
            "boosted_trees_classifier_train_in_memory",
            "boosted_trees_regressor_train_in_memory",
        ),
    ),
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
    *modules_of(
        "tf.contrib.estimator",
        (
            "python.estimator.baseline",
            "python.estimator.dnn",
            "python.estimator.dnn_linear_combined",
            "python.estimator.early_stopping",
            "python.estimator.extenders",
            "python.estimator.head",
            "python.estimator.hooks",
            "python.estimator.linear",
            "python.estimator.logit_fns",
            "python.estimator.multi_head",
            "python.estimator.replicate_model_fn",
        ),
    ),
    Row("tf.contrib.estimator.*", None, NOTHING),
]

_LEARN = [
    Row("tf.contrib.learn.ModeKeys", f"{_OURS}.learn.ModeKeys"),
    Row(
        "tf.contrib.learn.RunConfig",
        f"{_OURS}.learn.RunConfig",
        "A replicate.RunConfig: num_cores, log_device_placement and gpu_memory_fraction become "
        "its session_config.",
    ),
    Row("tf.contrib.learn.KMeansClustering", "replicate.KMeansClustering"),
    Row(
        "tf.contrib.learn.Experiment",
        f"{_OURS}.learn.Experiment",
        "min_eval_frequency: 0 evaluates after training only, other values each checkpoint.",
    ),
    Row("tf.contrib.learn.learn_runner.run", f"{_OURS}.learn.learn_runner.run"),
    *same(
        "tf.contrib.learn",
        f"{_OURS}.learn",
        (
            "Estimator",
            "ExportStrategy",
            "InputFnOps",
            "MetricSpec",
            "ModelFnOps",
            "PredictionKey",
            "ProblemType",
            "infer_real_valued_columns_from_input",
            "make_export_strategy",
        ),
    ),
    *same(
        "tf.contrib.learn",
        f"{_OURS}.learn",
        (
            "DNNClassifier",
            "DNNLinearCombinedClassifier",
            "DNNLinearCombinedRegressor",
            "DNNRegressor",
            "LinearClassifier",
            "LinearRegressor",
        ),
        "Names of variables are those of tf.estimator.",
    ),
    *same(
        "tf.contrib.learn.monitors",
        f"{_OURS}.learn.monitors",
        (
            "CheckpointSaver",
            "NanLoss",
            "PrintTensor",
            "StopAtStep",
            "SummarySaver",
            "ValidationMonitor",
            "replace_monitors_with_hooks",
        ),
        "A monitor is a hook.",
    ),
    *same(
        "tf.contrib.learn.utils.saved_model_export_utils",
        f"{_OURS}.learn",
        ("make_export_strategy",),
    ),
    *same(
        "tf.contrib.learn.utils.input_fn_utils",
        f"{_OURS}.learn",
        ("InputFnOps", "build_default_serving_input_fn", "build_parsing_serving_input_fn"),
    ),
    *same(
        "tf.contrib.learn.utils",
        f"{_OURS}.learn",
        (
            "InputFnOps",
            "build_default_serving_input_fn",
            "build_parsing_serving_input_fn",
            "make_export_strategy",
        ),
    ),
    *same(
        "tf.contrib.learn.datasets.base",
        f"{_OURS}.learn.datasets",
        (
            "Dataset",
            "Datasets",
            "load_csv_with_header",
            "load_csv_without_header",
            "maybe_download",
        ),
        _FILES,
    ),
    Row(
        "tf.contrib.learn.datasets.DATASETS",
        f"{_OURS}.learn.datasets.DATASETS",
        'It has "mnist" alone, whose files must be there: nothing is downloaded.',
    ),
    *same(
        "tf.contrib.learn.datasets.mnist",
        "replicate.compat.mnist.input_data",
        (
            "DataSet",
            "Datasets",
            "extract_images",
            "extract_labels",
            "load_mnist",
            "read_data_sets",
        ),
        _FILES,
    ),
    *modules_of(
        "tf.contrib.learn",
        (
            "estimators",
            "experiment",
            "export_strategy",
            "metric_spec",
            "model_fn",
            "prediction_key",
            "constants",
            "run_config",
            "python.learn",
        ),
    ),
    Row("tf.contrib.learn.*", None, NOTHING),
]

_DATA = [
    *written_here("data"),
    *same(
        "tf.contrib.data",
        "tf.data.experimental",
        (
            "AUTOTUNE",
            "Counter",
            "CsvDataset",
            "Optional",
            "RandomDataset",
            "Reducer",
            "SqlDataset",
            "TFRecordWriter",
            "bucket_by_sequence_length",
            "choose_from_datasets",
            "copy_to_device",
            "dense_to_sparse_batch",
            "enumerate_dataset",
            "get_next_as_optional",
            "get_single_element",
            "group_by_reducer",
            "group_by_window",
            "ignore_errors",
            "make_batched_features_dataset",
            "make_csv_dataset",
            "make_saveable_from_iterator",
            "map_and_batch",
            "parallel_interleave",
            "parse_example_dataset",
            "prefetch_to_device",
            "rejection_resample",
            "sample_from_datasets",
            "scan",
            "shuffle_and_repeat",
            "unbatch",
            "unique",
        ),
    ),
    *modules_of(
        "tf.contrib.data",
        (
            "python.ops.batching",
            "python.ops.dataset_ops",
            "python.ops.grouping",
            "python.ops.interleave_ops",
            "python.ops.readers",
            "python.ops.shuffle_ops",
            "python.ops.sliding",
        ),
    ),
    Row("tf.contrib.data.*", None, NOTHING),
]

_OPT = [
    *same("tf.contrib.opt", "replicate", ("ModelAverageCustomGetter", "ModelAverageOptimizer")),
    *written_here("opt"),
    *modules_of(
        "tf.contrib.opt",
        (
            "python.training.lazy_adam_optimizer",
            "python.training.moving_average_optimizer",
            "python.training.nadam_optimizer",
            "python.training.weight_decay_optimizers",
        ),
    ),
    Row("tf.contrib.opt.*", None, NOTHING),
]

_TPU = [
    *tpu_rows("tf.contrib.tpu"),
    Row("tf.contrib.tpu.bfloat16_scope", "replicate.tpu.bfloat16_scope"),
    Row(
        "tf.contrib.tpu.python.tpu.tpu_function.get_tpu_context",
        f"{_OURS}.tpu_function.get_tpu_context",
        "number_of_shards is None.",
    ),
    *modules_of(
        "tf.contrib.tpu",
        (
            "python.tpu.bfloat16",
            "python.tpu.datasets",
            "python.tpu.keras_support",
            "python.tpu.tpu",
            "python.tpu.tpu_config",
            "python.tpu.tpu_context",
            "python.tpu.tpu_estimator",
            "python.tpu.tpu_optimizer",
            "python.ops.tpu_ops",
        ),
    ),
    Row("tf.contrib.tpu.*", None, TPU),
    Row("tf.contrib.cluster_resolver.TPUClusterResolver", "replicate.tpu.TPUClusterResolver", TPU),
    *same(
        "tf.contrib.cluster_resolver",
        "tf.distribute.cluster_resolver",
        (
            "ClusterResolver",
            "SimpleClusterResolver",
            "SlurmClusterResolver",
            "TFConfigClusterResolver",
        ),
    ),
    Row(
        "tf.contrib.cluster_resolver.UnionClusterResolver",
        "tf.distribute.cluster_resolver.UnionResolver",
    ),
    *modules_of(
        "tf.contrib.cluster_resolver",
        (
            "cluster_resolver",
            "python.training",
            "tpu_cluster_resolver",
        ),
    ),
]

_SMALL = [
    *written_here("deprecated"),
    *written_here("nn"),
    Row("tf.contrib.util.constant_value", "tf.get_static_value"),
    *same("tf.contrib.util", "tf", ("make_ndarray", "make_tensor_proto")),
    Row("tf.contrib.util.loader.load_op_library", "tf.load_op_library"),
    *same(
        "tf.contrib.signal",
        "tf.signal",
        (
            "frame",
            "hamming_window",
            "hann_window",
            "inverse_stft",
            "inverse_stft_window_fn",
            "linear_to_mel_weight_matrix",
            "mfccs_from_log_mel_spectrograms",
            "overlap_and_add",
            "stft",
        ),
    ),
    Row("tf.contrib.keras.*", "tf.keras"),
    Row("tf.contrib.compiler.jit.experimental_jit_scope", "tf.xla.experimental.jit_scope"),
    Row("tf.contrib.compiler.xla.compile", "tf.xla.experimental.compile"),
    Row("tf.contrib.eager.in_eager_mode", "tf.executing_eagerly"),
    *same("tf.contrib.eager", "tf", ("Variable", "executing_eagerly")),
    Row("tf.contrib.eager.py_func", "tf.py_function"),
    Row("tf.contrib.eager.defun", "tf.function"),
    *modules_of("tf.contrib.eager", ("python.tfe",)),
    Row("tf.contrib.eager.list_devices", f"{_OURS}.distribute.list_devices"),
    Row("tf.contrib.eager.*", None, "Programs of TensorFlow 1 run in graph mode here."),
    *absent(
        "tf.contrib.linear_optimizer", ("SDCAOptimizer", "SparseFeatureColumn"), HINTS["LinearSDCA"]
    ),
    Row(
        "tf.contrib.session_bundle.*",
        None,
        "Use a SavedModel: tf.saved_model.simple_save, or export_saved_model of the Estimator.",
    ),
]

_TUTORIALS = [
    *same(
        "tf.examples.tutorials.mnist.input_data",
        "replicate.compat.mnist.input_data",
        ("DataSet", "Datasets", "extract_images", "extract_labels", "read_data_sets"),
        _FILES,
    ),
    *same(
        "tf.examples.tutorials.mnist.mnist",
        "replicate.compat.mnist.mnist",
        (
            "IMAGE_PIXELS",
            "IMAGE_SIZE",
            "NUM_CLASSES",
            "evaluation",
            "inference",
            "loss",
            "training",
        ),
    ),
    Row(
        "tf.examples.*",
        None,
        "TensorFlow no longer has its examples: read the data with NumPy or tf.keras.datasets.",
    ),
]

ROWS = [*_ESTIMATOR, *_LEARN, *_DATA, *_OPT, *_TPU, *_SMALL, *_TUTORIALS]
