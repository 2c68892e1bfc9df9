"""Names of tensorflow/kfac and tf.contrib.kfac that this package lacks, with their replacements.

A module or class that had such a name in tensorflow/kfac gets its `__getattr__` from this module.
The error of an unknown name then says what to write instead: an AttributeError, or the ImportError
of `from module import name`. The package `kfac.examples` that existed there only raises that
ImportError. The old places of things that are here too still work: see `FOUND` and `OLD_MODULES`.
docs/reference/old_names_kfac.md has the whole table.
"""

import difflib
import dis
import importlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

_Class = TypeVar("_Class", bound=type)

_CONFIG = "kfac.LayerCollection(config=kfac.CurvatureConfig(…)), whose fields are its arguments"
_NONE = "nothing: averages are exact from the first update on, and over all towers' examples"
_REGISTRATION = (
    "the register_… methods of kfac.LayerCollection, which make the blocks, or register_block"
)
_PRIVATE = "nothing: this is part of how factors work, and not public"
_SCANNER = "kfac.graph_search.register_layers, or auto_register_layers of the layer collection"
_STRATEGY = "the argument placement_strategy='round_robin' of kfac.KfacOptimizer"
_TOWERS = (
    "towers in one graph, with kfac.graph_layer_collection: copies of a graph are not supported"
)

_PATCHES = ", where patches are sub-sampled"
_FIELDS = {
    "EIGENVALUE_DECOMPOSITION_THRESHOLD": ("eigen_threshold", ""),
    "ASSUME_ZERO_MEAN_ACTIVATIONS": ("zero_mean_activations", ""),
    "INPUTS_TO_EXTRACT_PATCHES_FACTOR": ("input_fraction", ", where inputs are sub-sampled"),
    "SUB_SAMPLE_INPUTS": ("sub_sample_inputs", ""),
    "SUB_SAMPLE_PATCHES": ("sub_sample_patches", ""),
    "MAX_NUM_PATCHES": ("max_patches", _PATCHES),
    "MAX_NUM_PATCHES_PER_DIMENSION": ("patches_per_dimension", _PATCHES),
    "USE_PATCHES_SECOND_MOMENT_OP": ("conv_moment", ""),
    "NORMALIZE_DAMPING_POWER": ("damping_power", ""),
    "PI_TYPE": ("balance_damping", ", by mean traces or not at all"),
}
_INVERSE = "kfac.LayerCollection(config=kfac.CurvatureConfig(inverse_method=…))"
SETTINGS: Mapping[str, str] = {
    "set_global_constants": _CONFIG,
    **{
        name: f"kfac.LayerCollection(config=kfac.CurvatureConfig({field}=…)){condition}"
        for name, (field, condition) in _FIELDS.items()
    },
    **dict.fromkeys(
        ("INIT_COVARIANCES_AT_ZERO", "INIT_INVERSES_AT_ZERO", "TOWER_STRATEGY", "ZERO_DEBIAS"),
        _NONE,
    ),
    "EIGENVALUE_CLIPPING_THRESHOLD": "nothing: negative eigenvalues are taken for zero",
    "SUBTRACT_MEAN_CONTRIB_FROM_COV": "nothing: zero_mean_activations decides",
}
"""Constants of modules, and the function that set them → their replacements."""

REPLACEMENTS: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        "kfac": {
            "examples": "examples.convnet_tutorial and examples.mlp_tutorial in this project's "
            "sources, which have the tutorials' functions",
            "data_reader_alt": "kfac.data_reader, with CachedIndexedReader",
            **dict.fromkeys(("graph_matcher", "tensormatch"), "kfac.graph_search"),
        },
        "kfac.estimator": {
            "FisherEstimatorRoundRobin": f"kfac.estimator.FisherEstimator, with {_STRATEGY}",
            "FisherEstimatorReplicaRoundRobin": f"kfac.estimator.FisherEstimator, and {_TOWERS}",
        },
        "kfac.fisher_blocks": {
            **SETTINGS,
            "EmbeddingKFACFB": "kfac.fisher_blocks.FullyConnectedKFACBasicFB",
            "EmbeddingKFACMultiIndepFB": "kfac.fisher_blocks.FullyConnectedMultiIndepFB",
            "PI_OFF_NAME": "kfac.CurvatureConfig(balance_damping=False)",
            "PI_TRACENORM_NAME": "kfac.CurvatureConfig(balance_damping=True)",
            "SeriesFBApproximation": "the approximations 'kron_series_1' and 'kron_series_2' of "
            "register_fully_connected_multi",
            **dict.fromkeys(
                (
                    "DiagonalFB",
                    "FullFB",
                    "InputOutputMultiTower",
                    "InputOutputMultiTowerMultiUse",
                    "KroneckerProductFB",
                    "PackagedFunc",
                    "compute_pi_adjusted_damping",
                    "compute_pi_tracenorm",
                    "conv2d_filter_to_depthwise_conv2d_filter",
                    "depthwise_conv2d_filter_to_conv2d_filter",
                    "maybe_tuple",
                    "normalize_damping",
                    "num_conv_locations",
                ),
                _REGISTRATION,
            ),
        },
        "kfac.fisher_factors": {
            **SETTINGS,
            "ConvInputMultiKF": "kfac.fisher_factors.ConvInputKroneckerFactor",
            "ConvOutputMultiKF": "kfac.fisher_factors.ConvOutputKroneckerFactor",
            "DenseSquareMatrixFactor": "kfac.fisher_factors.FisherFactor",
            "DiagonalMultiKF": "kfac.fisher_factors.DiagonalKroneckerFactor",
            "EmbeddingInputKroneckerFactor": "kfac.fisher_factors.DiagonalKroneckerFactor",
            "FullFactor": "kfac.fisher_factors.NaiveFullFactor",
            "InverseProvidingFactor": "kfac.fisher_factors.FisherFactor",
            "ScaleAndShiftFactor": "kfac.fisher_factors.ScaleAndShiftFullFactor",
            **dict.fromkeys(
                (
                    "append_homog",
                    "compute_cov",
                    "covariance_initializer",
                    "diagonal_covariance_initializer",
                    "graph_func_to_id",
                    "graph_func_to_string",
                    "inverse_initializer",
                    "list_to_string",
                    "maybe_place_on_device",
                    "place_on_device",
                    "scalar_or_tensor_to_string",
                    "scope_string_from_name",
                    "scope_string_from_params",
                ),
                _PRIVATE,
            ),
        },
        "kfac.graph_search": dict.fromkeys(
            (
                "filter_records",
                "record_affine_from_bindings",
                "record_batch_norm_from_bindings",
                "record_scale_and_shift_from_bindings",
                "register_subgraph_layers",
            ),
            _SCANNER,
        ),
        "kfac.keras": {
            "callbacks": "the attributes damping, momentum and learning_rate of kfac.keras.Kfac, "
            "which take numbers, schedules and what Keras' callbacks assign",
            "saving_utils": "Keras' own load_model, which loads kfac.keras.Kfac with its state",
            "utils": "kfac.keras.Kfac, which finds layers and losses in the training step",
        },
        "kfac.layer_collection": {
            "LayerParametersDict": "a dict: fisher_blocks of kfac.LayerCollection is one",
            "ensure_sequence": "kfac.graph_search.ensure_sequence",
        },
        "kfac.linalg.linear_operator": {
            "LinearOperatorDiag": "kfac.linalg.linear_operator.DiagonalOperator",
            "LinearOperatorExtras": "kfac.linalg.linear_operator.LinearOperator",
            "LinearOperatorFullMatrix": "kfac.linalg.linear_operator.DenseOperator",
        },
        "kfac.loss_functions": dict.fromkeys(
            (
                "DistributionNegativeLogProbLoss",
                "NaturalParamsNegativeLogProbLoss",
                "NegativeLogProbLoss",
            ),
            "kfac.loss_functions.LossFunction",
        ),
        "kfac.optimizer": {
            "set_global_constants": "the constructor's argument include_damping_in_qmodel_change",
            **{name: f"kfac.utils.{name}" for name in ("ip", "ip_p", "sprod", "sprod_p")},
        },
        "kfac.placement": {
            "ReplicaRoundRobinPlacementMixin": _TOWERS,
            "RoundRobinPlacementMixin": _STRATEGY,
        },
        "kfac.utils": {
            "POSDEF_INV_METHOD": _INVERSE,
            "SubGraph": "nothing: a layer collection makes its own when it is final",
            "batch_execute": "kfac.batch_execute",
            "ensure_sequence": "kfac.graph_search.ensure_sequence",
            "set_global_constants": _CONFIG,
            **dict.fromkeys(
                (
                    "layer_params_to_mat2d",
                    "mat2d_to_layer_params",
                    "AccumulatorVariable",
                    "MirroredVariableWrapper",
                    "MovingAverageVariable",
                    "PartitionedTensor",
                    "SequenceDict",
                    "all_average",
                    "all_sum",
                    "assert_variables_match_pairs_list",
                    "cholesky",
                    "cls_name",
                    "column_to_tensors",
                    "extract_convolution_patches",
                    "extract_pointwise_conv2d_patches",
                    "fwd_gradients",
                    "generate_random_signs",
                    "get_num_replicas",
                    "get_replica_id",
                    "get_shape",
                    "get_tf_replicator",
                    "is_data_format_channel_last",
                    "is_reference_variable",
                    "is_replicated",
                    "is_tpu_replicated",
                    "kronecker_product",
                    "map_gather",
                    "matmul_diag_sparse",
                    "matmul_sparse_dense",
                    "multiline_print",
                    "num_conv_locations",
                    "posdef_eig",
                    "posdef_eig_self_adjoint",
                    "posdef_eig_svd",
                    "posdef_inv",
                    "posdef_inv_cholesky",
                    "posdef_inv_eig",
                    "posdef_inv_matrix_inverse",
                    "preferred_int_dtype",
                    "smart_assign",
                    "smart_cond",
                    "tensors_to_column",
                ),
                "TensorFlow's own functions: this was part of how blocks and factors work",
            ),
        },
    }
)
"""Module → a name that it had → its replacement."""

_ALL_OPS = "make_ops_and_vars(), which returns all update ops, as"
_THUNKS = "make_vars_and_create_op_thunks(), which returns functions that make the ops, as"
_UPDATES = {
    "cov_update_op": f"{_ALL_OPS} its cov_update",
    "cov_update_ops": f"{_ALL_OPS} its cov_updates",
    "cov_update_thunks": f"{_THUNKS} the first of its two lists",
    "inv_update_op": f"{_ALL_OPS} its inv_update",
    "inv_update_ops": f"{_ALL_OPS} its inv_updates",
    "inv_update_thunks": f"{_THUNKS} the second of its two lists",
    "inv_updates_dict": f"{_ALL_OPS} its inv_updates, in the order of factors",
}
_EMBEDDINGS = "fully_connected_approximation: an embedding is a dense layer with dense_inputs=False"

ATTRIBUTES: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        "CurvatureMatrixVectorProductComputer": {
            "generalized_gauss_newton_factor_inner_shapes": "ggn_factor_inner_shapes",
            "multiply_generalized_gauss_newton": "multiply_ggn",
            "multiply_generalized_gauss_newton_factor": "multiply_ggn_factor",
            "multiply_generalized_gauss_newton_factor_transpose": "multiply_ggn_factor_transpose",
        },
        "KfacOptimizer": {
            **_UPDATES,
            "set_damping_adaptation_params": "the constructor's arguments adapt_damping, is_chief, "
            "prev_train_batch, loss_fn, min_damping and those named damping_…",
        },
        "LayerCollection": {
            "create_subgraph": "finalize()",
            "default_embedding_approximation": f"default_{_EMBEDDINGS}",
            "default_embedding_multi_approximation": "default_fully_connected_multi_approximation",
            "eval_losses_on_samples": "eval_losses(target_mode='sample')",
            "get_use_count_map": "check_registration(variables), which compares the uses",
            "register_embedding": "register_fully_connected(…, dense_inputs=False)",
            "register_embedding_multi": "register_fully_connected_multi(…, dense_inputs=False)",
            "register_loss_function": "the method of the loss's kind, such as "
            "register_softmax_cross_entropy_loss",
            "set_default_embedding_approximation": f"set_default_{_EMBEDDINGS}",
        },
        "FisherBlock": {
            "num_registered_minibatches": "num_registered_towers",
            "register_additional_minibatch": "register_additional_tower",
        },
        "FisherFactor": {
            "batch_size": "nothing: towers weigh by their numbers of examples",
            "check_partial_batch_sizes": "nothing: towers weigh by their numbers of examples",
            "get_cov": "cov",
            "instantiate_covariance": "instantiate_cov_variables()",
        },
        "LossFunction": {
            "dist": "sample() and evaluate(), which need no distribution object",
            "hessian_factor_inner_shape": "ggn_factor_inner_shape",
            "hessian_factor_inner_static_shape": "ggn_factor_inner_static_shape",
            "multiply_hessian": "multiply_ggn",
            "multiply_hessian_factor": "multiply_ggn_factor",
            "multiply_hessian_factor_replicated_one_hot": "multiply_ggn_factor_replicated_one_hot",
            "multiply_hessian_factor_transpose": "multiply_ggn_factor_transpose",
        },
        "FisherEstimator": {
            **_UPDATES,
            "made_vars": "make_vars(), which makes them once however often it is called",
        },
    }
)
"""Class → an attribute that its objects had → its replacement."""


_APPROXIMATIONS = {
    f"APPROX_{kind}_NAME": f"kfac.registration.approximations.APPROX_{kind}_NAME"
    for kind in (
        "DIAGONAL",
        "FULL",
        "KRONECKER",
        "KRONECKER_BOTH_DIAG",
        "KRONECKER_INDEP",
        "KRONECKER_INDEP_BOTH_DIAG",
        "KRONECKER_INDEP_IN_DIAG",
        "KRONECKER_INDEP_OUT_DIAG",
        "KRONECKER_IN_DIAG",
        "KRONECKER_OUT_DIAG",
        "KRONECKER_SERIES_1",
        "KRONECKER_SERIES_2",
        "KRONECKER_SUA",
    )
}

FOUND: Mapping[str, Mapping[str, str]] = types.MappingProxyType(
    {
        "kfac": {
            "async_inv_cov_update_kfac_opt": "kfac.async_updates",
            "linear_operator": "kfac.linalg.linear_operator",
            "periodic_inv_cov_update_kfac_opt": "kfac.periodic",
            "python": "kfac.python",
        },
        "kfac.fisher_factors": _APPROXIMATIONS,
        "kfac.keras": {"optimizers": "kfac.keras"},
        "LayerCollection": _APPROXIMATIONS,
    }
)
"""Module or class → a name that it had and that still works → the path of what it means."""

OLD_MODULES: Mapping[str, str] = types.MappingProxyType(
    {
        **{
            f"ops.{name}": f"kfac.{name}"
            for name in (
                "curvature_matrix_vector_products",
                "estimator",
                "fisher_blocks",
                "fisher_factors",
                "layer_collection",
                "loss_functions",
                "op_queue",
                "optimizer",
                "placement",
                "utils",
            )
        },
        "ops.linear_operator": "kfac.linalg.linear_operator",
        "ops.kfac_utils.async_inv_cov_update_kfac_opt": "kfac.async_updates",
        "ops.kfac_utils.data_reader": "kfac.data_reader",
        "ops.kfac_utils.periodic_inv_cov_update_kfac_opt": "kfac.periodic",
        "ops.tensormatch.graph_search": "kfac.graph_search",
        "keras": "kfac.keras",
        "keras.optimizers": "kfac.keras",
    }
)
"""Module below `kfac.python` → the module that it is now."""


def found_at(path: str) -> Any:
    """Returns a module of this package, or what a module has, by its path."""
    owner, _, name = path.rpartition(".")
    place = importlib.import_module(owner)
    return vars(place)[name] if name in vars(place) else importlib.import_module(path)


def _told(text: str, replacement: str) -> str:
    return (
        f"{text}, which tensorflow/kfac had. Use {replacement}. "
        "See docs/howto/from_tensorflow_kfac.md."
    )


def finder(
    module: str, public: Sequence[str] = (), late: Mapping[str, Callable[[], Any]] | None = None
) -> Callable[[str], Any]:
    """Returns the `__getattr__` of a module, which knows the replacements of old names.

    Names of `FOUND` are looked up where they are now.

    Args:
      module: Full name of the module, a key of `REPLACEMENTS`.
      public: Public names of the module, to suggest for a misspelt name.
      late: Functions that return what the module has when it is first asked for, by name.
    """
    replacements = REPLACEMENTS[module]

    def __getattr__(name: str) -> Any:  # noqa: N807
        if late and name in late:
            return late[name]()
        if name in FOUND.get(module, {}):
            return found_at(FOUND[module][name])
        text = f"module {module!r} has no attribute {name!r}"
        alike = [] if name.startswith("_") else difflib.get_close_matches(name, public, 1, 0.75)
        if name not in replacements and not alike:
            raise AttributeError(text)
        imports = _imports(sys._getframe(1))  # Such an import drops an AttributeError's text.
        if imports:
            text = f"cannot import name {name!r} from {module!r}"
        if name in replacements:
            text = _told(text, replacements[name])
        else:
            text = f"{text}. Did you mean {module}.{alike[0]}?"
        raise ImportError(text, name=module) if imports else AttributeError(text)

    return __getattr__


def _imports(frame: types.FrameType) -> bool:
    """Returns True if a frame is at `from module import name`."""
    return dis.opname[frame.f_code.co_code[frame.f_lasti]] == "IMPORT_FROM"


def refuse_import(module: str) -> NoReturn:
    """Raises the ImportError of a package that tensorflow/kfac had.

    Args:
      module: Full name of the package, such as "kfac.examples".
    """
    owner, _, name = module.rpartition(".")
    text = f"there is no module {module!r}"
    raise ImportError(_told(text, REPLACEMENTS[owner][name]), name=module)


def with_moved_attributes(cls: _Class) -> _Class:
    """Decorates a class: its objects then report the replacements of old attributes.

    Old attributes in `FOUND` work: the class has them.

    Args:
      cls: A class whose name is a key of `ATTRIBUTES`.
    """
    replacements = ATTRIBUTES[cls.__name__]

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name in replacements:
            text = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(_told(text, replacements[name]))
        # Fails again, with the ordinary message or with the error of a property.
        return object.__getattribute__(self, name)

    setattr(cls, "__getattr__", __getattr__)  # noqa: B010
    for name, path in FOUND.get(cls.__name__, {}).items():
        setattr(cls, name, found_at(path))
    return cls
