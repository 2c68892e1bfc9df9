"""Updates chained by hand: the same steps as the periodic class, and inverses in turn."""

import itertools

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


def run(make_train_op, steps):
    """Returns the weights and the inverses of both factors after each step."""
    with tf.Graph().as_default(), v1.Session() as session:
        weights, loss, settings = problem()
        optimizer, train_op = make_train_op(loss, settings, v1.train.get_global_step())
        session.run(v1.global_variables_initializer())
        inverses = [v.read_value() for (v,) in optimizer.get_inv_vars()]
        watched = [weights.read_value(), inverses]
        seen = []
        for _ in range(steps):
            session.run(train_op)
            seen.append(session.run(watched))
        return seen


def by_hand(loss, settings, step):
    optimizer = kfac.KfacOptimizer(**settings)
    return optimizer, kfac_by_hand.minimize(optimizer, loss, step, invert_every=2)


def periodic(loss, settings, step):
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(invert_every=2, **settings)
    return optimizer, optimizer.minimize(loss, global_step=step)


def in_turn(loss, settings, step):
    optimizer = kfac.KfacOptimizer(**settings)
    return optimizer, kfac_by_hand.minimize_in_turn(optimizer, loss, step)


def changed(before, after):
    return [not np.array_equal(x, y) for x, y in zip(before, after, strict=True)]


def check_progress(steps):
    separation = [weights[0, 1] - weights[0, 0] for weights, _ in steps]
    assert separation[-1] > separation[0]


def test_by_hand_makes_the_steps_of_the_periodic_class():
    steps = run(by_hand, 5)
    for ours, theirs in zip(steps, run(periodic, 5), strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    inverses = [inverse for _, inverse in steps]
    moves = [any(changed(*pair)) for pair in itertools.pairwise(inverses)]
    assert moves == [False, True, False, True]
    check_progress(steps)


def test_first_step_computes_all_inverses_and_later_steps_one():
    steps = run(in_turn, 5)
    inverses = [inverse for _, inverse in steps[:4]]
    assert len(inverses[0]) == 2
    assert all(np.any(inverse) for inverse in inverses[0])
    turns = [changed(*pair) for pair in itertools.pairwise(inverses)]
    assert turns == [[False, True], [True, False], [False, True]]
    check_progress(steps)
