"""Functions of `tf.contrib.estimator` that make boosted trees and train them on one batch."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from replicate.canned.boosted_trees.estimators import (
    BoostedTreesClassifier,
    BoostedTreesRegressor,
)


def boosted_trees_classifier_train_in_memory(
    train_input_fn: Callable[..., Any],
    feature_columns: Any,
    *args: Any,
    train_hooks: Any = None,
    **kwargs: Any,
) -> BoostedTreesClassifier:
    """Makes a `BoostedTreesClassifier` and trains it until all trees are there.

    Args:
      train_input_fn: Function that returns features and labels of the whole data as one batch, or
        a dataset of it, which is repeated.
      feature_columns: As for the class.
      *args: Its arguments from `model_dir` on, in the same order.
      train_hooks: Hooks for `train`.
      **kwargs: Its other arguments, besides n_batches_per_layer and train_in_memory.

    Raises:
      ValueError: An argument is out of range, or trees cannot split by a column.
      TypeError: An argument is of the wrong kind.
    """
    kwargs["train_in_memory"] = True
    made = BoostedTreesClassifier(feature_columns, 1, *args, **kwargs)
    made.train(_repeated(train_input_fn), hooks=train_hooks)
    return made


def boosted_trees_regressor_train_in_memory(
    train_input_fn: Callable[..., Any],
    feature_columns: Any,
    *args: Any,
    train_hooks: Any = None,
    **kwargs: Any,
) -> BoostedTreesRegressor:
    """Makes a `BoostedTreesRegressor` and trains it until all trees are there.

    The arguments are as for `boosted_trees_classifier_train_in_memory`.

    Raises:
      ValueError: An argument is out of range, or trees cannot split by a column.
      TypeError: An argument is of the wrong kind.
    """
    kwargs["train_in_memory"] = True
    made = BoostedTreesRegressor(feature_columns, 1, *args, **kwargs)
    made.train(_repeated(train_input_fn), hooks=train_hooks)
    return made


def _repeated(train_input_fn: Callable[..., Any]) -> Callable[[], Any]:
    """Returns an input_fn whose dataset does not end."""

    def input_fn() -> Any:
        found = train_input_fn()
        return found.repeat() if isinstance(found, tf.data.Dataset) else found

    return input_fn
