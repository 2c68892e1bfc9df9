"""Estimators of boosted trees: BoostedTreesClassifier, BoostedTreesRegressor and their kin.

docs/howto/canned.md explains the arguments that the canned estimators share.
"""

import collections
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate._types import Path, Tensor
from replicate.canned.boosted_trees.explanations import (
    BIAS,
    CONTRIBUTIONS,
    by_column,
    explaining_model_fn,
    feature_importances,
)
from replicate.canned.boosted_trees.features import make_features
from replicate.canned.boosted_trees.model import SCOPE, TreeModel
from replicate.canned.boosted_trees.settings import TreeSettings
from replicate.canned.canned_model import on_devices
from replicate.canned.columns.column_kinds import Column
from replicate.canned.heads import BinaryClassHead, MultiClassHead, RegressionHead
from replicate.canned.heads.reductions import SUM_OVER_BATCH_SIZE
from replicate.estimator.estimator import Estimator
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig

_BY_NONZERO_WEIGHTS = tf.compat.v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS
_CLASS_HEADS = (BinaryClassHead, MultiClassHead)


class BoostedTrees(Estimator):
    """Estimator of boosted trees under some head; base of those with names."""

    def __init__(
        self,
        head: Any,
        feature_columns: Iterable[Column],
        settings: TreeSettings,
        weight_column: Any,
        model_dir: Path | None,
        config: RunConfig | None,
    ) -> None:
        """Makes the estimator.

        Raises:
          ValueError: The settings do not go with the head, or trees cannot split by a column.
          TypeError: A column is not a feature column.
        """
        units = head.logits_dimension
        if units > 1 and settings.center_bias:
            raise ValueError(
                f"center_bias needs one logit, and the head has {units}: n_classes must be 2, or "
                "label_dimension 1. Leave center_bias out."
            )
        if units > 1 and settings.l1:
            log.warning(
                "l1_regularization is without effect on trees with %d logits: it is for one.", units
            )
        features = make_features(feature_columns, settings.num_quantiles)
        self._tree_model = TreeModel(head, features, settings, weight_column)
        model_fn = functools.partial(self._tree_model.model_fn)  # A method takes no marks.
        super().__init__(on_devices(model_fn, head, None), model_dir, config)

    def experimental_feature_importances(
        self, normalize: bool = False
    ) -> "collections.OrderedDict[str, float]":
        """Returns the gain of all splits by each feature column, the largest first.

        Args:
          normalize: True to divide by their sum.

        Raises:
          ValueError: Nothing was trained yet, or the gains cannot be normalized.
        """
        nodes, gains = (self.get_variable_value(f"{SCOPE}/{name}") for name in ("nodes", "gains"))
        return feature_importances(nodes, gains, self._tree_model.features.names, normalize)

    def experimental_predict_with_explanations(
        self,
        input_fn: Callable[..., Any],
        predict_keys: Sequence[str] | None = None,
        hooks: Any = None,
        checkpoint_path: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Yields predictions with the contribution of each feature column.

        Args:
          input_fn: As for `predict`.
          predict_keys: As for `predict`. The two keys below are there in any case.
          hooks: As for `predict`.
          checkpoint_path: As for `predict`.

        Yields:
          Predictions of an example, and "bias", the prediction of the first root: the mean label,
          or the probability of class 1; and "dfc", an ordered dict from the name of each column to
          what it adds to the bias, the largest first. All of them add up to the prediction.

        Raises:
          ValueError: The estimator was made without center_bias, has several logits, or its head
            has a link function.
        """
        model = self._tree_model
        _check_explicable(model)
        is_classifier = isinstance(model.head, _CLASS_HEADS)
        activation = tf.sigmoid if is_classifier else tf.identity
        explaining = Estimator(explaining_model_fn(model, activation), self.model_dir, self.config)
        keys = None if predict_keys is None else [*predict_keys, BIAS, CONTRIBUTIONS]
        predictions = explaining.predict(input_fn, keys, hooks, checkpoint_path)
        names = model.features.names
        return (
            {**each, CONTRIBUTIONS: by_column(names, each[CONTRIBUTIONS])} for each in predictions
        )


def _check_explicable(model: TreeModel) -> None:
    """Raises ValueError unless contributions to a prediction are defined."""
    reason = None
    if not model.settings.center_bias:
        reason = "the estimator was made without center_bias=True"
    elif model.head.logits_dimension > 1:
        reason = f"the head has {model.head.logits_dimension} logits, not one"
    elif not isinstance(model.head, _CLASS_HEADS) and _has_link(model.head):
        reason = "the head has a link function, so predictions are not sums of contributions"
    if reason is not None:
        raise ValueError(f"Cannot explain predictions: {reason}.")


def _has_link(head: Any) -> bool:
    predictions: Callable[..., dict[str, Tensor]] = head.predictions
    with tf.Graph().as_default():
        return "logits" in predictions(tf.zeros([1, 1]))


class BoostedTreesClassifier(BoostedTrees):
    """Classifies examples by boosted decision trees."""

    def __init__(
        self,
        feature_columns: Iterable[Column],
        n_batches_per_layer: int,
        model_dir: Path | None = None,
        n_classes: int = 2,
        weight_column: Any = None,
        label_vocabulary: Sequence[str] | None = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        """Checks the arguments; builds nothing.

        Args:
          feature_columns: Numeric, bucketized, indicator and categorical columns. A categorical one
            has one id for each example.
          n_batches_per_layer: Batches whose statistics decide on a layer of splits, ≥ 1: those of
            the whole data, as a rule.
          model_dir: Directory of checkpoints and event files; None as for `Estimator`.
          n_classes: Number of classes, ≥ 2.
          weight_column: Key of the feature with the weights, or a numeric column; None: all are 1.
          label_vocabulary: Names of the classes if labels are strings; None: labels are class ids.
          n_trees: Trees after which training stops by itself.
          max_depth: Layers of splits in each tree.
          learning_rate: Factor of the values of new leaves.
          l1_regularization: Penalty of the absolute values of leaves; for one logit only.
          l2_regularization: Penalty of the squared values of leaves.
          tree_complexity: Gain that a split must exceed; positive with pruning, else 0.
          min_node_weight: Smallest second derivative of the loss for which a node is split. This
            and the penalties are per example: the statistics are means over a batch.
          config: Settings of the runs, None for the defaults.
          center_bias: True to begin with the best constant prediction; for one logit.
          pruning_mode: "none"; "pre" to leave out splits that gain too little; "post" to remove
            them from finished trees, from the leaves on.
          quantile_sketch_epsilon: Share of the examples between the quantiles that bucket numeric
            columns. Their first n_batches_per_layer batches are only looked at for that.
          train_in_memory: True if each batch is the whole data, in the same order. Finished trees
            are then not computed again.

        Raises:
          ValueError: An argument is out of range, or trees cannot split by a column.
          TypeError: An argument is of the wrong kind.
        """
        settings = _settings(
            n_batches_per_layer, n_trees, max_depth, learning_rate, l1_regularization,
            l2_regularization, tree_complexity, min_node_weight, center_bias, pruning_mode,
            quantile_sketch_epsilon, train_in_memory,
        )  # fmt: skip
        head = _classifier_head(n_classes, weight_column, label_vocabulary)
        super().__init__(head, feature_columns, settings, weight_column, model_dir, config)


class BoostedTreesRegressor(BoostedTrees):
    """Predicts numbers by boosted decision trees."""

    def __init__(
        self,
        feature_columns: Iterable[Column],
        n_batches_per_layer: int,
        model_dir: Path | None = None,
        label_dimension: int = 1,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
        train_in_memory: bool = False,
    ) -> None:
        """Checks the arguments; builds nothing.

        The arguments are those of `BoostedTreesClassifier`, but with `label_dimension`, the numbers
        per label, ≥ 1, in place of classes.

        Raises:
          ValueError: An argument is out of range, or trees cannot split by a column.
          TypeError: An argument is of the wrong kind.
        """
        settings = _settings(
            n_batches_per_layer, n_trees, max_depth, learning_rate, l1_regularization,
            l2_regularization, tree_complexity, min_node_weight, center_bias, pruning_mode,
            quantile_sketch_epsilon, train_in_memory,
        )  # fmt: skip
        head = RegressionHead(label_dimension, weight_column)
        super().__init__(head, feature_columns, settings, weight_column, model_dir, config)


class BoostedTreesEstimator(BoostedTrees):
    """Trains boosted decision trees under a head of the user's choice."""

    def __init__(
        self,
        feature_columns: Iterable[Column],
        n_batches_per_layer: int,
        head: Any,
        model_dir: Path | None = None,
        weight_column: Any = None,
        n_trees: int = 100,
        max_depth: int = 6,
        learning_rate: float = 0.1,
        l1_regularization: float = 0.0,
        l2_regularization: float = 0.0,
        tree_complexity: float = 0.0,
        min_node_weight: float = 0.0,
        config: RunConfig | None = None,
        center_bias: bool = False,
        pruning_mode: str = "none",
        quantile_sketch_epsilon: float = 0.01,
    ) -> None:
        """Checks the arguments; builds nothing.

        The head is one such as `replicate.MultiClassHead`, or one of your own whose loss has second
        derivatives. `weight_column` weights the quantiles of numeric columns; give it to the head,
        too. The other arguments are those of `BoostedTreesClassifier`.

        Raises:
          ValueError: An argument is out of range, or trees cannot split by a column.
          TypeError: An argument is of the wrong kind.
        """
        settings = _settings(
            n_batches_per_layer, n_trees, max_depth, learning_rate, l1_regularization,
            l2_regularization, tree_complexity, min_node_weight, center_bias, pruning_mode,
            quantile_sketch_epsilon, False,
        )  # fmt: skip
        super().__init__(head, feature_columns, settings, weight_column, model_dir, config)


def _settings(
    n_batches_per_layer: int,
    n_trees: int,
    max_depth: int,
    learning_rate: float,
    l1_regularization: float,
    l2_regularization: float,
    tree_complexity: float,
    min_node_weight: float,
    center_bias: bool,
    pruning_mode: str,
    quantile_sketch_epsilon: float,
    train_in_memory: bool,
) -> TreeSettings:
    """Returns the arguments that all classes share, as settings."""
    return TreeSettings(
        n_batches_per_layer=n_batches_per_layer,
        n_trees=n_trees,
        max_depth=max_depth,
        learning_rate=learning_rate,
        l1=l1_regularization,
        l2=l2_regularization,
        tree_complexity=tree_complexity,
        min_node_weight=min_node_weight,
        center_bias=center_bias,
        pruning_mode=pruning_mode,
        quantile_sketch_epsilon=quantile_sketch_epsilon,
        train_in_memory=train_in_memory,
    )


def _classifier_head(
    n_classes: int, weight_column: Any, label_vocabulary: Sequence[str] | None
) -> Any:
    """Returns the head of a classifier, with the loss and areas of tf.estimator's trees."""
    if n_classes == 2:
        return BinaryClassHead(
            weight_column,
            label_vocabulary=label_vocabulary,
            loss_reduction=SUM_OVER_BATCH_SIZE,
            auc_summation_method="trapezoidal",
        )
    return MultiClassHead(
        n_classes, weight_column, label_vocabulary, loss_reduction=_BY_NONZERO_WEIGHTS
    )
