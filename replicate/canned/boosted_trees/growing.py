"""Growth of an ensemble: a layer of splits, the end of a tree, pruning, and the first bias.

Each function returns new trees, and changes no variable.
"""

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.boosted_trees.ensemble import LEAF, Ensemble
from replicate.canned.boosted_trees.settings import TreeSettings
from replicate.canned.boosted_trees.splits import Splits, leaf_values

_LEAST_CHANGE = 0.01
"""Relative change of the bias below which it is left as it is."""


def with_layer(ensemble: Ensemble, splits: Splits, settings: TreeSettings) -> Ensemble:
    """Adds a layer to the last tree, and a new tree if it has all its layers.

    Args:
      ensemble: The trees.
      splits: Best splits of the nodes of the last layer.
      settings: Learning rate, depth and pruning.

    Returns:
      The trees; only `attempts` differs if no node can be split.
    """
    is_split = tf.math.is_finite(splits.gains)
    if settings.pruning_mode == "pre":
        is_split = tf.logical_and(is_split, splits.gains >= 0)
    start, end = ensemble.layer
    parents = tf.boolean_mask(tf.range(start, end), is_split)
    grown = _with_children(ensemble, parents, _masked(splits, is_split), settings)
    has_grown = tf.size(parents) > 0
    layers = ensemble.layers + tf.cast(has_grown, tf.int32)
    size = tf.shape(ensemble.nodes)[0]
    new_layer = tf.where(has_grown, [size, tf.shape(grown.nodes)[0]], [start, end])
    growth = tf.concat([[layers, ensemble.attempts + 1], new_layer], axis=0)
    grown = grown._replace(growth=growth)
    is_finished = tf.logical_and(has_grown, layers >= settings.max_depth)
    ended = tf.cond(is_finished, lambda: tuple(_ended(grown, settings)), lambda: tuple(grown))
    return Ensemble(*ended)


def _masked(splits: Splits, mask: Tensor) -> Splits:
    return Splits(*(tf.boolean_mask(each, mask) for each in splits))


def _with_children(
    ensemble: Ensemble, parents: Tensor, splits: Splits, settings: TreeSettings
) -> Ensemble:
    """Splits leaves, int32 [parents]."""
    size, count = tf.shape(ensemble.nodes)[0], tf.size(parents)
    left = size + 2 * tf.range(count)
    rows = tf.concat([splits.splits, left[:, tf.newaxis]], axis=1)
    places = parents[:, tf.newaxis]
    nodes = tf.tensor_scatter_nd_update(ensemble.nodes, places, rows)
    gains = tf.tensor_scatter_nd_update(ensemble.gains, places, splits.gains)
    new = tf.stack([splits.left, splits.right], axis=1) * settings.learning_rate
    new = new + tf.gather(ensemble.values, parents)[:, tf.newaxis]
    new = tf.reshape(new, [2 * count, tf.shape(ensemble.values)[1]])
    return ensemble._replace(
        nodes=tf.concat([nodes, _leaves(2 * count)], axis=0),
        gains=tf.concat([gains, tf.zeros([2 * count])], axis=0),
        values=tf.concat([ensemble.values, new], axis=0),
    )


def _leaves(count: Tensor | int) -> Tensor:
    """Returns rows of `Ensemble.nodes` for leaves."""
    return tf.tile(tf.constant([[LEAF, 0, 0, 0]]), [count, 1])


def _ended(ensemble: Ensemble, settings: TreeSettings) -> Ensemble:
    """Prunes the last tree, and begins a new one."""
    if settings.pruning_mode == "post":
        for _ in range(settings.max_depth):
            ensemble = _pruned_once(ensemble)
    root = tf.shape(ensemble.nodes)[0]
    units = tf.shape(ensemble.values)[1]
    return Ensemble(
        nodes=tf.concat([ensemble.nodes, _leaves(1)], axis=0),
        gains=tf.concat([ensemble.gains, [0.0]], axis=0),
        values=tf.concat([ensemble.values, tf.zeros([1, units])], axis=0),
        roots=tf.concat([ensemble.roots, [root]], axis=0),
        growth=tf.stack([0, ensemble.attempts, root, root + 1]),
    )


def _pruned_once(ensemble: Ensemble) -> Ensemble:
    """Makes leaves of splits with a negative gain whose children are leaves."""
    feature, left = ensemble.nodes[:, 0], ensemble.nodes[:, 3]
    last = tf.shape(ensemble.nodes)[0] - 1
    of_children = tf.gather(feature, left), tf.gather(feature, tf.minimum(left + 1, last))
    ends = tf.equal(tf.maximum(*of_children), LEAF)
    is_bad = tf.logical_and(feature > LEAF, ensemble.gains < 0)
    pruned = tf.logical_and(is_bad, ends)
    return ensemble._replace(
        nodes=tf.where(pruned[:, tf.newaxis], tf.constant([[LEAF, 0, 0, 0]]), ensemble.nodes),
        gains=tf.where(pruned, 0.0, ensemble.gains),
    )


def with_bias(
    ensemble: Ensemble, mean: Tensor, is_first: Tensor, settings: TreeSettings
) -> tuple[Ensemble, Tensor]:
    """Moves the value of the first root towards the best constant prediction.

    Args:
      ensemble: One tree, whose root is a leaf.
      mean: Mean gradient and Hessian of the examples, float32 [2].
      is_first: True at the first such step, boolean scalar.
      settings: Penalties.

    Returns:
      The trees, and True if another step should follow: this was the first one, or it changed the
      bias by more than 1 %.
    """
    step = leaf_values(mean, 1, settings).values
    bias = ensemble.values[0]
    continues = tf.logical_or(is_first, tf.abs(step / bias)[0] > _LEAST_CHANGE)
    values = tf.tensor_scatter_nd_add(ensemble.values, [[0]], step[tf.newaxis])
    return ensemble._replace(values=values), continues
