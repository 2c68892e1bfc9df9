"""Gradients of compute_gradients are told from others, whatever was computed from them."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradient_origins import COMPUTED, ComputedGradients, computed_gradients, origins_of
from replicate.loss_scale import DynamicLossScale, LossScaling
from replicate.tower_optimizer import TowerOptimizer
from replicate.towers import TowerContext

v1 = tf.compat.v1


@pytest.fixture
def gradients(graph):
    """A dense gradient that is registered, a sparse one that is, and one from elsewhere."""
    dense = v1.placeholder(tf.float32, [3])
    sparse = tf.IndexedSlices(v1.placeholder(tf.float32, [2, 4]), tf.constant([0, 1]))
    computed = ComputedGradients()
    computed.register([dense, None, sparse])
    return computed, dense, sparse, v1.placeholder(tf.float32, [3])


def are_computed(computed, *tensors):
    return [bool(found) for found in origins_of([(t, None) for t in tensors], computed).scalings]


def test_registered_gradients_are_found_without_a_search(gradients):
    computed, dense, sparse, _ = gradients
    origins = origins_of([(dense, None), (sparse, None), (None, None)], computed)
    assert origins.scalings == [[None], [None], []]
    assert origins.derived is None


@pytest.mark.parametrize(
    "change",
    [
        tf.identity,
        lambda g: g / 2.0,
        lambda g: tf.clip_by_norm(g, 1.0),
        lambda g: tf.cond(tf.reduce_sum(g) > 0.0, lambda: g, lambda: -g),
        lambda g: tf.numpy_function(np.sign, [g], tf.float32),
        lambda g: tf.while_loop(lambda x: tf.norm(x) > 1.0, lambda x: (x / 2.0,), [g])[0],
    ],
)
def test_changed_gradients_are_followed(gradients, change):
    computed, dense, sparse, other = gradients
    assert are_computed(computed, change(dense), change(sparse.values), change(other)) == [
        True,
        True,
        False,
    ]


def test_slices_are_followed_when_they_become_dense(gradients):
    computed, _, sparse, _ = gradients
    dense = tf.convert_to_tensor(
        tf.IndexedSlices(sparse.values, sparse.indices, tf.constant([5, 4]))
    )
    assert are_computed(computed, dense) == [True]


def test_common_clipping_does_not_mix_origins(gradients):
    computed, dense, sparse, other = gradients
    clipped, _ = tf.clip_by_global_norm([dense, sparse, other], 1.0)
    assert are_computed(computed, *clipped) == [True, True, False]


def test_towers_have_gradients_of_their_own(graph):
    first, second = (TowerContext(index, 2, "/cpu:0") for index in range(2))
    gradient = tf.zeros([2])
    computed_gradients(first).register([gradient])
    assert computed_gradients(first).registers(gradient)
    assert not computed_gradients(second).registers(gradient)
    assert not computed_gradients(None).registers(gradient)


def test_scaling_of_the_loss_is_found(graph):
    scaling = LossScaling(DynamicLossScale())
    scaled, plain = tf.zeros([2]), tf.zeros([2])
    computed = ComputedGradients()
    computed.register([scaled], scaling)
    computed.register([plain])
    found = origins_of([(2.0 * scaled, None), (plain, None), (scaled + plain, None)], computed)
    assert found.scalings == [[scaling], [None], [scaling, None]]


def test_registered_gradients_are_not_exported(graph):
    weight = v1.get_variable("weight", initializer=1.0)
    TowerOptimizer(v1.train.AdamOptimizer(0.1)).minimize(weight * 2.0)
    assert v1.get_collection(COMPUTED)
    meta = v1.train.export_meta_graph()
    assert not [key for key in meta.collection_def if "computed" in key]
