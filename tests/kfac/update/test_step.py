import itertools

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

TYPES = {
    "regular": {"learning_rate": 0.2, "momentum": 0.8},
    "adam": {"learning_rate": 0.2, "momentum": 0.8},
    "qmodel": {"learning_rate": None, "momentum": None},
    "qmodel_fixedmu": {"learning_rate": None, "momentum": 0.5},
}


def make(network, momentum_type="adam", **kwargs):
    settings = {"damping": 0.3, "estimation_mode": "empirical", **TYPES[momentum_type]}
    return kfac.PeriodicInvCovUpdateKfacOpt(
        layer_collection=network.collection,
        momentum_type=momentum_type,
        **{"invert_every": 1, **settings, **kwargs},
    )


def adapting(network, **kwargs):
    batch = {"train_batch": network.batch, "prev_train_batch": network.batch}
    settings = {"damping_adaptation_interval": 2, "damping_adaptation_decay": 0.5}
    return {"adapt_damping": True, "loss_fn": network.loss_of, **batch, **settings, **kwargs}


def state_of(session):
    variables = v1.global_variables()
    return dict(zip((v.op.name for v in variables), session.run(variables), strict=True))


def assert_equal(one, other, atol=0.0):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=atol, atol=atol, err_msg=name)


# Order.


def all_before(op, known):
    """Returns the ops that end before an op, which are also kept by op."""
    waiting = [op]
    while waiting:
        sources = {*(tensor.op for tensor in waiting[-1].inputs), *waiting[-1].control_inputs}
        missing = [source for source in sources if source not in known]
        if missing:
            waiting += missing
        else:
            known[waiting.pop()] = sources.union(*(known[source] for source in sources))
    return known


def writes(op, number, functions):
    """Returns True if an op changes the variable that is its input of a number."""
    if op.type != "StatefulPartitionedCall":
        return "Assign" in op.type or "Apply" in op.type
    function = functions[op.get_attr("f").name]
    name = function.signature.input_arg[number].name
    return any("Assign" in node.op and node.input[0] == name for node in function.node_def)


def uses_in_any_order(train):
    """Yields (variable, op, op) where one op writes a variable and the other uses its value."""
    functions = {f.signature.name: f for f in train.graph.as_graph_def().library.function}
    before, uses = all_before(train, {}), {}
    for op in before:
        for number, tensor in enumerate(op.inputs):
            if tensor.op.type == "VarHandleOp":
                use = op, writes(op, number, functions)
                uses.setdefault(tensor.op.name, []).append(use)
    for name, of_variable in uses.items():
        for (one, one_writes), (two, two_writes) in itertools.combinations(of_variable, 2):
            if (one_writes or two_writes) and one not in before[two] and two not in before[one]:
                yield name, one.name, two.name


@pytest.mark.parametrize(
    ("momentum_type", "settings"),
    [
        ("adam", {"cov_update_every": 2, "invert_every": 2}),
        ("regular", {"num_burnin_steps": 2, "spread_inverses": True, "invert_every": 3}),
        ("qmodel", {"adapt_damping": True, "rejection_rho_threshold": 0.0}),
        ("regular", {"adapt_damping": True, "calibrate_damping": True, "invert_every": 5}),
    ],
)
def test_what_writes_a_variable_has_a_place_among_all_its_uses(build_mlp, momentum_type, settings):
    network = build_mlp()
    optimizer = make(network, momentum_type, **settings)
    train = optimizer.minimize(network.losses[0])
    assert not list(uses_in_any_order(train))
    used = {op.name for op in all_before(train, {})}
    assert used.issuperset(v.op.name for v in optimizer.variables())


# Adaptation.


def test_adaptation_equals_numpy(build_mlp, session, rows):
    """λ, ρ and Δq at every step, from losses, gradients and velocities that are seen outside."""
    network = build_mlp()
    optimizer = make(
        network, **adapting(network, damping_increase_rho_threshold=0.7, dtype="float64")
    )
    gradients = optimizer.compute_gradients(network.losses[0])
    train = optimizer.apply_gradients(gradients)
    velocities = [optimizer.get_slot(v, "velocity") for v in network.variables]
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    damping, dampings = 0.3, set()
    for step in range(12):
        g, before, loss = session.run(
            [[g for g, _ in gradients], network.variables, network.losses[0]], feed
        )
        session.run(train, feed)
        v, after, new_loss = session.run([velocities, network.variables, network.losses[0]], feed)
        if step % 2:
            moves = [b - a for a, b in zip(before, after, strict=True)]
            # adam: ½α² rᵀv − α r·g, and −αr is the move.
            change = sum(
                np.sum(-0.2 * m * v / 2) + np.sum(m * g)
                for m, v, g in zip(moves, v, g, strict=True)
            )
            rho = (new_loss - loss) / change
            falls = rho > 0.75 or (new_loss < loss and change > 0)
            damping *= 0.25 if falls else 4.0 if rho < 0.7 else 1.0
            found = session.run([optimizer.rho, optimizer.qmodel_change])
            np.testing.assert_allclose(found, [rho, change], rtol=1e-9)
        assert session.run(optimizer.damping) == pytest.approx(damping, rel=1e-12)
        dampings.add(round(damping, 9))
    assert len(dampings) > 2


def test_inverses_see_the_damping_before_the_judgement_of_their_run(
    build_mlp, session, rows, damped_inverses
):
    """In tensorflow/kfac, too: what is judged later reaches the inverses a period later.

    The first step calibrates the damping by the mean curvature.
    """
    network = build_mlp(layers=1)
    arguments = adapting(network, update_damping_immediately=False, calibrate_damping=True)
    optimizer = make(network, **arguments)
    train = network.start(session, optimizer)
    dampings = []
    for step in range(4):
        session.run(train, network.share(rows))
        dampings.append(session.run(optimizer.damping))
        a, g = (session.run(factor.cov) for factor in optimizer.factors[:2])
        if step == 0:
            mean = np.trace(a) * np.trace(g) / (len(a) * len(g))
            assert dampings[0] == pytest.approx(0.3 * mean, rel=1e-6)
        damping = dampings[1 if step == 2 else step]
        expected, _ = damped_inverses([a, g], damping)
        found = session.run(optimizer.factors[0].inv_variables[0])
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert dampings[0] == dampings[1] != dampings[2] == dampings[3]


def test_rejected_step_leaves_everything_as_it_was(build_mlp, session, rows):
    network = build_mlp(layers=1)
    rate = v1.placeholder_with_default(0.2, [])
    optimizer = make(
        network,
        learning_rate=rate,
        cov_update_every=4,
        invert_every=4,
        **adapting(
            network,
            rejection_rho_threshold=0.0,
            damping_adaptation_interval=4,
        ),
    )
    train = network.start(session, optimizer)
    feed = network.share(rows)
    for _ in range(3):
        session.run(train, feed)
    before = state_of(session)
    session.run(train, {**feed, rate: 1000.0})
    after = state_of(session)
    assert after["kfac/rejected_steps"] == before["kfac/rejected_steps"] + 1 == 1
    assert after["kfac/damping"] == 16 * before["kfac/damping"]
    own = ("counter", "rejected_steps", "damping", "rho", "prev_loss", "qmodel_change")
    for name in own:
        assert before.pop(f"kfac/{name}") != after.pop(f"kfac/{name}")
    assert_equal(before, after)
    session.run(train, feed)
    assert session.run([optimizer.rejected_steps, optimizer.skipped_steps]) == [1, 0]
    assert (session.run(network.variables[0]) != before["mlp/logits/w"]).any()


@pytest.mark.parametrize(
    ("momentum_type", "use_resource"), [("regular", True), ("adam", False), ("qmodel", True)]
)
def test_non_finite_step_changes_nothing(
    graph, build_mlp, session, rows, momentum_type, use_resource
):
    network = build_mlp(use_resource=use_resource)
    if momentum_type == "qmodel":
        settings = adapting(network, damping_adaptation_interval=1)
    else:
        settings = {"use_weight_decay": True}
    train = network.start(session, make(network, momentum_type, **settings))
    if momentum_type != "qmodel":
        # Nothing that only makes a new vector needs a copy.
        assert not [op for op in graph.get_operations() if op.type == "DeepCopy"]
    for _ in range(2):
        session.run(train, network.share(rows))
    before = state_of(session)
    assert all(np.isfinite(value).all() for value in before.values())
    spoilt = rows[0].copy()
    spoilt[2, 1] = np.nan
    session.run(train, network.share((spoilt, rows[1])))
    after = state_of(session)
    for name in [n for n in before if n.endswith(("skipped_steps", "counter", "cov_refused"))]:
        assert after.pop(name) == before.pop(name) + 1, name
    kept = [n for n in before if "inverse" not in n and not n.endswith("sample_step")]
    assert_equal(*({name: state[name] for name in kept} for state in (before, after)))
    session.run(train, network.share(rows))
    moved = [n for n in kept if n.endswith(("KFAC", "/w", "/b"))]
    assert len(moved) == 8
    for name, value in state_of(session).items():
        assert name not in moved or (value != before[name]).any()


# Rows of tables.


def embedding(sparse_momentum, rows=50, **kwargs):
    table = v1.get_variable("table", initializer=np.ones([rows, 3]))
    v = v1.get_variable("v", initializer=np.arange(6.0).reshape(3, 2) / 6)
    ids = tf.constant([4, 7, 4, 9])
    looked_up = tf.nn.embedding_lookup(table, ids)
    logits = tf.matmul(looked_up, v)
    collection = kfac.LayerCollection()
    collection.register_fully_connected(
        table, ids, looked_up, dense_inputs=False, approx="kron_in_diag"
    )
    collection.register_fully_connected(v, looked_up, logits)
    labels = tf.constant([0, 1, 1, 0])
    collection.register_softmax_cross_entropy_loss(logits, targets=labels, name="loss")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=1,
        damping=0.1,
        layer_collection=collection,
        estimation_mode="empirical",
        **{"learning_rate": 0.1, "momentum": sparse_momentum, **kwargs},
    )
    return table, optimizer, optimizer.compute_gradients(loss)


def test_rows_of_a_table_stay_rows():
    """Without momentum nothing of the table's size is computed, and the step is the same."""
    found = []
    for sparse in (True, False):
        with tf.Graph().as_default() as graph, v1.Session() as session:
            table, optimizer, pairs = embedding(None, momentum_type="regular", norm_constraint=1e-3)
            assert isinstance(pairs[0][0], tf.IndexedSlices)
            if not sparse:
                pairs[0] = (tf.convert_to_tensor(pairs[0][0]), table)
            before = len(graph.get_operations())
            train = optimizer.apply_gradients(pairs)
            made = graph.get_operations()[before:]
            large = [
                op.name
                for op in made
                if op.name.startswith("KFAC/step")
                and any(o.shape.rank and o.shape.as_list()[0] == 50 for o in op.outputs)
                and any(o.shape.rank == 2 for o in op.outputs)
            ]
            assert bool(large) is not sparse, large
            assert optimizer.get_slot_names() == []
            session.run(v1.global_variables_initializer())
            for _ in range(3):
                session.run(train)
            found.append(session.run([table, v1.global_variables()[1]]))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    changed = (found[0][0] != 1).any(axis=1)
    assert changed.nonzero()[0].tolist() == [4, 7, 9]


def test_momentum_makes_rows_dense(session, graph):
    table, optimizer, pairs = embedding(0.5, momentum_type="qmodel_fixedmu", learning_rate=None)
    train = optimizer.apply_gradients(pairs)
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run(train)
    changed = (session.run(table) != 1).any(axis=1)
    assert changed.nonzero()[0].tolist() == [4, 7, 9]


# The rest.


def test_loss_that_is_set_is_compared(build_mlp, session, rows):
    network = build_mlp(layers=1)
    optimizer = make(network, **adapting(network, damping_adaptation_interval=1))
    optimizer.set_loss(tf.constant(100.0))
    train = network.start(session, optimizer)
    session.run(train, network.share(rows))
    variables = {v.op.name: v for v in optimizer.variables()}
    assert session.run(variables["kfac/prev_loss"]) == 100.0


def test_pre_update_op_is_made_once(build_mlp):
    network = build_mlp(layers=1)
    optimizer = make(network, **adapting(network, update_damping_immediately=False))
    first = optimizer.maybe_pre_update_adapt_damping()
    optimizer.minimize(network.losses[0])
    assert optimizer.maybe_pre_update_adapt_damping() is first


@pytest.mark.parametrize("decays", [None, lambda variable: variable.name.endswith("/b:0")])
def test_weight_decay(build_mlp, session, rows, decays):
    """Before the first inverse weights move along their gradients, too, divided by (1 + √λ)².

    A gradient of rows becomes dense, as the block does not multiply rows.
    """
    network = build_mlp(layers=1)
    optimizer = kfac.KfacOptimizer(
        *(0.5, 0.1, network.collection),
        use_weight_decay=True,
        weight_decay_coeff=0.2,
        decays=decays,
    )
    pairs = optimizer.compute_gradients(network.losses[0])
    of_rows = tf.IndexedSlices(pairs[0][0], tf.range(3), tf.constant([3, 3]))
    train = optimizer.apply_gradients([(of_rows, network.variables[0]), *pairs[1:]])
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    before, gradients = session.run([network.variables, [gradient for gradient, _ in pairs]], feed)
    session.run(train, feed)
    after = session.run(network.variables)
    for variable, *values in zip(network.variables, before, gradients, after, strict=True):
        old, gradient, new = values
        kept = 0.9 if decays is None or decays(variable) else 1.0
        expected = kept * old - 0.5 * gradient / (1 + np.sqrt(0.1)) ** 2
        np.testing.assert_allclose(new, expected, rtol=1e-9, atol=1e-12)


def test_variables_are_all_that_is_made(build_mlp):
    network = build_mlp(layers=1)
    optimizer = make(network, "qmodel", **adapting(network))
    optimizer.minimize(network.losses[0])
    assert optimizer.get_slot_names() == ["velocity"]
    slot = optimizer.get_slot(network.variables[0], "velocity")
    assert slot.op.name == "mlp/logits/w/KFAC"
    made = set(v1.global_variables()) - set(network.variables)
    assert {v.ref() for v in optimizer.variables()} == {v.ref() for v in made}
    own = sorted(v.op.name for v in made if v.op.name.count("/") == 1)
    names = ("counter", "damping", "prev_loss", "qmodel_change", "qmodel_learning_rate")
    more = ("qmodel_momentum", "rejected_steps", "rho", "sample_step", "skipped_steps")
    assert own == [f"kfac/{name}" for name in (*names, *more)]
