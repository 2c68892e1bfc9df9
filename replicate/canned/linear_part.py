"""Linear models as parts of canned estimators, and `linear_logit_fn_builder`."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import tensorflow as tf

from replicate._types import Tensor, Variable
from replicate.canned.columns.column_kinds import Column, linear_columns
from replicate.canned.columns.linear_model import LinearModel, linear_model
from replicate.canned.partitioners import Partitioner, table_partitioner
from replicate.canned.parts import PartLogits, check_units, trainable_variables_in
from replicate.spec import ModeKeys

v1 = tf.compat.v1

COMBINERS = ("sum", "mean", "sqrtn")
"""Combinations of the weights of an example's ids."""


@final
@dataclasses.dataclass(frozen=True)
class LinearPart:
    """A linear model of feature columns, which `linear_columns` returned."""

    head_scope: ClassVar[str] = "linear"

    columns: Sequence[Column]
    sparse_combiner: str
    partitioner: Partitioner | None

    def build(self, features: Mapping[str, Any], units: int, mode: str, config: Any) -> PartLogits:
        """Builds the model below the scope "linear", as `Part.build`."""
        tables = table_partitioner(config, self.partitioner)
        with v1.variable_scope("linear", partitioner=tables) as scope:
            model = linear_model(features, self.columns, units, self.sparse_combiner)
        if mode == ModeKeys.TRAIN:
            with v1.name_scope(None):
                summarize(model, units)
        return PartLogits(model.logits, trainable_variables_in(scope.name), model.layers, [])


def make_linear_part(
    feature_columns: Iterable[Column],
    sparse_combiner: str,
    partitioner: Partitioner | None,
    prefix: str = "",
) -> LinearPart:
    """Returns a linear model, after checks. `prefix` begins the names of the caller's arguments.

    Raises:
      ValueError: The combiner is unknown, or a column is of a kind that linear models cannot take.
      TypeError: A column is not a feature column, or the partitioner is not a function.
    """
    if sparse_combiner not in COMBINERS:
        raise ValueError(
            f"{prefix}sparse_combiner must be one of {list(COMBINERS)}, got {sparse_combiner!r}."
        )
    if partitioner is not None and not callable(partitioner):
        raise TypeError(f"partitioner must be a function or None, got {partitioner!r}.")
    columns = linear_columns(f"{prefix}feature_columns", feature_columns)
    return LinearPart(columns, sparse_combiner, partitioner)


def linear_logit_fn_builder(
    units: int, feature_columns: Iterable[Column], sparse_combiner: str = "sum"
) -> Callable[[Mapping[str, Any]], Tensor]:
    """Returns a function that computes the logits of a linear model, for a model_fn.

    The variables are called linear_model/COLUMN/weights and linear_model/bias_weights, below the
    variable scope in which the function is called.

    Args:
      units: Logits per example.
      feature_columns: Feature columns, dense or categorical.
      sparse_combiner: Combination of the weights of an example's ids: "sum", "mean" or "sqrtn".

    Returns:
      fn(features) → Tensor [batch, units].

    Raises:
      ValueError: A setting is unknown, or a column is of a kind that linear models cannot take.
      TypeError: A column is not a feature column.
    """
    check_units(units)
    part = make_linear_part(feature_columns, sparse_combiner, None)

    def linear_logit_fn(features: Mapping[str, Any]) -> Tensor:
        model = linear_model(features, part.columns, units, part.sparse_combiner)
        summarize(model, units)
        return model.logits

    return linear_logit_fn


def summarize(model: LinearModel, units: int) -> None:
    """Writes the bias and the share of zeros among the weights."""
    bias = tf.convert_to_tensor(model.bias)
    if units == 1:
        v1.summary.scalar("bias", tf.reshape(bias, []))
    else:
        v1.summary.histogram("bias", bias)
    v1.summary.scalar("fraction_of_zero_weights", _fraction_of_zeros(model.weights))


def _fraction_of_zeros(variables: Sequence[Variable]) -> Tensor:
    values = [tf.reshape(tf.convert_to_tensor(variable), [-1]) for variable in variables]
    return tf.math.zero_fraction(tf.concat(values, axis=0))
