"""K-FAC of canned estimators, on records made by hand; the real ones are in tests/conformance."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.canned import MAX_EXACT

v1 = tf.compat.v1

INPUTS = np.random.RandomState(0).randn(6, 3).astype("float32")
WEIGHTS = np.array([[1], [0], [2], [1], [0.5], [3]], "float32")


def variable(name, *shape):
    values = np.random.RandomState(len(name)).randn(*shape).astype("float32")
    return v1.get_variable(name, initializer=tf.constant(values))


def dense(inputs, kernel, bias=None):
    outputs = tf.matmul(inputs, kernel)
    if bias is not None:
        outputs = outputs + bias
    layer = SimpleNamespace(kind="dense", kernel=kernel, bias=bias, inputs=inputs, outputs=outputs)
    return outputs, layer


def loss_of(kind, logits, coefficient=1.0, weights=None, name=None):
    weights = tf.constant(1.0 if weights is None else weights)
    return SimpleNamespace(
        kind=kind, logits=logits, weights=weights, coefficient=coefficient, name=name
    )


def record(losses, layers, variables, reduction="sum_over_batch_size"):
    losses = None if losses is None else tuple(losses)
    return SimpleNamespace(
        losses=losses,
        layers=tuple(layers),
        variables=tuple(variables),
        loss_reduction=reduction,
        head="SomeHead",
        known_losses="some losses",
    )


def one_layer(kind="categorical", outputs=3, **of_loss):
    """The record of a dense layer on constant inputs."""
    kernel, bias = variable("kernel", 3, outputs), variable("bias", outputs)
    logits, layer = dense(tf.constant(INPUTS), kernel, bias)
    return record([loss_of(kind, logits, **of_loss)], [layer], [kernel, bias])


def averaged_once(session, optimizer, model):
    """Updates the averages, and returns the logits that they are of."""
    averages, _ = optimizer.make_vars_and_create_op_thunks()
    updates = [update() for update in averages]
    session.run(v1.global_variables_initializer())
    session.run(updates)
    return session.run(model.losses[0].logits)


def fisher(kind, logits):
    """Fisher matrices of the examples, [6, outputs, outputs]."""
    if kind == "squared_error":
        return np.stack([2 * np.eye(logits.shape[1])] * len(logits))
    if kind == "multi_bernoulli":
        p = 1 / (1 + np.exp(-logits))
        return np.stack([np.diag(each) for each in p * (1 - p)])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return np.stack([np.diag(each) - np.outer(each, each) for each in p])


@pytest.mark.parametrize(
    ("kind", "coefficient", "weights"),
    [
        ("categorical", 1.0, WEIGHTS),
        ("multi_bernoulli", 1 / 3, None),
        ("squared_error", 0.5, np.random.RandomState(1).rand(6, 3).astype("float32")),
    ],
)
def test_curvature_of_a_loss_is_its_fisher_matrix(kind, coefficient, weights, session):
    model = one_layer(kind, coefficient=coefficient, weights=weights)
    maker = kfac.for_canned(0.1, 0.1)
    maker.register(model)
    optimizer = maker()
    logits = averaged_once(session, optimizer, model)
    scale = coefficient * (1 if weights is None else weights[:, :, None])
    of_inputs, of_outputs = session.run([factor.cov for factor in optimizer.factors])
    expected = (scale * fisher(kind, logits)).mean(axis=0)
    np.testing.assert_allclose(of_outputs, expected, rtol=2e-5, atol=1e-7)
    rows = np.concatenate([INPUTS, np.ones([6, 1])], axis=1)
    np.testing.assert_allclose(of_inputs, rows.T @ rows / 6, rtol=2e-5)


def test_kernels_of_a_sum_may_leave_the_bias_to_one_of_them(session):
    """As in a linear model of two columns; the steps are those of least squares."""
    first, second, bias = variable("first", 3, 2), variable("second", 3, 2), variable("bias", 2)
    one, of_first = dense(tf.constant(INPUTS), first)
    two, of_second = dense(tf.constant(INPUTS[::-1] ** 2), second)
    of_first.bias = bias
    logits = tf.nn.bias_add(v1.add_n([one, two]), bias)
    variables = [first, second, bias]
    model = record([loss_of("squared_error", logits, 0.5)], [of_first, of_second], variables)
    maker = kfac.for_canned(0.5, 1e-3, momentum=None, norm_constraint=None)
    maker.register(model)
    assert kfac.graph_layer_collection().describe() == {
        "first": "kron 4x4 (x) 2x2",
        "bias": "kron 4x4 (x) 2x2",
        "second": "kron 3x3 (x) 2x2",
    }
    loss = tf.reduce_mean((logits - INPUTS[:, :2]) ** 2)
    step = maker().minimize(loss)
    session.run(v1.global_variables_initializer())
    for _ in range(40):
        session.run(step)
    assert session.run(loss) < 1e-2


def test_curvature_is_exact_for_few_logits_and_sampled_for_many(session):
    errors = []
    for outputs in (MAX_EXACT, MAX_EXACT + 1):
        with tf.Graph().as_default(), v1.Session() as own:
            v1.set_random_seed(0)
            model = one_layer(outputs=outputs)
            maker = kfac.for_canned(0.1, 0.1)
            maker.register(model)
            optimizer = maker()
            logits = averaged_once(own, optimizer, model)
            found = own.run(optimizer.factors[1].cov)
        errors.append(np.abs(found - fisher("categorical", logits).mean(axis=0)).max())
    assert errors[0] < 1e-6
    assert errors[1] > 1e-3


def test_settings_reach_the_optimizer(graph, evaluate):
    maker = kfac.for_canned(
        lambda: v1.train.exponential_decay(0.5, 0, 10, 0.5),
        0.25,
        momentum=0.5,
        norm_constraint=None,
        config=kfac.CurvatureConfig(balance_damping=False),
    )
    maker.register(one_layer())
    optimizer = maker()
    assert not optimizer.layers.config.balance_damping
    assert (optimizer.damping, optimizer.momentum) == (0.25, 0.5)
    assert evaluate(optimizer.learning_rate) == 0.5
    optimizer = kfac.for_canned()()
    assert (optimizer.learning_rate, optimizer.damping, optimizer.momentum) == (0.1, 0.1, 0.9)


def test_default_updates_averages_and_inverses_every_tenth_step(session):
    """The average has the batches of steps 0 and 10, with weights 0.95^10 and 1."""
    kernel, bias = variable("kernel", 3, 2), variable("bias", 2)
    step = v1.train.get_or_create_global_step()
    inputs = tf.constant(INPUTS) * tf.cast(1 + step, tf.float32)
    logits, layer = dense(inputs, kernel, bias)
    maker = kfac.for_canned()
    maker.register(record([loss_of("squared_error", logits)], [layer], [kernel, bias]))
    optimizer = maker()
    train = optimizer.minimize(tf.reduce_mean(logits**2), step)
    session.run(v1.global_variables_initializer())

    def moment(scale):
        rows = np.concatenate([INPUTS * scale, np.ones([6, 1])], axis=1)
        return rows.T @ rows / 6

    factor = optimizer.factors[0]
    for number in range(11):
        session.run(train)
        if number == 9:
            np.testing.assert_allclose(session.run(factor.cov), moment(1), rtol=1e-5)
    weight = 0.95**10
    expected = (moment(11) + weight * moment(1)) / (1 + weight)
    np.testing.assert_allclose(session.run(factor.cov), expected, rtol=1e-5)


def test_adaptive_undoes_a_step_that_raises_the_loss(session):
    """From a damping that is too small, some steps would raise the loss; it never rises."""
    kernel, hidden = variable("kernel", 3, 8), variable("hidden", 8, 3)
    net, first = dense(tf.constant(INPUTS), kernel)
    logits, second = dense(tf.sin(3 * net), hidden)
    labels = tf.constant([0, 2, 1, 0, 1, 2])
    maker = kfac.for_canned(adaptive=True, damping=0.1)
    maker.register(record([loss_of("categorical", logits)], [first, second], [kernel, hidden]))
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    optimizer = maker()
    train = optimizer.minimize(loss)
    session.run(v1.global_variables_initializer())
    losses = []
    for _ in range(30):
        losses.append(session.run(loss))
        session.run(train)
    changes = np.diff(losses)
    assert changes.max() <= 1e-6
    assert 0 < np.count_nonzero(changes == 0) < len(changes) / 2
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"damping": -1.0}, "damping=-1.0"),
        ({"learning_rate": None}, "learning_rate=None"),
        ({"estimation_mode": "empirical"}, "estimation_mode='empirical'"),
        ({"invert_every": 0}, "invert_every=0"),
        ({"adaptive": True, "learning_rate": 0.2}, "learning_rate=0.2 does not go with adaptive"),
        ({"adaptive": True, "momentum": 0.5}, "momentum=0.5 does not go with adaptive=True"),
        ({"adaptive": True, "norm_constraint": tf.abs}, "Leave out norm_constraint or adaptive"),
        ({"adaptive": True, "damping": -2.0}, "damping=-2.0"),
    ],
)
def test_wrong_settings_are_told_at_once(arguments, message, graph):
    with pytest.raises(ValueError, match=message):
        kfac.for_canned(**({"learning_rate": 0.1, "damping": 0.1} | arguments))
    assert graph.get_operations() == []


def test_unknown_losses_are_refused_with_the_way_to_register_them(graph):
    with pytest.raises(
        ValueError,
        match=r"loss of SomeHead .*known for some losses\. .*layers\.auto_register_layers\(\)",
    ):
        kfac.for_canned(0.1, 0.1).register(record(None, [], []))
    with pytest.raises(ValueError, match="no model is registered in this graph"):
        kfac.for_canned(0.1, 0.1)()


def test_sums_and_means_by_weights_are_refused(graph):
    maker, model = kfac.for_canned(0.1, 0.1), one_layer(weights=WEIGHTS)
    for reduction, message in (
        ("sum", "'sum'.* SUM_OVER_BATCH_SIZE|sum"),
        ("weighted_sum", "weighted_sum"),
        ("weighted_mean", "'weighted_mean', with weights"),
        ("weighted_sum_by_nonzero_weights", "'weighted_sum_by_nonzero_weights', with weights"),
    ):
        model.loss_reduction = reduction
        with pytest.raises(ValueError, match=message):
            maker.register(model)
    model.losses[0].weights = tf.constant(1.0)
    maker.register(model)
    assert len(kfac.graph_layer_collection().losses) == 1
