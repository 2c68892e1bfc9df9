"""Updates chained by hand: the same steps as the periodic class, and inverses in turn."""

import functools

import numpy as np
import tensorflow as tf

import kfac
from examples import kfac_by_hand

v1 = tf.compat.v1


def problem():
    """A batch that differs in each step, a layer, its collection and the loss."""
    step = v1.train.get_or_create_global_step()
    seed = tf.stack([tf.cast(step.read_value(), tf.int32), 7])
    inputs = tf.random.stateless_normal([12, 3], seed)
    labels = tf.cast(inputs[:, 0] > 0, tf.int32)
    weights = v1.get_variable("weights", initializer=np.eye(3, 2, dtype=np.float32))
    logits = inputs @ weights
    layers = kfac.LayerCollection()
    layers.register_fully_connected(weights, inputs, logits)
    layers.register_categorical_predictive_distribution(logits, seed=1)
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    settings = {"learning_rate": 0.1, "damping": 0.1, "layer_collection": layers}
    return weights, tf.reduce_mean(losses), {**settings, "estimation_mode": "exact"}


def run(steps, make_train_op, optimizer_class=kfac.KfacOptimizer, **more):
    """Returns the weights after each step, and which of the two inverses each step changed."""
    with tf.Graph().as_default(), v1.Session() as session:
        weights, loss, settings = problem()
        optimizer = optimizer_class(**settings, **more)
        train_op = make_train_op(optimizer, loss, v1.train.get_global_step())
        session.run(v1.global_variables_initializer())
        inverses = [v.read_value() for (v,) in optimizer.get_inv_vars()]
        seen, changed, before = [], [], session.run(inverses)
        for _ in range(steps):
            session.run(train_op)
            after = session.run(inverses)
            seen.append(session.run(weights.read_value()))
            changed.append([not np.array_equal(*pair) for pair in zip(before, after, strict=True)])
            before = after
        return seen, changed


def test_by_hand_makes_the_steps_of_the_periodic_class():
    by_hand, changed = run(5, functools.partial(kfac_by_hand.minimize, invert_every=2))
    periodic, _ = run(
        5,
        lambda optimizer, loss, step: optimizer.minimize(loss, global_step=step),
        kfac.PeriodicInvCovUpdateKfacOpt,
        invert_every=2,
    )
    np.testing.assert_allclose(by_hand, periodic, rtol=1e-5)
    assert [any(each) for each in changed] == [True, False, True, False, True]


def test_first_step_computes_all_inverses_and_later_steps_one():
    weights, changed = run(5, kfac_by_hand.minimize_in_turn)
    assert changed[:4] == [[True, True], [False, True], [True, False], [False, True]]
    assert weights[-1][0, 1] > weights[0][0, 1]
