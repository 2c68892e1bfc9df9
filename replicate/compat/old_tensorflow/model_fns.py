"""The model_fns of ready-made estimators, which libraries call in a model_fn of their own.

Each takes the arguments of a model_fn, a head, and those of its estimator in `replicate`.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from replicate._types import Nest, Spec
from replicate.canned.canned_model import one_part_model_fn
from replicate.canned.combined_model import CombinedSettings, combined_model_fn
from replicate.canned.dnn import RATE as DNN_RATE
from replicate.canned.linear import RATE as LINEAR_RATE
from replicate.canned.linear_part import make_linear_part
from replicate.canned.network import Activation, make_network
from replicate.canned.part_optimizers import PartOptimizer


def dnn_model_fn(
    features: Mapping[str, Any],
    labels: Nest,
    mode: str,
    head: Any,
    hidden_units: Iterable[int],
    feature_columns: Iterable[Any],
    optimizer: Any = "Adagrad",
    activation_fn: Activation | None = tf.nn.relu,
    dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> Spec:
    """Builds the model of a `replicate.DNNEstimator`.

    Raises:
      ValueError: An argument is out of range, or use_tpu is True.
    """
    _refuse_tpu("dnn_model_fn", use_tpu)
    network = make_network(
        hidden_units, feature_columns, activation_fn, dropout, input_layer_partitioner, batch_norm
    )
    build: Any = one_part_model_fn(
        head, network, PartOptimizer(optimizer, DNN_RATE, "dnn_model_fn")
    )
    return build(features, labels, mode, config)


def dnn_model_fn_v2(
    features: Mapping[str, Any],
    labels: Nest,
    mode: str,
    head: Any,
    hidden_units: Iterable[int],
    feature_columns: Iterable[Any],
    optimizer: Any = "Adagrad",
    activation_fn: Activation | None = tf.nn.relu,
    dropout: float | None = None,
    config: Any = None,
    use_tpu: bool = False,
    batch_norm: bool = False,
) -> Spec:
    """Calls `dnn_model_fn`, without the argument that TensorFlow 2 left out."""
    return dnn_model_fn(
        features,
        labels,
        mode,
        head,
        hidden_units,
        feature_columns,
        optimizer,
        activation_fn,
        dropout,
        None,
        config,
        use_tpu,
        batch_norm,
    )


def linear_model_fn(
    features: Mapping[str, Any],
    labels: Nest,
    mode: str,
    head: Any,
    feature_columns: Iterable[Any],
    optimizer: Any,
    partitioner: Any = None,
    config: Any = None,
    use_tpu: bool = False,
    sparse_combiner: str = "sum",
) -> Spec:
    """Builds the model of a `replicate.LinearEstimator`; optimizer None means Ftrl.

    Raises:
      ValueError: An argument is out of range, or use_tpu is True.
    """
    _refuse_tpu("linear_model_fn", use_tpu)
    part = make_linear_part(feature_columns, sparse_combiner, partitioner)
    rate = min(LINEAR_RATE, 1 / math.sqrt(len(part.columns)))
    made = PartOptimizer(optimizer or "Ftrl", rate, "linear_model_fn")
    build: Any = one_part_model_fn(head, part, made)
    return build(features, labels, mode, config)


def linear_model_fn_v2(
    features: Mapping[str, Any],
    labels: Nest,
    mode: str,
    head: Any,
    feature_columns: Iterable[Any],
    optimizer: Any,
    config: Any = None,
    sparse_combiner: str = "sum",
) -> Spec:
    """Calls `linear_model_fn`, without the arguments that TensorFlow 2 left out."""
    return linear_model_fn(
        features,
        labels,
        mode,
        head,
        feature_columns,
        optimizer,
        config=config,
        sparse_combiner=sparse_combiner,
    )


def dnn_linear_combined_model_fn(
    features: Mapping[str, Any],
    labels: Nest,
    mode: str,
    head: Any,
    linear_feature_columns: Iterable[Any] | None = None,
    linear_optimizer: Any = "Ftrl",
    dnn_feature_columns: Iterable[Any] | None = None,
    dnn_optimizer: Any = "Adagrad",
    dnn_hidden_units: Iterable[int] | None = None,
    dnn_activation_fn: Activation | None = tf.nn.relu,
    dnn_dropout: float | None = None,
    input_layer_partitioner: Any = None,
    config: Any = None,
    batch_norm: bool = False,
    linear_sparse_combiner: str = "sum",
    loss_reduction: Any = None,
) -> Spec:
    """Builds the model of a `replicate.DNNLinearCombinedEstimator`; the head tells the reduction.

    Raises:
      ValueError: There are no columns, or an argument is out of range.
    """
    del loss_reduction
    owner = "dnn_linear_combined_model_fn"
    parts = CombinedSettings(
        linear_feature_columns,
        linear_optimizer,
        dnn_feature_columns,
        dnn_optimizer,
        dnn_hidden_units,
        dnn_activation_fn,
        dnn_dropout,
        batch_norm,
        linear_sparse_combiner,
        input_layer_partitioner,
    ).parts(owner)
    build: Any = combined_model_fn(head, parts, owner)
    return build(features, labels, mode, config)


def _refuse_tpu(name: str, use_tpu: bool) -> None:
    if use_tpu:
        raise ValueError(f"{name} got use_tpu=True, but TPUs are not supported.")
