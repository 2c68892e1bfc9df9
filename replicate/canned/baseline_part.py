"""The part of baseline estimators: a bias that every example gets, whatever its features."""

import dataclasses
from collections.abc import Mapping
from typing import Any, final

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.columns.column_cache import as_tensor
from replicate.canned.parts import PartLogits, trainable_variables_in
from replicate.graph_ops.checks import batch_check

v1 = tf.compat.v1


@final
@dataclasses.dataclass(frozen=True)
class BaselinePart:
    """A bias of zeros at first.

    Attributes:
      weight_key: Feature with the weights of examples, whose size is not looked at; or None.
    """

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
