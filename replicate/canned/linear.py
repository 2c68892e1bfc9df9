"""Canned estimators of linear models: LinearClassifier, LinearRegressor, LinearEstimator.

docs/howto/canned.md explains the arguments that the canned estimators share.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

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
from replicate.canned.linear_part import LinearPart, make_linear_part
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.partitioners import Partitioner
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig

RATE = 0.2
"""Learning rate of an optimizer that is given by its name."""


class LinearClassifier(Estimator):
    """Classifies examples by a linear model of feature columns."""

    def __init__(
        self,
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
        *,
        partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Checks the arguments; builds nothing.

        Args:
          feature_columns: Columns, dense or categorical.
          model_dir: Directory of checkpoints and event files; None as for `Estimator`.
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes if labels are strings; None: labels are class ids.
          optimizer: v1 or Keras optimizer, a name (rate 0.2), or a function that makes one;
            None: Ftrl with rate min(0.2, 1/√columns).
          config: Settings of the runs, None for the defaults.
          warm_start_from: Path of a checkpoint or SavedModel, or WarmStartSettings.
          loss_reduction: Reduction of the examples' losses, of `tf.losses.Reduction` or v1's.
          sparse_combiner: Combination of the ids in a column: "sum", "mean" or "sqrtn".
          partitioner: Partitioner of the weights; None: parts of ≥ 64 MiB.
          devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for no towers.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          ValueError: An argument is out of range, or a column is a sequence of vectors.
          TypeError: An argument is of the wrong kind.
        """
        head = classifier_head(
            n_classes, weight_column, label_vocabulary, loss_reduction, auc_summation_method
        )
        part = make_linear_part(feature_columns, sparse_combiner, partitioner)
        model_fn = one_part_model_fn(head, part, _optimizer(optimizer, part, "LinearClassifier"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class LinearRegressor(Estimator):
    """Predicts numbers by a linear model of feature columns."""

    def __init__(
        self,
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        warm_start_from: Any = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        sparse_combiner: str = "sum",
        *,
        partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The arguments are those of `LinearClassifier`, but with `label_dimension`, the numbers per
        label, ≥ 1, in place of classes.

        Raises:
          ValueError: An argument is out of range, or a column is a sequence of vectors.
          TypeError: An argument is of the wrong kind.
        """
        head = regressor_head(label_dimension, weight_column, loss_reduction)
        part = make_linear_part(feature_columns, sparse_combiner, partitioner)
        model_fn = one_part_model_fn(head, part, _optimizer(optimizer, part, "LinearRegressor"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


class LinearEstimator(Estimator):
    """Trains, under a head of the user's choice, a linear model of feature columns."""

    def __init__(
        self,
        head: Any,
        feature_columns: Iterable[Column],
        model_dir: Path | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        sparse_combiner: str = "sum",
        warm_start_from: Any = None,
        *,
        partitioner: Partitioner | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The first argument is a head, such as `replicate.MultiClassHead`, or one of your own. The
        others are those of `LinearClassifier`, without those of its head.

        Raises:
          ValueError: An argument is out of range, or a column is a sequence of vectors.
          TypeError: An argument is of the wrong kind.
        """
        part = make_linear_part(feature_columns, sparse_combiner, partitioner)
        model_fn = one_part_model_fn(head, part, _optimizer(optimizer, part, "LinearEstimator"))
        super().__init__(
            on_devices(model_fn, head, devices), model_dir, config, warm_start_from=warm_start_from
        )


def _optimizer(given: Any, part: LinearPart, owner: str) -> PartOptimizer:
    if given is None:
        return PartOptimizer("Ftrl", min(RATE, 1 / math.sqrt(len(part.columns))), owner)
    return PartOptimizer(given, RATE, owner)
