"""Canned estimators without features: BaselineClassifier, BaselineRegressor, BaselineEstimator.

docs/howto/canned.md explains the arguments that the canned estimators share.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, final

import tensorflow as tf

from replicate._types import Path, Tensor
from replicate.canned.canned_model import (
    classifier_head,
    on_devices,
    one_part_model_fn,
    regressor_head,
)
from replicate.canned.columns.column_cache import as_tensor
from replicate.canned.heads.measures import SummationMethod
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.canned.part_optimizers import PartOptimizer
from replicate.canned.parts import PartLogits, trainable_variables_in
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


@final
@dataclasses.dataclass(frozen=True)
class BaselinePart:
    """A bias of zeros at first.

    Attributes:
      weight_key: Feature with the weights of examples, whose size is not looked at; or None.
    """

    head_scope: ClassVar[str] = ""

    weight_key: str | None

    def build(self, features: Mapping[str, Any], units: int, mode: str, config: Any) -> PartLogits:
        """Builds the bias below the scope "baseline", as `Part.build`."""
        del mode, config
        with v1.variable_scope("baseline") as scope:
            bias = v1.get_variable("bias", [units], initializer=v1.zeros_initializer())
            with v1.control_dependencies(self._inputs(features)):
                logits = tf.tile(bias[None, :], [self._batch_size(features), 1])
        return PartLogits(logits, trainable_variables_in(scope.name), [], [])

    def _inputs(self, features: Mapping[str, Any]) -> list[Tensor]:
        """Returns tensors of the input. Without them, prediction would not see the input end."""
        leaves = tf.nest.flatten(dict(features), expand_composites=True)
        return [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)][:1]

    def _batch_size(self, features: Mapping[str, Any]) -> Tensor:
        """Returns the rows of all features, int32 [], after the check that they agree."""
        counted = {key: value for key, value in features.items() if key != self.weight_key}
        if not counted:
            raise ValueError(
                "A baseline estimator takes the batch size from the features, but there is no "
                f"feature besides the weights: features has {sorted(features)}. Return one more "
                "feature from input_fn."
            )
        rows = {key: _rows(value) for key, value in counted.items()}
        sizes = tf.stack(list(rows.values()))
        text = (
            "All features of a baseline estimator must have the same number of rows. Received "
            f"{{}} rows of {', '.join(rows)}."
        )
        check = batch_check(tf.reduce_all(tf.equal(sizes, sizes[0])), text, sizes)
        with v1.control_dependencies([check]):
            return tf.identity(sizes[0])


def _rows(value: Any) -> Tensor:
    """Returns the rows of a feature, int32 []."""
    tensor = as_tensor(value)
    if isinstance(tensor, tf.SparseTensor):
        return tf.cast(tensor.dense_shape[0], tf.int32)
    return tf.shape(tensor)[0]


RATE = 0.3
"""Learning rate of an optimizer that is given by its name."""


class BaselineClassifier(Estimator):
    """Classifies examples by a bias that is the same for all examples."""

    def __init__(
        self,
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        *,
        devices: Sequence[str] | None = None,
        auc_summation_method: SummationMethod = "careful_interpolation",
    ) -> None:
        """Checks the arguments; builds nothing.

        Args:
          model_dir: Directory of checkpoints and event files; None as for `Estimator`.
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes if labels are strings; None: labels are class ids.
          optimizer: v1 or Keras optimizer, a name (rate 0.3), or a function that makes one.
          config: Settings of the runs, None for the defaults.
          loss_reduction: Reduction of the examples' losses, of `tf.losses.Reduction` or v1's.
          devices: Device of each tower, such as ["/gpu:0", "/gpu:1"]; None for no towers.
          auc_summation_method: Method of auc_precision_recall: "careful_interpolation", or
            "trapezoidal" as in TensorFlow 1.

        Raises:
          ValueError: An argument is out of range.
          TypeError: An argument is of the wrong kind.
        """
        head = classifier_head(
            n_classes, weight_column, label_vocabulary, loss_reduction, auc_summation_method
        )
        model_fn = one_part_model_fn(
            head,
            BaselinePart(weight_key(weight_column)),
            PartOptimizer(optimizer, RATE, "BaselineClassifier"),
        )
        super().__init__(on_devices(model_fn, head, devices), model_dir, config)


class BaselineRegressor(Estimator):
    """Predicts numbers by a bias that is the same for all examples."""

    def __init__(
        self,
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        *,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The arguments are those of `BaselineClassifier`, but with `label_dimension`, the numbers per
        label, ≥ 1, in place of classes.

        Raises:
          ValueError: An argument is out of range.
          TypeError: An argument is of the wrong kind.
        """
        head = regressor_head(label_dimension, weight_column, loss_reduction)
        model_fn = one_part_model_fn(
            head,
            BaselinePart(weight_key(weight_column)),
            PartOptimizer(optimizer, RATE, "BaselineRegressor"),
        )
        super().__init__(on_devices(model_fn, head, devices), model_dir, config)


class BaselineEstimator(Estimator):
    """Trains, under a head of the user's choice, a bias that is the same for all examples."""

    def __init__(
        self,
        head: Any,
        model_dir: Path | None = None,
        optimizer: Any = "Ftrl",
        config: RunConfig | None = None,
        *,
        devices: Sequence[str] | None = None,
    ) -> None:
        """Checks the arguments; builds nothing.

        The first argument is a head, such as `replicate.MultiClassHead`, or one of your own. The
        others are those of `BaselineClassifier`, without those of its head.

        Raises:
          ValueError: An argument is out of range.
          TypeError: An argument is of the wrong kind.
        """
        model_fn = one_part_model_fn(
            head, BaselinePart(None), PartOptimizer(optimizer, RATE, "BaselineEstimator")
        )
        super().__init__(on_devices(model_fn, head, devices), model_dir, config)


def weight_key(weight_column: Any) -> str | None:
    """Returns the key of the feature with the examples' weights, None if there is none."""
    return getattr(weight_column, "key", weight_column)
