"""Ensemble of trees: its state in variables, and its predictions.

All nodes of all trees are rows of the same tensors. A new node comes at the end, so the nodes of a
layer are neighbours, and so are the two children of a split, the left one first. A pruned node
stays where it was, but no other leads to it.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from replicate._types import Operation, Tensor, Variable

v1 = tf.compat.v1

_ROWS = 1 << 20
"""Pairs of an example and a tree that are looked at side by side."""

LEAF = -1
"""Feature of a node that is not split."""


class Ensemble(NamedTuple):
    """Trees at the beginning or end of a step.

    Attributes:
      nodes: int32 [nodes, 4]: feature of the split, threshold, 1 if values equal to the threshold
        go left instead of those up to it, and left child.
      gains: float32 [nodes], gain of the split; 0 for leaves.
      values: float32 [nodes, logits], value of the node as a leaf.
      roots: int32 [trees]. The last tree is being grown.
      growth: int32 [4]: layers of the last tree; layers that training tried to add to all trees;
        first node of the last layer; node after its last one.
    """

    nodes: Tensor
    gains: Tensor
    values: Tensor
    roots: Tensor
    growth: Tensor

    @property
    def layers(self) -> Tensor:
        """Layers of splits in the last tree, int32 scalar."""
        return self.growth[0]

    @property
    def attempts(self) -> Tensor:
        """Layers that training tried to add, int32 scalar."""
        return self.growth[1]

    @property
    def layer(self) -> tuple[Tensor, Tensor]:
        """Range of the nodes that the next layer may split, two int32 scalars."""
        return self.growth[2], self.growth[3]

    @property
    def finished_trees(self) -> Tensor:
        """Number of trees that do not grow any more, int32 scalar."""
        return tf.size(self.roots) - 1


class EnsembleVariables(NamedTuple):
    """Variables of an ensemble, without static shapes because they grow."""

    variables: tuple[Variable, ...]

    def read(self) -> Ensemble:
        """Returns the trees as they are now."""
        nodes, gains, values, roots, growth = (each.read_value() for each in self.variables)
        return Ensemble(nodes, gains, values, roots, growth)

    def assign(self, ensemble: Ensemble) -> list[Operation]:
        """Returns the operations that keep other trees."""
        return assign_growing(self.variables, ensemble)


def create_ensemble(units: int) -> EnsembleVariables:
    """Makes the variables of an ensemble in the current scope: one tree, whose root is a leaf."""
    first = {
        "nodes": tf.constant([[LEAF, 0, 0, 0]]),
        "gains": tf.zeros([1]),
        "values": tf.zeros([1, units]),
        "roots": tf.constant([0]),
        "growth": tf.constant([0, 0, 0, 1]),
    }
    return EnsembleVariables(tuple(growing_variable(*each) for each in first.items()))


def growing_variable(name: str, initial: Tensor, **options: Any) -> Variable:
    """Makes a variable whose shape may change, besides its rank."""
    initial = v1.placeholder_with_default(initial, shape=[None] * initial.shape.rank)
    return v1.get_variable(
        name,
        initializer=initial,
        trainable=False,
        validate_shape=False,
        use_resource=True,
        **options,
    )


def assign_growing(variables: Any, values: Any) -> list[Operation]:
    """Returns operations that assign values of any shape to variables."""
    return [
        v1.assign(variable, value, validate_shape=False).op
        for variable, value in zip(variables, values, strict=True)
    ]


def is_left(split: Tensor, value: Tensor) -> Tensor:
    """Returns True where values go to the left child of splits, rows of `Ensemble.nodes`."""
    threshold = split[..., 1]
    return tf.where(split[..., 2] > 0, tf.equal(value, threshold), value <= threshold)


def next_nodes(ensemble: Ensemble, buckets: Tensor, nodes: Tensor) -> Tensor:
    """Returns the children to which examples go from nodes, or the nodes if they are leaves.

    Args:
      ensemble: The trees.
      buckets: Features, int32 [batch, features].
      nodes: int32 [batch, trees].
    """
    split = tf.gather(ensemble.nodes, nodes)
    feature = split[..., 0]
    value = tf.gather(buckets, tf.maximum(feature, 0), axis=1, batch_dims=1)
    child = split[..., 3] + tf.where(is_left(split, value), 0, 1)
    return tf.where(tf.equal(feature, LEAF), nodes, child)


def leaves(ensemble: Ensemble, buckets: Tensor, roots: Tensor) -> Tensor:
    """Returns the leaf of each example in each tree, int32 [batch, trees].

    Args:
      ensemble: The trees.
      buckets: Features, int32 [batch, features].
      roots: int32 [trees].
    """
    shape = [tf.shape(buckets)[0], tf.size(roots)]
    start = tf.broadcast_to(roots[tf.newaxis], shape)
    (found,) = tf.while_loop(
        lambda nodes: tf.reduce_any(tf.gather(ensemble.nodes[:, 0], nodes) > LEAF),
        lambda nodes: (next_nodes(ensemble, buckets, nodes),),
        (start,),
        shape_invariants=(tf.TensorShape([None, None]),),
        parallel_iterations=1,
    )
    return found


def summed_values(
    ensemble: Ensemble, buckets: Tensor, roots: Tensor, initial: Tensor | None = None
) -> Tensor:
    """Returns the sum over trees of the values of the leaves, float32 [batch, logits].

    Args:
      ensemble: The trees.
      buckets: Features, int32 [batch, features].
      roots: Roots of the trees, int32 [trees].
      initial: float32 [batch, logits], to which the sum is added; None for zeros.
    """
    batch = tf.shape(buckets)[0]
    units = tf.shape(ensemble.values)[1]
    if initial is None:
        initial = tf.zeros([batch, units])
    step = tf.maximum(_ROWS // tf.maximum(batch, 1), 1)

    def add(start: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        found = leaves(ensemble, buckets, roots[start : start + step])
        return start + step, total + tf.reduce_sum(tf.gather(ensemble.values, found), axis=1)

    _, total = tf.while_loop(
        lambda start, _: start < tf.size(roots),
        add,
        (tf.constant(0), initial),
        shape_invariants=(tf.TensorShape([]), tf.TensorShape([None, None])),
        parallel_iterations=1,
    )
    return total


def predicted_logits(ensemble: Ensemble, buckets: Tensor) -> Tensor:
    """Returns the logits of all trees, float32 [batch, logits]."""
    return summed_values(ensemble, buckets, ensemble.roots)
