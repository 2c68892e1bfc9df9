import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.update.refresh import BY_CALLER, RefreshByCaller, RefreshPolicy, RefreshSettings

v1 = tf.compat.v1


@pytest.fixture
def owner(build_mlp):
    network = build_mlp()
    optimizer = kfac.KfacOptimizer(
        learning_rate=0.1,
        damping=0.1,
        layer_collection=network.collection,
        estimation_mode="empirical",
        batch_size=12,
        compute_params_stats=True,
    )
    return network, optimizer


def test_properties(owner):
    network, optimizer = owner
    assert optimizer.registered_variables == tuple(network.variables)
    assert optimizer.layers is network.collection
    assert optimizer.mat_type == "Empirical_Fisher"
    assert not network.collection.is_final
    assert len(optimizer.factors) == 4
    assert network.collection.is_final


def test_first_order_statistics_are_gradients(owner, session, rows):
    network, optimizer = owner
    gradients = [gradient for gradient, _ in optimizer.compute_gradients(network.losses[0])]
    session.run(v1.global_variables_initializer())
    feed = network.feed([rows[0]], [rows[1]])
    for one, other in zip(*session.run([optimizer.params_stats, gradients], feed), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)


def test_older_form_of_the_thunks(owner, session, rows):
    network, optimizer = owner
    made = optimizer.make_ops_and_vars(scope="older")
    cov_updates, cov_update, inv_updates, inv_update, cov_thunks, inv_thunks = made
    assert cov_update.name == "older/cov_update"
    assert [len(x) for x in (cov_updates, inv_updates, cov_thunks, inv_thunks)] == [4] * 4
    feed = network.feed([rows[0]], [rows[1]])
    session.run(v1.global_variables_initializer())
    session.run(cov_update, feed)
    session.run(inv_updates[0])
    changed = [session.run(factor.inv_variables[0]).any() for factor in optimizer.factors]
    assert changed == [True, False, False, False]
    session.run(inv_update)
    assert all(session.run(factor.inv_variables[0]).any() for factor in optimizer.factors)
    weight = optimizer.factors[0].cov_variables[1]
    session.run([thunk() for thunk in cov_thunks], feed)
    assert session.run(weight) == 1 + 0.95


def test_thunks_by_kind(owner):
    thunks = owner[1].create_ops_and_vars_thunks()
    assert thunks._fields == ("cov_variables", "cov_updates", "inv_variables", "inv_updates")
    assert [len(of_kind) for of_kind in thunks] == [4] * 4
    assert len(owner[1].make_vars_and_create_op_thunks()) == 2


def test_var_list(owner):
    network, optimizer = owner
    optimizer.check_var_list(network.variables)
    with pytest.raises(ValueError, match=r"fewer variables than are registered.*logits/b"):
        optimizer.check_var_list(network.variables[:3])
    with pytest.raises(ValueError, match="cannot train scale"):
        optimizer.check_var_list([*network.variables, v1.get_variable("scale", [])])


OPTIMIZERS = [
    kfac.PeriodicInvCovUpdateKfacOpt,
    kfac.AsyncInvCovUpdateKfacOpt,
    lambda **kwargs: kfac.ClusterKfacOpt(kfac.WorkerRole("shared", 1, 0), **kwargs),
]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_of_all_policies_are_kfac_optimizers(graph, kind):
    optimizer = kind(learning_rate=0.1, damping=0.1, layer_collection=kfac.LayerCollection())
    assert isinstance(optimizer, kfac.KfacOptimizer)
    assert isinstance(optimizer, v1.train.Optimizer)
    assert optimizer.variables() == []


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_an_optimizer_makes_no_other_policy_than_its_own(graph, kind, monkeypatch):
    made = []
    init = RefreshByCaller.__init__
    monkeypatch.setattr(
        RefreshByCaller, "__init__", lambda self, *args: made.append(init(self, *args))
    )
    kind(learning_rate=0.1, damping=0.1, layer_collection=kfac.LayerCollection())
    assert made == []
    kfac.KfacOptimizer(learning_rate=0.1, damping=0.1, layer_collection=kfac.LayerCollection())
    assert len(made) == 1


def test_a_policy_is_made_of_complete_parts_once(graph):
    made = []

    class Recorder(RefreshSettings):
        from_identity = True

        def policy(self, step, estimator, name):
            step.make_variables()
            made.append([variable.op.name for variable in step.variables])
            return BY_CALLER.policy(step, estimator, name)

    weight = v1.get_variable("weight", [2, 3])
    layers = kfac.LayerCollection()
    layers.register_fully_connected(weight, inputs := tf.ones([4, 2]), logits := inputs @ weight)
    layers.register_squared_error_loss(logits)
    kfac.KfacOptimizer(learning_rate=0.1, damping=0.1, layer_collection=layers, refresh=Recorder())
    assert made == [[f"kfac/{name}" for name in ("counter", "skipped_steps", "rejected_steps")]]


def test_a_subclass_may_override_both_halves_of_minimize(build_mlp, session, rows):
    network = build_mlp(layers=1)

    class Halved(kfac.KfacOptimizer):
        def compute_gradients(self, *args, **kwargs):
            return [(g / 2, v) for g, v in super().compute_gradients(*args, **kwargs)]

        def apply_gradients(self, grads_and_vars, *args, **kwargs):
            pairs = [(g / 2, v) for g, v in grads_and_vars]
            return super().apply_gradients(pairs, *args, **kwargs)

    feed, moves = network.feed([rows[0]], [rows[1]]), []
    for kind in (kfac.KfacOptimizer, Halved):
        optimizer = kind(
            learning_rate=0.1, damping=0.1, layer_collection=network.collection, momentum=None
        )
        train = optimizer.minimize(network.losses[0])
        session.run(v1.global_variables_initializer())
        before = session.run(network.variables)
        session.run(train, feed)
        after = session.run(network.variables)
        moves.append(np.concatenate([np.ravel(x - y) for x, y in zip(after, before, strict=True)]))
    np.testing.assert_allclose(moves[1], moves[0] / 4, rtol=1e-9)


def test_a_policy_must_say_how_gradients_are_applied():
    with pytest.raises(TypeError, match="abstract"):
        RefreshPolicy()
