import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.damping.recomputed_loss import recomputed
from kfac.state import value_if

v1 = tf.compat.v1

X = np.random.RandomState(0).randn(12, 5).astype(np.float32)
Y = np.argmax(X[:, :3], axis=1)


def mean_loss(logits, labels):
    return tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )


def after_update(loss, variable, change):
    """Returns loss before, and after adding `change`: computed in a branch that waits for it."""
    with v1.control_dependencies([loss]):
        updated = v1.assign_add(variable, change)
    with v1.control_dependencies([updated]):
        condition = tf.identity(tf.constant(True))
        after = value_if(condition, lambda: recomputed([loss], [variable])[0], tf.constant(-1.0))
    return loss, after


def weight(shape, value=0.5):
    return v1.get_variable(
        "w", shape, initializer=tf.constant_initializer(value), use_resource=True
    )


def run(fetches, feed=None):
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(fetches, feed)


def test_same_batch_with_the_new_weights(graph):
    x = v1.placeholder(tf.float32, [None, 5])
    w = weight([5, 2])
    loss = tf.reduce_sum(tf.square(tf.matmul(x, w)))
    before, after = run(after_update(loss, w, tf.ones([5, 2])), {x: X})
    assert before == pytest.approx(np.sum((X @ np.full([5, 2], 0.5)) ** 2), rel=1e-5)
    assert after == pytest.approx(np.sum((X @ np.full([5, 2], 1.5)) ** 2), rel=1e-5)


def test_input_is_read_once_and_dropout_drawn_once(graph):
    data = tf.data.Dataset.from_tensor_slices(X).batch(4, drop_remainder=False)
    iterator = v1.data.make_initializable_iterator(data)
    w = weight([5, 2])
    kept = tf.nn.dropout(tf.matmul(iterator.get_next(), w), rate=0.5)
    before, after = after_update(tf.reduce_sum(kept), w, tf.fill([5, 2], 0.5))
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), iterator.initializer])
        for _ in range(3):
            session.run(v1.assign(w, tf.fill([5, 2], 0.5)))
            first, second = session.run([before, after])
            assert second == pytest.approx(2 * first, rel=1e-5)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(before)


def test_branches_and_functions_of_the_model(graph):
    @tf.function
    def square(x):
        return tf.square(x)

    w = weight([])
    doubled = tf.cond(tf.constant(1) > 0, lambda: 2 * w, lambda: w)
    assert run(after_update(square(doubled), w, 1.0)) == (1.0, 9.0)


def test_loss_that_does_not_depend_on_the_variables(graph):
    w = weight([])
    loss = tf.constant(3.0)
    assert recomputed([loss], [w])[0] is loss


def test_draw_that_depends_on_variables_is_refused(graph):
    w = weight([3])
    noise = v1.random_uniform(tf.cast(w, tf.int32))
    with pytest.raises(ValueError, match=r"RandomUniform.*draws numbers.*Pass a function.*loss_fn"):
        recomputed([tf.reduce_sum(noise)], [w])


def test_loop_of_control_flow_v1_is_refused(graph):
    if v1.control_flow_v2_enabled():
        pytest.skip("loops are functions in control flow v2")
    w = weight([])
    _, total = tf.while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t + w), (0, 0.0))
    with pytest.raises(ValueError, match="belongs to a loop of control flow v1"):
        recomputed([total], [w])


def train(towers, **settings):
    """Trains with an adapting damping; returns weights, λ and ρ after four steps."""
    layers = kfac.LayerCollection()
    batches = []
    losses = []
    for tower in range(towers):
        rows = slice(tower * 12 // towers, (tower + 1) * 12 // towers)
        images, labels = tf.constant(X[rows]), tf.constant(Y[rows])
        with v1.variable_scope("model", reuse=tower > 0):
            logits = logits_of(images)
        layers.register_categorical_predictive_distribution(logits, name="l", reuse=tower > 0)
        losses.append(mean_loss(logits, labels) / towers)
        batches.append((images, labels))
    layers.auto_register_layers()
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=layers,
        learning_rate=0.1,
        damping=0.1,
        momentum=0.9,
        adapt_damping=True,
        damping_adaptation_interval=2,
        invert_every=2,
        estimation_mode="exact",
        **settings,
    )
    if "loss_fn" in settings:
        for batch in batches:
            with v1.variable_scope("model"):
                optimizer.add_tower_batch(batch)
    step = optimizer.minimize(tf.add_n(losses))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for _ in range(4):
            session.run(step)
        return session.run([*v1.trainable_variables(), optimizer.damping, optimizer.rho])


def logits_of(images):
    w = v1.get_variable(
        "w", [5, 3], initializer=v1.glorot_uniform_initializer(3), use_resource=True
    )
    b = v1.get_variable("b", [3], initializer=tf.zeros_initializer(), use_resource=True)
    return tf.matmul(images, w) + b


@pytest.mark.parametrize("towers", [1, 2])
def test_damping_adapts_as_with_a_function_of_the_batch(towers):
    def loss_fn(batch):
        return mean_loss(logits_of(batch[0]), batch[1])

    with tf.Graph().as_default():
        expected = train(towers, loss_fn=loss_fn)
    with tf.Graph().as_default():
        found = train(towers)
    assert expected[-2] != pytest.approx(0.1)
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-5)
