import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.curvature.estimation_modes import MODES
from kfac.estimator import FisherEstimator, make_fisher_estimator

v1 = tf.compat.v1


def make(network, mode="empirical", **kwargs):
    return FisherEstimator(None, 0.9, 0.1, network.collection, estimation_mode=mode, **kwargs)


def test_towers_work_on_their_own_devices(build_network, graph):
    estimator = make(build_network(2))
    before = set(graph.get_operations())
    estimator.make_cov_update_op()
    new = [op for op in graph.get_operations() if op not in before]
    both = {"/device:CPU:0", "/device:CPU:1"}
    assert {op.device for op in new if op.type == "ReluGrad"} == both
    assert {op.device for op in new if op.type == "MatMul"} == both


def test_whether_there_are_statistics_and_averages(build_mlp, session, rows):
    network = build_mlp(layers=1)
    estimator = make(network)
    without_sums = estimator.has_statistics()
    add = estimator.make_accumulation_op()
    update = estimator.make_cov_update_op()
    known = [estimator.has_statistics(), estimator.has_averages()]
    feed = network.share(rows)
    session.run(v1.global_variables_initializer())
    assert not session.run(without_sums)
    assert session.run(known) == [False, False]
    session.run(add, feed)
    assert session.run(known) == [True, False]
    session.run(update, feed)
    assert session.run(known) == [False, True]


def test_inverses_are_spread_by_size(build_network, graph):
    layers = build_network(2).collection
    estimator = make_fisher_estimator(
        variables=None, cov_ema_decay=0.9, damping=0.1, layer_collection=layers
    )
    estimator.make_inv_update_op()
    sizes = [factor.dimension for factor in estimator.factors]
    devices = [factor.inv_variables[0].device for factor in estimator.factors]
    assert sizes == [19, 4, 65, 3]
    assert devices == ["/device:CPU:1", "/device:CPU:1", "/device:CPU:0", "/device:CPU:0"]
    inversions = {op.device for op in graph.get_operations() if "damped_function" in op.name}
    assert inversions == {"/device:CPU:0", "/device:CPU:1"}


def test_variable_names_do_not_depend_on_towers_and_scopes(build_network):
    estimator = make(build_network(2))
    with v1.variable_scope("somewhere"), v1.name_scope("else"):
        estimator.make_vars()
    names = [variable.op.name for variable in estimator.cov_variables]
    leaves = ("cov", "cov_weight", "cov_refused")
    factors = ("conv/w/input", "conv/w/output", "fc/w/input", "fc/w/output")
    expected = [f"kfac/{factor}/{leaf}" for factor in factors for leaf in leaves]
    assert names == [*expected, "kfac/sample_step"]
    assert estimator.inv_variables[0].op.name == "kfac/conv/w/input/inverse"
    state = {*estimator.cov_variables, *estimator.inv_variables}
    assert not state & set(v1.trainable_variables())
    assert state <= set(v1.global_variables())


def test_only_shares_that_are_due_are_inverted(build_network, session, batch):
    network = build_network(dtype="float64")
    estimator = make(network)
    averages = estimator.make_cov_update_op()
    due = v1.placeholder(tf.bool, [2])
    update = estimator.make_inv_update_op_by_shares(due, [[0, 3], [2]])
    inverses = [factor.inv_variables[0] for factor in estimator.factors]
    seconds = estimator.times.read()["inverse"]
    session.run(v1.global_variables_initializer())
    session.run(averages, network.share(batch))
    for flags, known in (([False, False], []), ([False, True], [2]), ([True, False], [0, 2, 3])):
        session.run(update, {due: flags})
        found = [index for index, inverse in enumerate(session.run(inverses)) if inverse.any()]
        assert found == known
        assert np.isfinite(session.run(seconds)) == bool(known)
    covs = session.run([factor.cov for factor in estimator.factors])
    assert np.abs(session.run(inverses[0]) @ covs[0]).max() > 0.1


def test_functions_that_are_registered_later_get_their_variables(build_network, graph):
    estimator = make(build_network())
    estimator.make_vars()
    factor = estimator.factors[0]
    factor.register_matpower(-0.5, factor.dampings[0])
    assert factor.get_inv_vars()[1] is None
    estimator.make_vars()
    count = len(graph.get_operations())
    assert factor.get_inv_vars()[1].op.name == "kfac/conv/w/input/power_-0.5"
    estimator.make_vars()
    assert len(graph.get_operations()) == count


def test_four_lists_of_thunks(build_network):
    estimator = make(build_network(1))
    cov_variables, cov_updates, inv_variables, inv_updates = estimator.create_ops_and_vars_thunks()
    assert [len(x) for x in (cov_variables, cov_updates, inv_variables, inv_updates)] == [4] * 4
    made = [variable for thunk in cov_variables for variable in thunk()]
    assert made == estimator.cov_variables[:-1]
    assert estimator.inv_variables == []
    made = [variable for thunk in inv_variables for variable in thunk()]
    assert made == estimator.inv_variables


def test_averages_and_inverses_of_each_factor(build_network, session, batch):
    """As in tensorflow/kfac: averages, not sums; matrices, no counters."""
    network = build_network(1)
    estimator = make(network)
    averages, inverses = estimator.get_cov_vars(), estimator.get_inv_vars()
    assert [len(of_factor) for of_factor in (*averages, *inverses)] == [1] * 8
    shapes = [[n, n] for n in (19, 4, 65, 3)]
    assert [v.shape for (v,) in averages] == [v.shape for (v,) in inverses] == shapes
    update = estimator.make_cov_update_op()
    statistics = [factor.batch_statistic() for factor in estimator.factors]
    session.run(v1.global_variables_initializer())
    for _ in range(3):
        session.run(update, network.share(batch))
    found, expected = session.run([averages, statistics], network.share(batch))
    for (average,), statistic in zip(found, expected, strict=True):
        np.testing.assert_allclose(average, statistic, rtol=1e-4, atol=1e-6)


# Products.


def dense_network():
    """Registers two dense layers, of which the first has a bias; returns their variables."""
    random = np.random.RandomState(0)
    w, b, v = (
        v1.get_variable(name, initializer=tf.constant(random.randn(*shape)))
        for name, shape in (("w", [3, 4]), ("b", [4]), ("v", [4, 2]))
    )
    collection = kfac.graph_layer_collection()
    x = tf.constant(random.randn(20, 3))
    s = tf.matmul(x, w) + b
    h = tf.tanh(s)
    mean = tf.matmul(h, v)
    collection.register_fully_connected((w, b), x, s)
    collection.register_fully_connected(v, h, mean)
    collection.register_squared_error_loss(mean, targets=tf.constant(random.randn(20, 2)))
    return [w, b, v]


def make_dense(**kwargs):
    variables = dense_network()
    collection = kfac.graph_layer_collection()
    return variables, FisherEstimator(variables, 0.9, 0.1, collection, **kwargs)


def updated(session, estimator, tensors):
    """Evaluates tensors after one update of the averages and of the inverses."""
    with v1.control_dependencies([estimator.make_cov_update_op()]):
        update = estimator.make_inv_update_op()
    session.run(v1.global_variables_initializer())
    session.run(update)
    return session.run(tensors)


def vectors(variables):
    random = np.random.RandomState(1)
    return [(tf.constant(random.randn(*v.shape.as_list())), v) for v in variables]


PRODUCTS_THAT_UNDO_ONE_ANOTHER = {
    "inverse": lambda e, v: e.multiply_inverse(e.multiply(v)),
    "powers -1 and 1": lambda e, v: e.multiply_matpower(-1, e.multiply_matpower(1, v)),
    "powers ½ and -½": lambda e, v: e.multiply_matpower(0.5, e.multiply_matpower(-0.5, v)),
    "two roots": lambda e, v: e.multiply_inverse(
        e.multiply_matpower(0.5, e.multiply_matpower(0.5, v))
    ),
    "B Bᵀ": lambda e, v: e.multiply_inverse(
        e.multiply_cholesky(e.multiply_cholesky(v, transpose=True))
    ),
    "B⁻¹ B": lambda e, v: e.multiply_cholesky_inverse(e.multiply_cholesky(v)),
    "B⁻ᵀ Bᵀ": lambda e, v: e.multiply_cholesky_inverse(
        e.multiply_cholesky(v, transpose=True), transpose=True
    ),
}


def test_products_agree_with_one_another(graph, session):
    variables, estimator = make_dense(
        exps=(-1, 0.5, -0.5), compute_cholesky=True, compute_cholesky_inverse=True
    )
    pairs = vectors(variables)
    chains = [chain(estimator, pairs) for chain in PRODUCTS_THAT_UNDO_ONE_ANOTHER.values()]
    for found in updated(session, estimator, [[p for p, _ in chain] for chain in chains]):
        for product, (vector, _) in zip(found, pairs, strict=True):
            np.testing.assert_allclose(product, session.run(vector), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    ("call", "kwargs", "message"),
    [
        (lambda e: e.multiply_inverse([]), {"exps": (0.5,)}, "power -1: .* -1 in exps"),
        (lambda e: e.multiply_matpower(2, []), {}, "power 2: .* 2 in exps"),
        (lambda e: e.multiply_cholesky([]), {}, "the Cholesky factor: .* compute_cholesky=True"),
        (lambda e: e.multiply_cholesky_inverse([]), {"compute_cholesky": True},
         "inverse Cholesky factor: .* compute_cholesky_inverse=True"),
        (lambda e: e.multiply([]), {}, "there are no vectors for w, b, v"),
        (lambda e: e.params_stats, {}, "no params_stats.*Pass compute_params_stats=True"),
    ],
)  # fmt: skip
def test_what_is_not_served(graph, call, kwargs, message):
    _, estimator = make_dense(**kwargs)
    with pytest.raises(ValueError, match=message):
        call(estimator)


# First-order statistics, burn-in.


def test_first_order_statistics_in_empirical_mode(build_network, session, batch):
    network = build_network(2, "float64")
    estimator = make(network, compute_params_stats=True, batch_size=12)
    expected = v1.gradients(sum(network.losses) / 2, network.variables)
    session.run(v1.global_variables_initializer())
    feed = network.share(batch)
    found, expected = session.run([estimator.params_stats, expected], feed)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_past_keeps_its_weight_without_decay(graph, session):
    _, estimator = make_dense()
    should_decay = v1.placeholder(tf.bool, [])
    updates, _ = estimator.make_vars_and_create_op_thunks()
    always = estimator.make_cov_update_op(should_decay=should_decay)
    first, never = updates[0](should_decay), updates[0](False)
    weights = [factor.cov_variables[1] for factor in estimator.factors]
    session.run(v1.global_variables_initializer())
    session.run(always, {should_decay: False})
    session.run(always, {should_decay: False})
    assert session.run(weights) == [2, 2, 2, 2]
    session.run(always, {should_decay: True})
    np.testing.assert_allclose(session.run(weights), 2 * 0.9 + 1)
    session.run(never)
    session.run(first, {should_decay: True})
    np.testing.assert_allclose(session.run(weights[0]), (2 * 0.9 + 2) * 0.9 + 1)


# Placement.


def test_round_robin(graph):
    dense_network()
    estimator = make_fisher_estimator(
        "round_robin",
        variables=None,
        cov_ema_decay=0.9,
        damping=0.1,
        layer_collection=kfac.graph_layer_collection(),
        cov_devices=["/cpu:1", "/cpu:2"],
        inv_devices=["/cpu:3", "/cpu:4", "/cpu:5"],
        trans_devices=["/cpu:6", "/cpu:7"],
    )
    _, inverses = estimator.make_vars_and_create_op_thunks()
    averages = [factor.cov_variables[0].device[-1] for factor in estimator.factors]
    assert averages == ["1", "2", "1", "2"]
    assert {v.device for v in estimator.inv_variables} == {""}
    places = []
    for inverse in inverses:
        before = set(graph.get_operations())
        inverse()
        new = set(graph.get_operations()) - before
        places.append({op.device for op in new if "damped_function" in op.name})
    assert places == [{f"/device:CPU:{i}"} for i in (3, 4, 5, 3)]
    products = estimator.multiply_inverse(vectors(estimator.variables))
    assert [p.device[-1] for p, _ in products] == ["6", "6", "7"]


# Errors.


def test_properties(graph):
    variables, estimator = make_dense()
    assert estimator.variables == tuple(variables)
    assert estimator.layers is kfac.graph_layer_collection()
    assert (estimator.damping, estimator.name) == (0.1, "FisherEstimator")
    types = {}
    for mode in MODES:
        of_mode = FisherEstimator(None, 0.9, 0.1, estimator.layers, estimation_mode=mode)
        types.setdefault(of_mode.mat_type, set()).add(mode)
    assert types == {
        "Fisher": {"gradients", "curvature_prop", "exact"},
        "Empirical_Fisher": {"empirical"},
        "GGN": {"curvature_prop_GGN", "exact_GGN"},
    }


def test_variables_must_be_the_registered_ones(build_network):
    network = build_network(1)
    estimator = FisherEstimator(network.variables[:2], 0.9, 0.1, network.collection)
    with pytest.raises(ValueError, match=r"fc/w, fc/b would be left out"):
        estimator.make_vars()
