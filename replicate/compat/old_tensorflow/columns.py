"""DenseFeatures: the layer of feature columns, which Keras 3 no longer has."""

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.columns.input_layer import converted

v1 = tf.compat.v1


class _DenseFeatures:
    """Dense feature columns side by side, in the order of their names.

    Each call shares the variables, NAME/input_layer/COLUMN/embedding_weights.
    """

    def __init__(
        self,
        feature_columns: Sequence[Any],
        trainable: bool = True,
        name: str | None = None,
        partitioner: Any = None,
    ) -> None:
        """Stores columns of `tf.feature_column`, and the settings of their variables."""
        self._columns = list(feature_columns)
        self._trainable = trainable
        self._partitioner = partitioner
        self._name = name
        self._scope: Any = None

    def __call__(
        self,
        features: Mapping[str, Any],
        cols_to_output_tensors: dict[Any, Tensor] | None = None,
        training: bool | None = None,
    ) -> Tensor:
        """Returns the columns' vectors, [batch, elements of all columns].

        Args:
          features: Features by key.
          cols_to_output_tensors: Dict that gets the vectors of each column.
          training: Not used.
        """
        del training
        scope = self._scope or v1.variable_scope(
            self._name, "dense_features", partitioner=self._partitioner
        )
        reuse = self._scope is not None
        with v1.variable_scope(scope, reuse=True) if reuse else scope as self._scope:
            return v1.feature_column.input_layer(
                converted(features),
                self._columns,
                trainable=self._trainable,
                cols_to_output_tensors=cols_to_output_tensors,
            )


DenseFeatures: Any = getattr(v1.keras.layers, "DenseFeatures", _DenseFeatures)
"""Keras's own layer where tf-keras is in the place of Keras."""
