"""Canned estimators of networks: DNNClassifier, DNNRegressor, DNNEstimator.

docs/howto/canned.md explains the arguments that the canned estimators share.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Path
from replicate.canned.canned_model import (
    classifier_head,
    on_devices,
    one_part_model_fn,
    regressor_head,
)
from replicate.canned.columns.column_kinds import Column
from replicate.canned.heads.measures import SummationMethod
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.network import Activation, make_network
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.partitioners import Partitioner
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig

RATE = 0.05
"""Learning rate of an optimizer that is given by its name."""


class DNNClassifier(Estimator):
    """Classifies examples by a network of dense layers over feature columns."""

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        *,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Checks the arguments; builds nothing.

        Args:
          hidden_units: Units of each hidden layer, ≥ 1.
          feature_columns: Dense columns: numeric, bucketized, embedding and indicator columns.
          model_dir: Directory of checkpoints and event files; None as for `Estimator`.
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes if labels are strings; None: labels are class ids.
          optimizer: v1 or Keras optimizer, a name (rate 0.05), or a function that makes one.
          activation_fn: Activation of hidden layers or its name in tf.nn; None for none.
          dropout: Share of a hidden layer's values that are set to 0 in TRAIN, in [0, 1).
          config: Settings of the runs, None for the defaults.
          warm_start_from: Path of a checkpoint or SavedModel, or WarmStartSettings.
          loss_reduction: Reduction of the examples' losses, of `tf.losses.Reduction` or v1's.
          batch_norm: True to normalise each hidden layer after its dropout.
          input_layer_partitioner: Partitioner of tables and weights; None: parts of ≥ 64 MiB.
          devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for no towers.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          ValueError: An argument is out of range, or a column is categorical.
          TypeError: An argument is of the wrong kind.
        """
        head = classifier_head(
            n_classes, weight_column, label_vocabulary, loss_reduction, auc_summation_method
        )
        network = make_network(
            hidden_units,
            feature_columns,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        model_fn = one_part_model_fn(head, network, PartOptimizer(optimizer, RATE, "DNNClassifier"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class DNNRegressor(Estimator):
    """Predicts numbers by a network of dense layers over feature columns."""

    def __init__(
        self,
        hidden_units: Iterable[int],
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        *,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The arguments are those of `DNNClassifier`, but with `label_dimension`, the numbers per
        label, ≥ 1, in place of classes.

        Raises:
          ValueError: An argument is out of range, or a column is categorical.
          TypeError: An argument is of the wrong kind.
        """
        head = regressor_head(label_dimension, weight_column, loss_reduction)
        network = make_network(
            hidden_units,
            feature_columns,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        model_fn = one_part_model_fn(head, network, PartOptimizer(optimizer, RATE, "DNNRegressor"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class DNNEstimator(Estimator):
    """Trains, under a head of the user's choice, a network of dense layers over feature columns."""

    def __init__(
        self,
        head: Any,
        hidden_units: Iterable[int],
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        optimizer: Any = "Adagrad",
        activation_fn: Activation | None = tf.nn.relu,
        dropout: float | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        batch_norm: bool = False,
        *,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The first argument is a head, such as `replicate.MultiClassHead`, or one of your own. The
        others are those of `DNNClassifier`, without those of its head.

        Raises:
          ValueError: An argument is out of range, or a column is categorical.
          TypeError: An argument is of the wrong kind.
        """
        network = make_network(
            hidden_units,
            feature_columns,
            activation_fn,
            dropout,
            input_layer_partitioner,
            batch_norm,
        )
        model_fn = one_part_model_fn(head, network, PartOptimizer(optimizer, RATE, "DNNEstimator"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )
