"""model_fn of estimators that add the logits of a network and of a linear model."""

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import ModelFn, Nest, Operation, Spec, Tensor
from replicate.canned.canned_model import spec_of
from replicate.canned.columns.column_cache import check_features
from replicate.canned.columns.column_kinds import Column
from replicate.canned.linear_part import LinearPart, make_linear_part
from replicate.canned.network import Activation, make_network
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.partitioners import Partitioner
from replicate.canned.parts import Part, PartLogits
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.spec import ModeKeys

v1 = tf.compat.v1

DNN_RATE = 0.001
"""Learning rate of the network's optimizer, if it is given by its name."""
LINEAR_RATE = 0.005
"""Largest learning rate of the linear model's optimizer, if it is given by its name."""


class TrainedPart(NamedTuple):
    """A part and its optimizer."""

    part: Part
    optimizer: PartOptimizer


@dataclasses.dataclass(frozen=True)
class CombinedSettings:
    """Arguments of the two parts, under the names that the constructors give them."""

    linear_feature_columns: Iterable[Column] | None
    linear_optimizer: Any
    dnn_feature_columns: Iterable[Column] | None
    dnn_optimizer: Any
    dnn_hidden_units: Iterable[int] | None
    dnn_activation_fn: Activation | None
    dnn_dropout: float | None
    batch_norm: bool
    linear_sparse_combiner: str
    input_layer_partitioner: Partitioner | None

    def parts(self, owner: str) -> list[TrainedPart]:
        """Returns the parts that have columns, the network first.

        Raises:
          ValueError: There are no columns, or a setting is missing or out of range.
        """
        parts = [*self._network(owner), *self._linear(owner)]
        if not parts:
            raise ValueError(
                f"{owner} needs linear_feature_columns, dnn_feature_columns or both, got neither."
            )
        return parts

    def _network(self, owner: str) -> list[TrainedPart]:
        columns = _listed(self.dnn_feature_columns)
        if not columns:
            return []
        if not self.dnn_hidden_units:
            raise ValueError(
                f"{owner}: dnn_feature_columns need dnn_hidden_units, the units of each hidden "
                f"layer, got {self.dnn_hidden_units!r}. Pass [64, 32], for example."
            )
        network = make_network(
            self.dnn_hidden_units,
            columns,
            self.dnn_activation_fn,
            self.dnn_dropout,
            self.input_layer_partitioner,
            self.batch_norm,
            prefix="dnn_",
        )
        optimizer = PartOptimizer(self.dnn_optimizer, DNN_RATE, owner, "dnn_optimizer")
        return [TrainedPart(network, optimizer.checked())]

    def _linear(self, owner: str) -> list[TrainedPart]:
        columns = _listed(self.linear_feature_columns)
        if not columns:
            return []
        linear = make_linear_part(
            columns, self.linear_sparse_combiner, self.input_layer_partitioner, prefix="linear_"
        )
        rate = min(LINEAR_RATE, 1 / math.sqrt(len(columns)))
        optimizer = PartOptimizer(self.linear_optimizer, rate, owner, "linear_optimizer")
        return [TrainedPart(linear, optimizer.checked())]


def combined_model_fn(head: Any, parts: Sequence[TrainedPart], owner: str) -> ModelFn:
    """Returns the model_fn of a head over the sum of the logits of one or two parts.

    Each optimizer minimizes the loss over the variables of its own part. The global step advances
    after both.
    """

    def model_fn(features: Mapping[str, Any], labels: Nest, mode: str, config: Any) -> Spec:
        check_features(features)
        units = head.logits_dimension
        built = [part.build(features, units, mode, config) for part, _ in parts]
        logits = built[0].logits
        if len(built) > 1:
            logits = logits + built[1].logits
        if mode == ModeKeys.TRAIN:
            _summarize(parts, built)

        def train(loss: Tensor) -> Operation:
            optimizers = [
                optimizer.make(head, features, logits, part)
                for (_, optimizer), part in zip(parts, built, strict=True)
            ]
            _check_not_synchronous(optimizers, owner)
            return _train_op(loss, optimizers, built)

        return spec_of(
            head,
            features=features,
            mode=mode,
            logits=logits,
            labels=labels,
            train_op_fn=train,
            update_ops=[update for part in built for update in part.updates],
        )

    return model_fn


def _summarize(parts: Sequence[TrainedPart], built: Sequence[PartLogits]) -> None:
    """Writes the share of zeros and the histogram of the linear model's logits."""
    for (part, _), found in zip(parts, built, strict=True):
        if isinstance(part, LinearPart):
            with v1.name_scope(None):
                zeros = tf.math.zero_fraction(found.logits)
                v1.summary.scalar("linear/fraction_of_zero_values", zeros)
                v1.summary.histogram("linear/activation", found.logits)


def _train_op(loss: Tensor, optimizers: Sequence[Any], built: Sequence[PartLogits]) -> Operation:
    updates = [
        optimizer.minimize(loss, var_list=part.variables)
        for optimizer, part in zip(optimizers, built, strict=True)
    ]
    with v1.control_dependencies(updates):
        return v1.assign_add(v1.train.get_global_step(), 1).op


def _check_not_synchronous(optimizers: Sequence[Any], owner: str) -> None:
    """Refuses a SyncReplicasOptimizer, which would count the steps of one part only."""
    for optimizer in optimizers:
        inner = optimizer.wrapped if isinstance(optimizer, TowerOptimizer) else optimizer
        if len(optimizers) > 1 and isinstance(inner, v1.train.SyncReplicasOptimizer):
            raise ValueError(
                f"{owner} cannot train two parts by a SyncReplicasOptimizer, got {inner!r}: each "
                "of the two would wait for steps that the other makes. Take other optimizers."
            )


def _listed(columns: Any) -> Sequence[Column]:
    if columns is None:
        return []
    if isinstance(columns, Iterable) and not hasattr(columns, "name"):
        return list(columns)
    return [columns]
