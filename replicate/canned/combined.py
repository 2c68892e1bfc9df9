"""Canned estimators that add the logits of a network and of a linear model.

docs/howto/canned.md explains the arguments that the canned estimators share.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Path
from replicate.canned.canned_model import classifier_head, on_devices, regressor_head
from replicate.canned.columns.column_kinds import Column
from replicate.canned.combined_model import CombinedSettings, combined_model_fn
from replicate.canned.heads.measures import SummationMethod
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.network import Activation
from replicate.canned.partitioners import Partitioner
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig


class DNNLinearCombinedClassifier(Estimator):
    """Classifies examples by the sum of a network and a linear model."""

    def __init__(
        self,
        model_dir: Path | None = None,
        linear_feature_columns: Iterable[Column] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Iterable[Column] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Activation | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        *,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Checks the arguments; builds nothing.

        Args:
          model_dir: Directory of checkpoints and event files; None as for `Estimator`.
          linear_feature_columns: Columns of the linear model; None for no linear model.
          linear_optimizer: As dnn_optimizer; the rate of a name is min(0.005, 1/√columns).
          dnn_feature_columns: Columns of the network, dense; None for no network.
          dnn_optimizer: v1 or Keras optimizer, a name (rate 0.001), or a function that makes one.
          dnn_hidden_units: Units of each hidden layer, ≥ 1.
          dnn_activation_fn: Activation of hidden layers or its name in tf.nn; None for none.
          dnn_dropout: Share of a hidden layer's values that are set to 0 in TRAIN, in [0, 1).
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes if labels are strings; None: labels are class ids.
          config: Settings of the runs, None for the defaults.
          warm_start_from: Path of a checkpoint or SavedModel, or WarmStartSettings.
          loss_reduction: Reduction of the examples' losses, of `tf.losses.Reduction` or v1's.
          batch_norm: True to normalise each hidden layer after its dropout.
          linear_sparse_combiner: Combination of the ids in a column: "sum", "mean" or "sqrtn".
          input_layer_partitioner: Partitioner of tables and weights; None: parts of ≥ 64 MiB.
          devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for no towers.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          ValueError: An argument is out of range, there are no columns, or no hidden units.
          TypeError: An argument is of the wrong kind.
        """
        head = classifier_head(
            n_classes, weight_column, label_vocabulary, loss_reduction, auc_summation_method
        )
        settings = CombinedSettings(
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=dnn_optimizer,
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
            input_layer_partitioner=input_layer_partitioner,
        )
        model_fn = combined_model_fn(
            head, settings.parts("DNNLinearCombinedClassifier"), "DNNLinearCombinedClassifier"
        )
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class DNNLinearCombinedRegressor(Estimator):
    """Predicts numbers by the sum of a network and a linear model."""

    def __init__(
        self,
        model_dir: Path | None = None,
        linear_feature_columns: Iterable[Column] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Iterable[Column] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Activation | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        *,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The arguments are those of `DNNLinearCombinedClassifier`, but with `label_dimension`, the
        numbers per label, ≥ 1, in place of classes.

        Raises:
          ValueError: An argument is out of range, there are no columns, or no hidden units.
          TypeError: An argument is of the wrong kind.
        """
        head = regressor_head(label_dimension, weight_column, loss_reduction)
        settings = CombinedSettings(
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=dnn_optimizer,
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
            input_layer_partitioner=input_layer_partitioner,
        )
        model_fn = combined_model_fn(
            head, settings.parts("DNNLinearCombinedRegressor"), "DNNLinearCombinedRegressor"
        )
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class DNNLinearCombinedEstimator(Estimator):
    """Trains, under a head of the user's choice, the sum of a network and a linear model."""

    def __init__(
        self,
        head: Any,
        model_dir: Path | None = None,
        linear_feature_columns: Iterable[Column] | None = None,
        linear_optimizer: Any = "Ftrl",
        dnn_feature_columns: Iterable[Column] | None = None,
        dnn_optimizer: Any = "Adagrad",
        dnn_hidden_units: Iterable[int] | None = None,
        dnn_activation_fn: Activation | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
        *,
        warm_start_from: Any = None,
        input_layer_partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The first argument is a head, such as `replicate.MultiClassHead`, or one of your own. The
        others are those of `DNNLinearCombinedClassifier`, without those of its head.

        Raises:
          ValueError: An argument is out of range, there are no columns, or no hidden units.
          TypeError: An argument is of the wrong kind.
        """
        settings = CombinedSettings(
            linear_feature_columns=linear_feature_columns,
            linear_optimizer=linear_optimizer,
            dnn_feature_columns=dnn_feature_columns,
            dnn_optimizer=dnn_optimizer,
            dnn_hidden_units=dnn_hidden_units,
            dnn_activation_fn=dnn_activation_fn,
            dnn_dropout=dnn_dropout,
            batch_norm=batch_norm,
            linear_sparse_combiner=linear_sparse_combiner,
            input_layer_partitioner=input_layer_partitioner,
        )
        model_fn = combined_model_fn(
            head, settings.parts("DNNLinearCombinedEstimator"), "DNNLinearCombinedEstimator"
        )
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )
