"""The table of names that tensorflow/kfac and tf.contrib.kfac had, and this package has not.

Read when a look-up of a name fails, by the program that rewrites old programs, and by the one that
writes docs/reference/old_names_kfac.md. Below, keys are places, and names in them, separated by
blanks; `{name}` in a text stands for the name.
"""

import types
from collections.abc import Mapping

Table = Mapping[str, Mapping[str, str]]
"""Place, which is the path of a module or of a class → name → what to say of it."""

_REGISTRATION = (
    "the register_… methods of kfac.LayerCollection, which make the blocks, or register_block"
)
_SCANNER = "kfac.graph_search.register_layers, or auto_register_layers of the layer collection"
_STRATEGY = "the argument placement_strategy='round_robin' of kfac.KfacOptimizer"
_TOWERS = (
    "towers in one graph, with kfac.graph_layer_collection: copies of a graph are not supported"
)
_CONFIG = "kfac.LayerCollection(config=kfac.CurvatureConfig(…)), whose fields are its arguments"
_ALL_OPS = "make_ops_and_vars(), which returns all update ops, as its"
_THUNKS = (
    "make_vars_and_create_op_thunks(), which returns functions that make the ops, as the {} of its "
    "two lists"
)
_EMBEDDINGS = "fully_connected_approximation: an embedding is a dense layer with dense_inputs=False"


def _field(field: str, condition: str = "") -> str:
    return f"kfac.LayerCollection(config=kfac.CurvatureConfig({field}=…)){condition}"


_PATCHES = ", where patches are sub-sampled"
_SETTINGS = {
    "set_global_constants": _CONFIG,
    "EIGENVALUE_DECOMPOSITION_THRESHOLD": _field("eigen_threshold"),
    "ASSUME_ZERO_MEAN_ACTIVATIONS": _field("zero_mean_activations"),
    "INPUTS_TO_EXTRACT_PATCHES_FACTOR": _field("input_fraction", ", where inputs are sub-sampled"),
    "SUB_SAMPLE_INPUTS": _field("sub_sample_inputs"),
    "SUB_SAMPLE_PATCHES": _field("sub_sample_patches"),
    "MAX_NUM_PATCHES": _field("max_patches", _PATCHES),
    "MAX_NUM_PATCHES_PER_DIMENSION": _field("patches_per_dimension", _PATCHES),
    "USE_PATCHES_SECOND_MOMENT_OP": _field("conv_moment"),
    "NORMALIZE_DAMPING_POWER": _field("damping_power"),
    "PI_TYPE": _field("balance_damping", ", by mean traces or not at all"),
    "INIT_COVARIANCES_AT_ZERO INIT_INVERSES_AT_ZERO TOWER_STRATEGY ZERO_DEBIAS": "nothing: "
    "averages are exact from the first update on, and over all towers' examples",
    "EIGENVALUE_CLIPPING_THRESHOLD": "nothing: negative eigenvalues are taken for zero",
    "SUBTRACT_MEAN_CONTRIB_FROM_COV": "nothing: zero_mean_activations decides",
}

_UPDATES = {
    "cov_update_op": f"{_ALL_OPS} cov_update",
    "cov_update_ops": f"{_ALL_OPS} cov_updates",
    "cov_update_thunks": _THUNKS.format("first"),
    "inv_update_op": f"{_ALL_OPS} inv_update",
    "inv_update_ops": f"{_ALL_OPS} inv_updates",
    "inv_update_thunks": _THUNKS.format("second"),
    "inv_updates_dict": f"{_ALL_OPS} inv_updates, in the order of factors",
}

_PRODUCTS = "kfac.curvature_matrix_vector_products.CurvatureMatrixVectorProductComputer"
_OPTIMIZER = "kfac.optimizer.KfacOptimizer"
_LAYERS = "kfac.layer_collection.LayerCollection"
_BLOCK = "kfac.fisher_blocks.base.FisherBlock"
_FACTOR = "kfac.fisher_factors.base.FisherFactor"
_LOSS = "kfac.loss_functions.base.LossFunction"
_ESTIMATOR = "kfac.estimator.FisherEstimator"

_GONE = {
    "kfac": {
        "examples": "examples.convnet_tutorial and examples.mlp_tutorial in this project's "
        "sources, which have the tutorials' functions",
        "data_reader_alt": "kfac.data_reader, with CachedIndexedReader",
        "graph_matcher tensormatch": "kfac.graph_search",
    },
    "kfac.estimator": {
        "FisherEstimatorRoundRobin": f"kfac.estimator.FisherEstimator, with {_STRATEGY}",
        "FisherEstimatorReplicaRoundRobin": f"kfac.estimator.FisherEstimator, and {_TOWERS}",
    },
    "kfac.fisher_blocks kfac.fisher_factors": _SETTINGS,
    "kfac.fisher_blocks": {
        "EmbeddingKFACFB": "kfac.fisher_blocks.FullyConnectedKFACBasicFB",
        "EmbeddingKFACMultiIndepFB": "kfac.fisher_blocks.FullyConnectedMultiIndepFB",
        "PI_OFF_NAME": "kfac.CurvatureConfig(balance_damping=False)",
        "PI_TRACENORM_NAME": "kfac.CurvatureConfig(balance_damping=True)",
        "SeriesFBApproximation": "the approximations 'kron_series_1' and 'kron_series_2' of "
        "register_fully_connected_multi",
        (
            "DiagonalFB FullFB InputOutputMultiTower InputOutputMultiTowerMultiUse "
            "KroneckerProductFB PackagedFunc compute_pi_adjusted_damping compute_pi_tracenorm "
            "conv2d_filter_to_depthwise_conv2d_filter depthwise_conv2d_filter_to_conv2d_filter "
            "maybe_tuple normalize_damping num_conv_locations"
        ): _REGISTRATION,
    },
    "kfac.fisher_factors": {
        "ConvInputMultiKF": "kfac.fisher_factors.ConvInputKroneckerFactor",
        "ConvOutputMultiKF": "kfac.fisher_factors.ConvOutputKroneckerFactor",
        "DenseSquareMatrixFactor": "kfac.fisher_factors.FisherFactor",
        "DiagonalMultiKF EmbeddingInputKroneckerFactor": (
            "kfac.fisher_factors.DiagonalKroneckerFactor"
        ),
        "FullFactor": "kfac.fisher_factors.NaiveFullFactor",
        "InverseProvidingFactor": "kfac.fisher_factors.FisherFactor",
        "ScaleAndShiftFactor": "kfac.fisher_factors.ScaleAndShiftFullFactor",
        (
            "append_homog compute_cov covariance_initializer diagonal_covariance_initializer "
            "graph_func_to_id graph_func_to_string inverse_initializer list_to_string "
            "maybe_place_on_device place_on_device scalar_or_tensor_to_string "
            "scope_string_from_name scope_string_from_params"
        ): "nothing: this is part of how factors work, and not public",
    },
    "kfac.graph_search": {
        (
            "filter_records record_affine_from_bindings record_batch_norm_from_bindings "
            "record_scale_and_shift_from_bindings register_subgraph_layers"
        ): _SCANNER,
    },
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
    "kfac.loss_functions": {
        (
            "DistributionNegativeLogProbLoss NaturalParamsNegativeLogProbLoss NegativeLogProbLoss"
        ): "kfac.loss_functions.LossFunction",
    },
    "kfac.optimizer": {
        "set_global_constants": "the constructor's argument include_damping_in_qmodel_change",
        "ip ip_p sprod sprod_p": "kfac.utils.{name}",
    },
    "kfac.placement": {
        "ReplicaRoundRobinPlacementMixin": _TOWERS,
        "RoundRobinPlacementMixin": _STRATEGY,
    },
    "kfac.utils": {
        "POSDEF_INV_METHOD": _field("inverse_method"),
        "SubGraph": "nothing: a layer collection makes its own when it is final",
        "batch_execute": "kfac.batch_execute",
        "ensure_sequence": "kfac.graph_search.ensure_sequence",
        "set_global_constants": _CONFIG,
        (
            "layer_params_to_mat2d mat2d_to_layer_params AccumulatorVariable "
            "MirroredVariableWrapper MovingAverageVariable PartitionedTensor SequenceDict "
            "all_average all_sum assert_variables_match_pairs_list cholesky cls_name "
            "column_to_tensors extract_convolution_patches extract_pointwise_conv2d_patches "
            "fwd_gradients generate_random_signs get_num_replicas get_replica_id get_shape "
            "get_tf_replicator is_data_format_channel_last is_reference_variable is_replicated "
            "is_tpu_replicated kronecker_product map_gather matmul_diag_sparse "
            "matmul_sparse_dense multiline_print num_conv_locations posdef_eig "
            "posdef_eig_self_adjoint posdef_eig_svd posdef_inv posdef_inv_cholesky "
            "posdef_inv_eig posdef_inv_matrix_inverse preferred_int_dtype smart_assign "
            "smart_cond tensors_to_column"
        ): "TensorFlow's own functions: this was part of how blocks and factors work",
    },
    _PRODUCTS: {
        "generalized_gauss_newton_factor_inner_shapes": "ggn_factor_inner_shapes",
        "multiply_generalized_gauss_newton": "multiply_ggn",
        "multiply_generalized_gauss_newton_factor": "multiply_ggn_factor",
        "multiply_generalized_gauss_newton_factor_transpose": "multiply_ggn_factor_transpose",
    },
    _OPTIMIZER: {
        **_UPDATES,
        "set_damping_adaptation_params": "the constructor's arguments adapt_damping, is_chief, "
        "prev_train_batch, loss_fn, min_damping and those named damping_…",
    },
    _LAYERS: {
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
    _BLOCK: {
        "num_registered_minibatches": "num_registered_towers",
        "register_additional_minibatch": "register_additional_tower",
    },
    _FACTOR: {
        "batch_size check_partial_batch_sizes": "nothing: towers weigh by their numbers of "
        "examples",
        "get_cov": "cov",
        "instantiate_covariance": "instantiate_cov_variables()",
    },
    _LOSS: {
        "dist": "sample() and evaluate(), which need no distribution object",
        "hessian_factor_inner_shape": "ggn_factor_inner_shape",
        "hessian_factor_inner_static_shape": "ggn_factor_inner_static_shape",
        "multiply_hessian": "multiply_ggn",
        "multiply_hessian_factor": "multiply_ggn_factor",
        "multiply_hessian_factor_replicated_one_hot": "multiply_ggn_factor_replicated_one_hot",
        "multiply_hessian_factor_transpose": "multiply_ggn_factor_transpose",
    },
    _ESTIMATOR: {
        **_UPDATES,
        "made_vars": "make_vars(), which makes them once however often it is called",
    },
}

_MOVED = {
    "kfac": {
        "async_inv_cov_update_kfac_opt": "kfac.async_updates",
        "linear_operator": "kfac.linalg.linear_operator",
        "periodic_inv_cov_update_kfac_opt": "kfac.periodic",
        "python": "kfac.python",
    },
    f"kfac.fisher_factors {_LAYERS}": {
        (
            "APPROX_DIAGONAL_NAME APPROX_FULL_NAME APPROX_KRONECKER_NAME "
            "APPROX_KRONECKER_BOTH_DIAG_NAME APPROX_KRONECKER_INDEP_NAME "
            "APPROX_KRONECKER_INDEP_BOTH_DIAG_NAME APPROX_KRONECKER_INDEP_IN_DIAG_NAME "
            "APPROX_KRONECKER_INDEP_OUT_DIAG_NAME APPROX_KRONECKER_IN_DIAG_NAME "
            "APPROX_KRONECKER_OUT_DIAG_NAME APPROX_KRONECKER_SERIES_1_NAME "
            "APPROX_KRONECKER_SERIES_2_NAME APPROX_KRONECKER_SUA_NAME"
        ): "kfac.registration.approximations.{name}",
    },
    "kfac.estimator": {
        "make_fisher_estimator": "kfac.old_programs.estimators.make_fisher_estimator",
    },
    "kfac.keras": {
        "optimizers": "kfac.keras",
    },
    "kfac.python.ops": {
        (
            "curvature_matrix_vector_products estimator fisher_blocks fisher_factors "
            "layer_collection loss_functions op_queue optimizer placement utils"
        ): "kfac.{name}",
        "linear_operator": "kfac.linalg.linear_operator",
    },
    "kfac.python.ops.kfac_utils": {
        "async_inv_cov_update_kfac_opt": "kfac.async_updates",
        "data_reader": "kfac.data_reader",
        "periodic_inv_cov_update_kfac_opt": "kfac.periodic",
    },
    "kfac.python.ops.tensormatch": {
        "graph_search": "kfac.graph_search",
    },
    "kfac.python": {
        "keras": "kfac.keras",
    },
    "kfac.python.keras": {
        "optimizers": "kfac.keras",
    },
}

_DAMPING = "the constructor's arguments adapt_damping, loss_fn and those named damping_…"

_NEVER_CALLED = {
    _OPTIMIZER: {
        (
            "_compute_prev_updates _compute_qmodel _compute_qmodel_hyperparams "
            "_compute_raw_update_steps _compute_update_steps _get_qmodel_quantities "
            "_update_velocities"
        ): "multiply_preconditioner, which every step calls, and momentum_type",
        (
            "_assign_q_model_change _compute_approx_qmodel_change _get_current_loss "
            "_get_prev_loss _is_damping_adaptation_time _is_just_after_damping_adaptation_time "
            "_maybe_post_update_adapt_damping _maybe_update_prev_loss "
            "_maybe_update_qmodel_change _sub_damping_out_qmodel_change_coeff _update_damping "
            "maybe_pre_update_adapt_damping"
        ): _DAMPING,
        "_clip_updates _squared_fisher_norm _update_clip_coeff": "the constructor's argument "
        "norm_constraint",
        "_make_ops _run_ops _set_up_op_name_queue": "run_cov_inv_ops, or kfac.OpQueue with the "
        "ops of make_ops_and_vars()",
        (
            "_apply_dense _apply_sparse _apply_sparse_duplicate_indices _create_slots _finish "
            "_prepare _resource_apply_dense _resource_apply_sparse "
            "_resource_apply_sparse_duplicate_indices"
        ): "apply_gradients, and do the rest before or after super().apply_gradients(…)",
        "_add_weight_decay": "the constructor's arguments use_weight_decay and weight_decay_coeff",
        "_maybe_print_logging_info": "the constructor's argument print_logs",
        "_scale_loss": "compute_gradients, and scale the loss that it is given",
        "kfac_update_ops": "the constructor's arguments invert_every and cov_update_every, or "
        "kfac.KfacOptimizer and the ops of make_ops_and_vars()",
    },
    _BLOCK: {
        (
            "register_matpower register_inverse register_cholesky register_cholesky_inverse "
            "multiply multiply_inverse multiply_matpower multiply_cholesky "
            "multiply_cholesky_inverse"
        ): "register(function) and multiply_function(function, vector, transpose)",
    },
    _FACTOR: {
        (
            "register_matpower register_inverse register_cholesky register_cholesky_inverse "
            "get_matpower get_inverse get_cholesky get_cholesky_inverse"
        ): "register(function, damping) and operator(function, damping)",
    },
}


def _table(rows: Mapping[str, Mapping[str, str]]) -> Table:
    found: dict[str, dict[str, str]] = {}
    for places, texts in rows.items():
        for place in places.split():
            for names, text in texts.items():
                each = {name: text.replace("{name}", name) for name in names.split()}
                found.setdefault(place, {}).update(each)
    return types.MappingProxyType(found)


GONE = _table(_GONE)
"""Names that fail → their replacements."""

MOVED = _table(_MOVED)
"""Names that still work → the paths of what they mean."""

NEVER_CALLED = _table(_NEVER_CALLED)
"""Methods that tensorflow/kfac called, and this package would not → what to override instead."""

SETTINGS = _table({"kfac": _SETTINGS})["kfac"]
"""Constants of modules, and the function that set them → their replacements."""
