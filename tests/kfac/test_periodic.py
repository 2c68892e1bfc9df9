import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


def make(network, **kwargs):
    settings = {"learning_rate": 0.1, "damping": 0.3, "estimation_mode": "empirical"}
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=network.collection, **{**settings, **kwargs}
    )


@pytest.mark.parametrize("use_resource", [True, False])
def test_schedule(build_network, session, batch, use_resource):
    """Averages change at steps 0, 2, 4, 6, inverses at 0, 3, 6, both before the step itself."""
    network = build_network(use_resource=use_resource)
    with v1.variable_scope("", use_resource=use_resource):
        optimizer = make(network, invert_every=3, cov_update_every=2)
        train = optimizer.minimize(network.losses[0])
    averages = [factor.get_cov_vars()[0] for factor in optimizer.factors]
    inverses = [factor.get_inv_vars()[0] for factor in optimizer.factors]
    session.run(v1.global_variables_initializer())
    changed = []
    for _ in range(7):
        before = session.run([averages, inverses, network.variables])
        session.run(train, network.feed([batch[0]], [batch[1]]))
        after = session.run([averages, inverses, network.variables])
        changed.append(
            tuple(
                all((old != new).any() for old, new in zip(*pair, strict=True))
                for pair in zip(before, after, strict=True)
            )
        )
    expected = [(step % 2 == 0, step % 3 == 0, True) for step in range(7)]
    assert changed == expected


@pytest.mark.parametrize(
    ("every", "use_resource"),
    [((1, 1), True), ((2, 1), False), ((1, 2), True), ((2, 2), False), ((2, 2), True)],
)
def test_inverses_come_from_averages_of_the_same_step(
    build_network, session, batch, every, use_resource
):
    network = build_network(dtype="float64", use_resource=use_resource)
    with v1.variable_scope("", use_resource=use_resource):
        optimizer = make(network, invert_every=every[0], cov_update_every=every[1])
        train = optimizer.minimize(network.losses[0])
    session.run(v1.global_variables_initializer())
    session.run(train, network.feed([batch[0]], [batch[1]]))
    a, g = (session.run(factor.cov) for factor in optimizer.factors[2:])
    pi = np.sqrt((np.trace(a) / len(a)) / (np.trace(g) / len(g)))
    expected = np.linalg.inv(a + pi * 0.3**0.5 * np.eye(len(a)))
    found = session.run(optimizer.factors[2].get_inv_vars()[0])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("every", "weight"), [(1, 1 + 0.5 + 0.25), (2, 1 + 0.25)])
def test_decay_is_per_step(build_network, session, batch, every, weight):
    network = build_network()
    optimizer = make(network, cov_update_every=every, cov_ema_decay=0.5)
    train = optimizer.minimize(network.losses[0])
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run(train, network.feed([batch[0]], [batch[1]]))
    assert session.run(optimizer.factors[0].get_cov_vars()[1]) == weight


def test_fifty_runs_through_apply_gradients_over_two_towers(build_network, session, batch):
    network = build_network(2)
    optimizer = make(network, estimation_mode="gradients")
    step = v1.train.get_or_create_global_step()
    train = optimizer.apply_gradients(network.mean_gradients(optimizer), step)
    feed = network.feed(*(np.split(a, 2) for a in batch))
    session.run(v1.global_variables_initializer())
    first = np.mean(session.run(network.losses, feed))
    for _ in range(50):
        session.run(train, feed)
    assert session.run([optimizer.counter, step, optimizer.skipped_steps]) == [50, 50, 0]
    assert np.mean(session.run(network.losses, feed)) < first / 10


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("every", [1, 2])
def test_both_behaviors_of_tensorflow(behavior, build_network, session, batch, every, use_resource):
    """Also with an image size that is not static; dimensions of shapes are objects in v1."""
    network = build_network(2, use_resource=use_resource, size=None)
    with v1.variable_scope("", use_resource=use_resource):
        optimizer = make(network, invert_every=every, cov_update_every=every)
        train = optimizer.apply_gradients(network.mean_gradients(optimizer))
    feed = network.feed(*(np.split(a, 2) for a in batch))
    session.run(v1.global_variables_initializer())
    first = np.mean(session.run(network.losses, feed))
    for _ in range(10):
        session.run(train, feed)
    assert np.mean(session.run(network.losses, feed)) < first / 2
    assert session.run(optimizer.counter) == 10
    assert network.collection.describe()["conv/b"] == "kron 19x19 (x) 4x4"


def test_update_op_alone(build_network, session, batch):
    network = build_network()
    optimizer = make(network)
    update = optimizer.kfac_update_ops()
    session.run(v1.global_variables_initializer())
    before = session.run(network.variables)
    session.run(update, network.feed([batch[0]], [batch[1]]))
    for old, new in zip(before, session.run(network.variables), strict=True):
        np.testing.assert_array_equal(old, new)
    assert session.run(optimizer.factors[0].get_inv_vars()[0]).any()


def test_uncovered_variable_is_named_before_anything_is_built(build_network):
    network = build_network()
    scale = v1.get_variable("scale", initializer=1.0)
    with pytest.raises(ValueError, match=r"cannot train scale: no layer"):
        make(network).minimize(network.losses[0] * scale)
    assert not network.collection.is_final


@pytest.mark.parametrize("argument", ["invert_every", "cov_update_every"])
@pytest.mark.parametrize("value", [0, -1, 2.5])
def test_bad_periods(graph, argument, value):
    with pytest.raises(ValueError, match=f"{argument}={value}.*int of at least 1"):
        kfac.PeriodicInvCovUpdateKfacOpt(**{argument: value})


@pytest.mark.parametrize("decay", [-0.5, 1.5, float("nan")])
def test_decay_is_checked_before_it_is_raised(graph, decay):
    with pytest.raises(ValueError, match=r"cov_ema_decay=.*in .0, 1."):
        kfac.PeriodicInvCovUpdateKfacOpt(cov_update_every=2, cov_ema_decay=decay)


def test_kinds_of_variables_train_alike(build_network, batch):
    """Bit by bit: a read that saw an assignment of the same step would draw other targets."""
    weights = []
    for use_resource in (True, False):
        with tf.Graph().as_default(), v1.Session() as session:
            network = build_network(1, use_resource=use_resource)
            with v1.variable_scope("", use_resource=use_resource):
                optimizer = make(network, estimation_mode="gradients", invert_every=1)
                train = optimizer.minimize(network.losses[0])
            session.run(v1.global_variables_initializer())
            for _ in range(10):
                session.run(train, network.feed([batch[0]], [batch[1]]))
            weights.append(session.run(network.variables))
    for resource, reference in zip(*weights, strict=True):
        np.testing.assert_array_equal(resource, reference)
