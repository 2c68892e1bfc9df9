import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

X = np.random.RandomState(0).randn(60, 8).astype(np.float32)
Y = np.argmax(X[:, :3], axis=1)
STEPS = 12


def logits_of(images):
    w1 = v1.get_variable("w1", [8, 20], initializer=v1.glorot_uniform_initializer(1))
    w2 = v1.get_variable("w2", [20, 3], initializer=v1.glorot_uniform_initializer(2))
    return tf.matmul(tf.tanh(tf.matmul(images, w1)), w2)


def mean_loss(logits, labels):
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def train(make):
    """Trains with what `make(layers)` returns; returns losses, and λ at the end."""
    with tf.Graph().as_default(), v1.variable_scope("model", use_resource=True):
        layers = kfac.graph_layer_collection()
        logits = logits_of(tf.constant(X))
        layers.register_categorical_predictive_distribution(logits)
        layers.auto_register_layers()
        loss = mean_loss(logits, Y)
        optimizer = make(layers)
        step = optimizer.minimize(loss)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, step])[0] for _ in range(STEPS)]
            return losses, session.run(optimizer.damping)


@pytest.mark.parametrize(
    "behavior", ["v2", pytest.param("v1", marks=pytest.mark.broad)], indirect=True
)
def test_chosen_settings(behavior):
    def loss_fn(batch):
        with v1.variable_scope(v1.get_variable_scope(), reuse=True):
            return mean_loss(logits_of(batch[0]), batch[1])

    def by_hand(layers):
        return kfac.PeriodicInvCovUpdateKfacOpt(
            layer_collection=layers,
            momentum_type="qmodel",
            learning_rate=None,
            momentum=None,
            adapt_damping=True,
            damping=1.0,
            calibrate_damping=True,
            min_damping=1e-3,
            damping_adaptation_decay=0.9,
            damping_adaptation_interval=1,
            rejection_rho_threshold=0.0,
            loss_fn=loss_fn,
            train_batch=(tf.constant(X), Y),
            invert_every=5,
        )

    expected, damping = train(by_hand)
    losses, found = train(kfac.adaptive)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert found == pytest.approx(damping, rel=1e-4)
    assert losses[-1] < losses[0] / 10


def test_collection_of_the_graph_and_other_settings():
    def make(layers):
        del layers
        return kfac.adaptive(
            damping=1.0,
            period=2,
            momentum_type="regular",
            learning_rate=0.1,
            momentum=0.9,
            calibrate_damping=False,
        )

    losses, damping = train(make)
    assert losses[-1] < losses[0]
    assert damping != 1.0


def test_period_of_zero_is_refused(graph):
    with pytest.raises(ValueError, match="invert_every"):
        kfac.adaptive(kfac.LayerCollection(), period=0)
