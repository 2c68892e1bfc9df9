import collections
import warnings

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


@pytest.mark.parametrize(("use_resource", "mode"), [(True, "empirical"), (False, "gradients")])
def test_steps_equal_updates_run_one_after_another(build_mlp, rows, use_resource, mode):
    """Averages change at steps 0, 2, 4, 6, inverses at 0, 3, 6, both before the step itself.

    A step without a due inverse runs beside the averages and must not see them. Nor may what draws
    the targets see an assignment of the same step.
    """
    found = []
    for is_periodic in (True, False):
        with tf.Graph().as_default(), v1.Session() as session:
            is_resource = use_resource or not is_periodic
            network = build_mlp(use_resource=is_resource, layers=1)
            given = {"learning_rate": 0.1, "damping": 0.3, "estimation_mode": mode}
            with v1.variable_scope("", use_resource=is_resource):
                if is_periodic:
                    periods = {"invert_every": 3, "cov_update_every": 2, "cov_ema_decay": 0.5}
                    optimizer = network.periodic(**given, **periods)
                else:
                    # The decay is that of a step, two of which are between two updates.
                    given |= {"cov_ema_decay": 0.5**2, "momentum_type": "adam"}
                    optimizer = kfac.KfacOptimizer(layer_collection=network.collection, **given)
                    updates = optimizer.make_ops_and_vars()
                train = network.start(session, optimizer)
            for step in range(8):
                if not is_periodic:
                    session.run([] if step % 2 else updates.cov_update, network.share(rows))
                    session.run([] if step % 3 else updates.inv_update, network.share(rows))
                session.run(train, network.share(rows))
            estimator = optimizer._estimator
            variables = network.variables, estimator.cov_variables, estimator.inv_variables
            found.append(session.run(variables))
    for name, *pair in zip(("weights", "averages", "inverses"), *found, strict=True):
        for ours, theirs in zip(*pair, strict=True):
            if ours.dtype == np.float64:
                np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize(
    ("approx", "settings", "waits"),
    [
        ("kron", {"spread_inverses": True}, False),
        ("kron", {"adapt_damping": True, "momentum_type": "regular"}, True),
        ("kron", {"adapt_damping": True, "momentum_type": "adam"}, False),
        ("kron", {"adapt_damping": True, "calibrate_damping": True}, True),
        ("diagonal", {}, True),
        ("ekfac", {}, True),
    ],
)
def test_a_step_waits_for_averages_that_it_reads(graph, approx, settings, waits):
    collection = kfac.LayerCollection()
    x = v1.placeholder(tf.float32, [None, 3])
    weights = v1.get_variable("w", [3, 2])
    logits = tf.matmul(x, weights)
    collection.register_fully_connected(weights, x, logits, approx=approx)
    collection.register_normal_predictive_distribution(logits)
    if "adapt_damping" in settings:
        adapted = {"loss_fn": tf.reduce_mean, "train_batch": x, "damping_adaptation_interval": 10}
        settings = {**settings, **adapted}
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        learning_rate=0.1, damping=0.3, layer_collection=collection, **settings
    )
    train = optimizer.minimize(tf.reduce_mean(logits**2))
    steps = [op for op in graph.get_operations() if op.name.startswith("KFAC/step/")]
    assert waits_for(steps, is_update) is waits
    assert waits_for(steps, is_average) is waits
    assert waits_for([train], is_update)


def is_update(op):
    """Returns whether it updates an average."""
    return op.name.startswith("KFAC/fisher/update_averages/Assign")


def is_average(op):
    return op.type == "VarHandleOp" and op.name.endswith("/cov")


def waits_for(ops, is_meant):
    """Returns whether an op waits for a matching one in steps without a due inverse."""
    seen, left = set(), list(ops)
    while left:
        op = left.pop()
        if is_meant(op):
            return True
        if op not in seen and op.type != "Merge" and "/update_inverses" not in op.name:
            left += [*op.control_inputs, *(tensor.op for tensor in op.inputs)]
        seen.add(op)
    return False


def in_branch(step):
    return tf.cond(v1.placeholder_with_default(True, []), step, lambda: tf.constant(0))


def in_loop(step):
    return tf.while_loop(lambda i: i < 1, lambda i: i + step(), [tf.constant(0)])


@pytest.mark.parametrize("where", [in_branch, in_loop])
def test_a_step_may_be_in_a_branch_or_loop(build_mlp, rows, where):
    """Of control flow version 2, whose insides are graphs of functions."""
    found = []
    for place in (lambda step: step(), where):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            network = build_mlp(layers=1)
            optimizer = network.periodic(invert_every=2, estimation_mode="exact")

            def step(network=network, optimizer=optimizer):
                with v1.control_dependencies([optimizer.minimize(network.losses[0])]):
                    return tf.constant(1)

            train = place(step)
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train, network.share(rows))
            found.append(session.run([*network.variables, optimizer.counter]))
            if place is where:
                assert any(op.type in ("If", "While") for op in graph.get_operations())
                with pytest.raises(ValueError, match=r"two branches of tf\.cond, or two traces of"):
                    in_branch(step)
    for plain, inside in zip(*found, strict=True):
        np.testing.assert_allclose(inside, plain, rtol=1e-12)


@pytest.mark.parametrize("behavior", ["v1"], indirect=True)
def test_behavior_of_tensorflow_1(behavior, build_network, session, batch):
    """Also with an image size that is not static; dimensions of shapes are objects in v1."""
    network = build_network(2, use_resource=False, size=None)
    with v1.variable_scope("", use_resource=False):
        optimizer = network.periodic(invert_every=2, cov_update_every=2)
        train = optimizer.apply_gradients(network.mean_gradients(optimizer))
    feed = network.share(batch)
    session.run(v1.global_variables_initializer())
    first = np.mean(session.run(network.losses, feed))
    for _ in range(10):
        session.run(train, feed)
    assert np.mean(session.run(network.losses, feed)) < first / 2
    assert session.run(optimizer.counter) == 10
    assert network.collection.describe()["conv/b"] == "kron 19x19 (x) 4x4"


def test_the_period_of_inverses_may_change(build_mlp, session, rows):
    network = build_mlp(layers=1)
    period = v1.get_variable("period", initializer=2, trainable=False)
    optimizer = network.periodic(invert_every=lambda: period + 0)
    update = optimizer.kfac_update_ops()
    advance = v1.assign_add(optimizer.counter, 1)
    inverse = optimizer.factors[0].inv_variables[0]
    session.run(v1.global_variables_initializer())
    changed, weights = [], session.run(network.variables)
    for step in range(8):
        if step == 4:
            session.run(period.assign(3))
        before = session.run(inverse)
        session.run(update, network.share(rows))
        changed.append((session.run(inverse) != before).any())
        session.run(advance)
    assert [step for step in range(8) if changed[step]] == [0, 2, 6]
    # The update alone moves no weight.
    tf.nest.map_structure(np.testing.assert_array_equal, weights, session.run(network.variables))


def executed(session, fetch, feed):
    """Returns the number of ops of each kind that ran."""
    metadata = v1.RunMetadata()
    options = v1.RunOptions(trace_level=v1.RunOptions.SOFTWARE_TRACE, output_partition_graphs=True)
    session.run(fetch, feed, options, metadata)
    kinds = {n.name: n.op for g in metadata.partition_graphs for n in g.node}
    nodes = [n.node_name for d in metadata.step_stats.dev_stats for n in d.node_stats]
    return collections.Counter(kinds.get(name) for name in nodes)


def test_a_step_at_which_nothing_is_due_computes_nothing_more(build_mlp, session, rows):
    """Than one of an optimizer that never refreshes its curvature."""
    network = build_mlp(layers=1)
    feed = network.share(rows)
    with v1.variable_scope("periodic"):
        optimizer = network.periodic(
            invert_every=3, cov_update_every=3, estimation_mode="gradients"
        )
        train = optimizer.minimize(network.losses[0])
        only_step = super(type(optimizer), optimizer).apply_gradients(
            optimizer.compute_gradients(network.losses[0])
        )
    session.run(v1.global_variables_initializer())
    heavy = ("MatMul", "PartitionedCall", "Random", "Softmax")  # Inverses are functions.

    def work(fetch):
        counts = executed(session, fetch, feed)
        return {k: n for k, n in counts.items() if k and any(part in k for part in heavy)}

    due, off = work(train), work(train)
    assert off == work(only_step)
    assert due["StatefulPartitionedCall"] > off.get("StatefulPartitionedCall", 0)
    assert sum(due.values()) > sum(off.values())


def test_warns_where_damping_and_inverses_are_out_of_step(build_network):
    network = build_network()
    settings = {"adapt_damping": True, "loss_fn": lambda _: network.losses[0]}
    with pytest.warns(UserWarning, match="adapts its damping every 5 steps, but inverts every 10"):
        network.periodic(damping_adaptation_interval=5, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        network.periodic(damping_adaptation_interval=20, **settings)
        network.periodic(damping_adaptation_interval=1, rejection_rho_threshold=0.0, **settings)
        network.periodic(damping_adaptation_interval=5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"invert_every": 0}, "invert_every=0.*int of at least 1"),
        ({"cov_update_every": 2.5}, "cov_update_every=2.5.*int of at least 1"),
        ({"num_burnin_steps": True}, "num_burnin_steps=True.*int of at least 1"),
        ({"cov_update_every": 2, "cov_ema_decay": float("nan")}, r"cov_ema_decay=nan.*in .0, 1."),
        ({"invert_every": lambda: 3, "spread_inverses": True}, "invert_every=.*int of at least 1"),
    ],
)
def test_bad_settings(graph, settings, message):
    given = {"learning_rate": 0.1, "damping": 0.1, "layer_collection": kfac.LayerCollection()}
    with pytest.raises(ValueError, match=message):
        kfac.PeriodicInvCovUpdateKfacOpt(**given, **settings)
