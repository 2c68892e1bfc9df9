"""Registration of dense layers, of scale and shift, and of blocks that a program defines itself."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import fisher_blocks
from kfac.fisher_blocks import FullyConnectedKFACBasicFB, NaiveFullFB, SingleFactorBlock
from kfac.fisher_blocks.dense import DenseForm
from kfac.fisher_factors import MatrixFactor, Moment

v1 = tf.compat.v1


@pytest.fixture
def weight(graph):
    return v1.get_variable("fc/w", [3, 2])


def test_default_approximation(collection, weight):
    collection.set_default_fully_connected_approximation("diagonal")
    collection.register_fully_connected(weight, tf.ones([4, 3]), tf.ones([4, 2]), reuse=None)
    (block,) = collection.get_blocks()
    assert isinstance(block, fisher_blocks.FullyConnectedDiagonalFB)
    with pytest.raises(ValueError, match="already in LayerCollection"):
        collection.register_fully_connected(weight, tf.ones([4, 3]), tf.ones([4, 2]), reuse=None)


def test_errors(collection, weight):
    once, several = collection.register_fully_connected, collection.register_fully_connected_multi
    ids, outputs = tf.constant([0, 2]), tf.ones([2, 2])
    x, s = [tf.ones([4, 3])] * 3, [tf.ones([4, 2])] * 2
    rows = weight, tf.ones([20, 3]), tf.ones([4, 5, 2])
    of_ids = [
        *((once, (weight, ids, outputs, a, False)) for a in ("kron", "kron_out_diag", "diagonal")),
        *(
            (several, (weight, [ids] * 2, [outputs] * 2, None, approx, False))
            for approx in ("kron_indep", "kron_indep_out_diag", "kron_series_1")
        ),
    ]
    for register, arguments in of_ids:
        with pytest.raises(ValueError, match=r"layer 'fc/w': approx=.*dense_inputs=False.*in_diag"):
            register(*arguments)
    pair = weight, v1.get_variable("fc/b", [2])
    for call, message in (
        (lambda: several(weight, x, s), "layer 'fc/w': num_uses=2, and its tensors tell 3"),
        (lambda: several(weight, x[0], s[0]), "num_uses=None.*tell None"),
        (lambda: several(*rows, unordered=True), "'fc/w' with unordered=True: num_uses="),
        (lambda: several(*rows, 5, "kron_series_1", unordered=True), "unordered=True: num_uses="),
        (
            lambda: collection.register_generic(pair, 4),
            "'fc/w': 2 parameters together with approx='diagonal'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            call()
    assert not collection.fisher_blocks
    several(*rows, num_uses=5, unordered=True)
    assert collection.fisher_blocks[weight].settings[0] == 5


def test_ids_get_a_diagonal_input_factor(collection):
    first, second, third = (v1.get_variable(name, [3, 2]) for name in ("a", "b", "c"))
    ids, outputs = tf.constant([0, 2]), tf.ones([2, 2])
    several = collection.register_fully_connected_multi
    collection.register_fully_connected(first, ids, outputs, dense_inputs=False)
    several(second, [ids] * 2, [outputs] * 2, dense_inputs=False)
    collection.set_default_fully_connected_multi_approximation("kron_indep_out_diag")
    several(third, [ids] * 2, [outputs] * 2, dense_inputs=False)
    form = DenseForm(diagonal_input=True, dense_inputs=False)
    assert [block.settings for block in collection.get_blocks()] == [
        (form,),
        (2, form),
        (2, DenseForm(diagonal_input=True, diagonal_output=True, dense_inputs=False)),
    ]


def test_scale_and_shift_have_a_full_block(collection):
    x = tf.ones([4, 3])
    scale, other = v1.get_variable("scale", [3]), v1.get_variable("other", [3])
    collection.register_scale_and_shift(scale, x, x)
    collection.register_layer_norm(other, x, x)
    assert [type(b) for b in collection.get_blocks()] == [fisher_blocks.ScaleAndShiftFullFB] * 2


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


def test_a_step_with_a_block_of_ones_own_in_two_towers(graph, session):
    random = np.random.RandomState(0)
    x, y = random.randn(6, 3), np.array([0, 1, 0, 1, 1, 0])
    layers, losses = kfac.LayerCollection(), []
    for tower, rows in enumerate((slice(2), slice(2, 6))):
        with v1.variable_scope("", reuse=tower > 0):
            weight = v1.get_variable("weight", [3, 2], tf.float64, v1.ones_initializer())
            inputs, labels = tf.constant(x[rows]), tf.constant(y[rows])
            logits = inputs @ weight
            layers.register_block(WholeDenseFB(layers, weight), inputs, logits)
            layers.register_softmax_cross_entropy_loss(logits, targets=labels, name="loss")
        losses.append(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        1,
        learning_rate=0.5,
        damping=0.1,
        layer_collection=layers,
        momentum=None,
        estimation_mode="empirical",
    )
    train = optimizer.minimize(tf.reduce_sum(tf.concat(losses, axis=0)) / 6)
    session.run(v1.global_variables_initializer())
    session.run(train)
    g = 0.5 - np.eye(2)[y]  # Equal logits.
    rows = (x[:, :, None] * g[:, None, :]).reshape(6, 6)
    step = np.linalg.solve(rows.T @ rows / 6 + 0.1 * np.eye(6), rows.mean(0))
    np.testing.assert_allclose(session.run(weight), 1 - 0.5 * step.reshape(3, 2), rtol=1e-6)
    assert layers.describe() == {"weight": "full 6x6"}


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
