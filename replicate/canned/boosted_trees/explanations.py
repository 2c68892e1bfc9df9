"""Explanations of trees: which features they split by, and what each adds to a prediction.

A prediction is the bias, the value of the first root, and the changes along the path through each
tree. A change counts for the feature of the split. References: Saabas (2014), "Interpreting random
forests"; Palczewska et al. (2013), "Interpreting random forest models using a feature contribution
method", arXiv:1312.1121.
"""

import collections
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.boosted_trees.ensemble import LEAF, Ensemble, next_nodes
from replicate.canned.boosted_trees.model import TreeModel
from replicate.spec import EstimatorSpec

BIAS = "bias"
CONTRIBUTIONS = "dfc"


def feature_importances(
    nodes: np.ndarray, gains: np.ndarray, names: Sequence[str], normalize: bool
) -> "collections.OrderedDict[str, float]":
    """Returns the sum of the gains of the splits by each column, the largest first.

    Args:
      nodes: As `Ensemble.nodes`.
      gains: As `Ensemble.gains`.
      names: Name of the column of each feature.
      normalize: True to divide by the sum of all.

    Raises:
      ValueError: They cannot be normalized: there is no split, or a sum is negative.
    """
    is_split = nodes[:, 0] != LEAF
    sums = np.bincount(nodes[is_split, 0], gains[is_split], minlength=len(names))
    if normalize:
        if np.any(sums < 0):
            raise ValueError(
                "Cannot normalize the feature importances: that of a feature is negative, "
                f"{sums.min()}. Call experimental_feature_importances(normalize=False)."
            )
        if not sums.sum() > 0:
            raise ValueError(
                "Cannot normalize the feature importances: no tree has a split that gains "
                "anything. Train longer, or with less regularization."
            )
        sums = sums / sums.sum()
    return by_column(names, sums)


def by_column(names: Sequence[str], values: np.ndarray) -> "collections.OrderedDict[str, Any]":
    """Returns the sums over features of values by the names of their columns.

    The largest absolute value comes first.
    """
    sums: dict[str, Any] = {}
    for name, value in zip(names, values, strict=True):
        sums[name] = sums.get(name, 0) + value
    ordered = sorted(sums.items(), key=lambda item: abs(item[1]), reverse=True)
    return collections.OrderedDict(ordered)


def explaining_model_fn(
    model: TreeModel, activation: Callable[[Tensor], Tensor]
) -> Callable[..., EstimatorSpec]:
    """Returns a model_fn for PREDICT whose predictions have two more keys.

    These are `BIAS` [batch] and `CONTRIBUTIONS` [batch, features].

    Args:
      model: The model, with one logit.
      activation: Function from logits to what the contributions add up to.
    """

    def model_fn(features: Mapping[str, Any], mode: str) -> EstimatorSpec:
        trees = model.trained(features)
        spec = trees.spec(None, mode)
        bias, contributions = _explained(trees.ensemble, trees.buckets, activation)
        more = {BIAS: bias, CONTRIBUTIONS: contributions}
        return EstimatorSpec(mode, {**spec.predictions, **more})

    return model_fn


def _explained(
    ensemble: Ensemble, buckets: Tensor, activation: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor]:
    """Returns the bias [batch] and the contribution of each feature [batch, features]."""
    batch, count = tf.shape(buckets)[0], tf.shape(buckets)[1]
    values = ensemble.values[:, 0]

    def descend(node: Tensor, before: Tensor, logit: Tensor, found: Tensor) -> tuple[Tensor, ...]:
        following = next_nodes(ensemble, buckets, node[:, tf.newaxis])[:, 0]
        new = tf.where(tf.equal(following, node), logit, before + tf.gather(values, following))
        change = activation(new) - activation(logit)
        feature = tf.gather(ensemble.nodes[:, 0], node)
        return following, before, new, found + tf.one_hot(feature, count) * change[:, tf.newaxis]

    def through_tree(tree: Tensor, logit: Tensor, found: Tensor) -> tuple[Tensor, ...]:
        root = tf.fill([batch], ensemble.roots[tree])
        # The bias is the value of the first root, which the paths through its tree begin with.
        before = tf.where(tree > 0, logit, 0.0)
        _, _, logit, found = tf.while_loop(
            lambda node, *_: tf.reduce_any(tf.gather(ensemble.nodes[:, 0], node) > LEAF),
            descend,
            (root, before, logit, found),
            parallel_iterations=1,
        )
        return tree + 1, logit, found

    bias = tf.fill([batch], values[0])
    _, _, contributions = tf.while_loop(
        lambda tree, *_: tree < tf.size(ensemble.roots),
        through_tree,
        (tf.constant(0), bias, tf.zeros([batch, count])),
        parallel_iterations=1,
    )
    return activation(bias), contributions
