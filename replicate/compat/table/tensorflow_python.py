"""Rows of the modules below tensorflow.python: names that moved or went, where libraries look.

All other names of these modules are TensorFlow's own. What moved from one private module into
another has a public name, too, and that is its replacement.
"""

from replicate.compat.table.row import Row, same

_OLD = "replicate.compat.old_tensorflow"
_KERAS = "Public names only, then TensorFlow's own."
_STRATEGY = (
    "get_replica_context",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
)
_OLD_STRATEGY = (
    ("get_distribution_strategy", "get_strategy"),
    ("get_tower_context", "get_replica_context"),
    ("has_distribution_strategy", "has_strategy"),
    ("in_cross_tower_context", "in_cross_replica_context"),
)
_BY_POSITION = "Takes its arguments by position, too."

_MOVED = [
    *same("tf.python.ops.array_ops", "tf", ("stack", "unstack")),
    *same("tf.python.ops.control_flow_ops", "tf", ("Assert", "case", "cond", "while_loop")),
    Row("tf.python.ops.gen_array_ops._concat_v2", "tf.concat"),
    *same(
        "tf.python.ops.variable_scope",
        "tf",
        ("disable_resource_variables", "enable_resource_variables", "resource_variables_enabled"),
    ),
    Row("tf.python.ops.variable_scope.variable", "tf.Variable"),
    *same("tf.python.framework.ops", "tf", ("IndexedSlices", "SparseTensor", "Tensor")),
    Row("tf.python.framework.ops.convert_to_tensor_v2", f"{_OLD}.tensors.convert_to_tensor_v2"),
    *same(
        "tf.python.framework.tensor_shape",
        f"{_OLD}.tensors",
        ("matrix", "scalar", "vector"),
    ),
    *(
        Row(f"tf.python.framework.{module}.{name}", f"tf.graph_util.{name}")
        for module in ("graph_util", "graph_util_impl")
        for name in (
            "convert_variables_to_constants",
            "extract_sub_graph",
            "must_run_on_cpu",
            "remove_training_nodes",
            "tensor_shape_from_node_def_name",
        )
    ),
    *(
        Row(f"tf.python.{module}.is_sequence", "tf.nest.is_nested")
        for module in ("data.util.nest", "util.nest")
    ),
    *(
        Row(f"tf.python.{module}.{old}", f"tf.distribute.{new}")
        for module in (
            "distribute.distribution_strategy_context",
            "training.distribution_strategy_context",
        )
        for old, new in (*zip(_STRATEGY, _STRATEGY, strict=True), *_OLD_STRATEGY)
    ),
    *(
        Row(f"tf.python.feature_column.{module}.DenseFeatures", f"{_OLD}.columns.DenseFeatures")
        for module in ("feature_column_lib", "feature_column_v2")
    ),
    *(
        Row(f"tf.python.training.{module}.*", f"{_OLD}.kernels", _BY_POSITION)
        for module in ("gen_training_ops", "training_ops")
    ),
]
_GONE = [
    Row("tf.python.ops.rnn_cell_impl._like_rnncell", f"{_OLD}.tensors.like_rnncell"),
    Row(
        "tf.python.ops.resource_variable_ops._from_proto_fn", f"{_OLD}.tensors.variable_from_proto"
    ),
    Row("tf.python.ops.resource_variable_ops._to_proto_fn", f"{_OLD}.tensors.variable_to_proto"),
    Row("tf.python.pywrap_tensorflow.EventsWriter", f"{_OLD}.events_writer.EventsWriter"),
    *same(
        "tf.python.saved_model.utils_impl",
        f"{_OLD}.saved_models",
        ("get_assets_dir", "get_variables_dir", "get_variables_path"),
    ),
    Row(
        "tf.python.util.tf_export.estimator_export",
        f"{_OLD}.exported_names.estimator_export",
        "It leaves what it decorates as it is.",
    ),
    Row(
        "tf.python.distribute.estimator_training.should_run_distribute_coordinator",
        f"{_OLD}.training.should_run_distribute_coordinator",
        "False: Estimators run clusters themselves.",
    ),
    *same("tf.python.distribute.estimator_training", "replicate", ("train_and_evaluate",)),
    Row(
        "tf.python.training.tracking.*",
        None,
        "TensorFlow has moved it: use tf.train.Checkpoint and tf.train.list_variables.",
    ),
]
_OF_KERAS = [
    Row(
        "tf.python.keras.utils.multi_gpu_model",
        None,
        "Train the model in a model_fn with replicate.replicate_model_fn, or with "
        "tf.distribute.MirroredStrategy.",
    ),
    Row("tf.python.keras.*", "tf.keras", _KERAS),
    *(
        Row(f"tf.python.keras.layers.{name}.*", "tf.keras.layers")
        for name in (
            "advanced_activations",
            "convolutional",
            "core",
            "embeddings",
            "merge",
            "normalization",
            "pooling",
            "recurrent",
            "wrappers",
        )
    ),
    *(
        Row(f"tf.python.keras.engine.{module}.{name}", f"tf.keras.{new}")
        for module, name, new in (
            ("base_layer", "Layer", "layers.Layer"),
            ("base_layer", "InputSpec", "layers.InputSpec"),
            ("topology", "Layer", "layers.Layer"),
            ("topology", "InputSpec", "layers.InputSpec"),
            ("training", "Model", "Model"),
            ("input_layer", "Input", "Input"),
            ("sequential", "Sequential", "Sequential"),
        )
    ),
    *(
        Row(f"tf.python.keras.utils.{name}.*", "tf.keras.utils")
        for name in ("generic_utils", "np_utils", "data_utils")
    ),
]

ROWS = [*_MOVED, *_GONE, *_OF_KERAS]
