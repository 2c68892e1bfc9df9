"""A block that a program defines itself."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import FullyConnectedKFACBasicFB, NaiveFullFB, SingleFactorBlock
from kfac.fisher_factors import MatrixFactor, Moment

v1 = tf.compat.v1


class WholeDenseFactor(MatrixFactor):
    def __init__(self, tensors, size, devices, name, config=None):
        super().__init__(tensors, devices, name, config)
        self._size = size

    @property
    def dimension(self):
        return self._size

    def _tower_moment(self, tensors):
        x, g = tensors
        rows = tf.reshape(x[:, :, tf.newaxis] * g[:, tf.newaxis, :], [-1, self._size])
        return Moment(tf.matmul(rows, rows, transpose_a=True), tf.shape(rows)[0])


class WholeDenseFB(SingleFactorBlock):
    settings = ()
    is_diagonal = False

    def _make_factor(self, grads_list):
        args = self._inputs_and_gradients(grads_list), self.size, self.devices
        return self.factor_maker.make_or_get_factor(WholeDenseFactor, args, name=self.name)


def build(towers, features, labels):
    """Registers a dense layer with the block in each tower; returns the collection and the loss."""
    layers, losses = kfac.LayerCollection(), []
    cuts = np.array_split(np.arange(len(features)), towers)
    for tower, rows in enumerate(cuts):
        with v1.variable_scope("", reuse=tower > 0):
            weight = v1.get_variable("weight", [3, 2], tf.float64, v1.ones_initializer())
            x = tf.constant(features[rows])
            logits = x @ weight
            layers.register_block(WholeDenseFB(layers, weight), x, logits)
            y = tf.constant(labels[rows])
            layers.register_softmax_cross_entropy_loss(logits, targets=y, name="loss")
        of_examples = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=logits)
        losses.append(tf.reduce_sum(of_examples) / len(features))
    return layers, weight, tf.add_n(losses)


@pytest.mark.parametrize("towers", [1, 2])
def test_a_step_with_a_block_of_ones_own(graph, session, towers):
    random = np.random.RandomState(0)
    x, y = random.randn(6, 3), np.array([0, 1, 0, 1, 1, 0])
    layers, weight, loss = build(towers, x, y)
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        1,
        learning_rate=0.5,
        damping=0.1,
        layer_collection=layers,
        momentum=None,
        estimation_mode="empirical",
    )
    train = optimizer.minimize(loss)
    session.run(v1.global_variables_initializer())
    session.run(train)
    g = 0.5 - np.eye(2)[y]  # Equal logits.
    rows = (x[:, :, None] * g[:, None, :]).reshape(6, 6)
    step = np.linalg.solve(rows.T @ rows / 6 + 0.1 * np.eye(6), rows.mean(0))
    np.testing.assert_allclose(session.run(weight), 1 - 0.5 * step.reshape(3, 2), rtol=1e-6)
    assert layers.describe() == {"weight": "full 6x6"}


def test_towers_must_agree(graph):
    layers = kfac.LayerCollection()
    weight, x = v1.get_variable("weight", [3, 2]), tf.zeros([6, 3])
    layers.register_block(WholeDenseFB(layers, weight), x, x @ weight)
    block = FullyConnectedKFACBasicFB(layers, weight)
    with pytest.raises(ValueError, match=r"registered as WholeDenseFB.*now as Fully"):
        layers.register_block(block, x, x @ weight, reuse=True)


def test_the_form_of_tensorflow_kfac(graph):
    layers = kfac.LayerCollection()
    weight, x = v1.get_variable("weight", [3, 2]), tf.zeros([6, 3])
    for kind in (FullyConnectedKFACBasicFB, NaiveFullFB, WholeDenseFB):
        with pytest.raises(TypeError, match=f"{kind.__name__} with True as .* no has_bias: write"):
            kind(layers, True)
    block = WholeDenseFB(layers, [weight])
    with pytest.raises(TypeError, match=r"is of type .*Variable.*register_block\(Block\(layer"):
        layers.register_block(weight, block, x)
    assert layers.get_blocks() == ()
    assert block.params == (weight,)


@pytest.mark.parametrize("name", ["loss", None])
def test_reuse_none_is_false(graph, name):
    layers = kfac.LayerCollection()
    weight, x = v1.get_variable("weight", [3, 2]), tf.zeros([6, 3])
    logits = x @ weight
    layers.register_fully_connected(weight, x, logits, reuse=None)
    layers.register_softmax_cross_entropy_loss(logits, name=name, reuse=None)
    with pytest.raises(ValueError, match="already in LayerCollection"):
        layers.register_fully_connected(weight, x, logits, reuse=None)
