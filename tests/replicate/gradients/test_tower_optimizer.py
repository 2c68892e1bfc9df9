"""Gradients of all towers, summed and applied once by the wrapped optimizer."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import errors
from replicate.estimator.cluster.sync_replicas import SyncReplicasHook
from replicate.gradients.loss_scale import DynamicLossScale
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops import checks as step_checks
from replicate.tower.build import REDUCED_GRADIENTS
from tests.replicate.gradients.towers import in_towers

v1 = tf.compat.v1

TARGETS = ([1.0, 5.0], [2.0, 6.0])


def variable(name, initial):
    return v1.get_variable(name, initializer=tf.constant(initial))


def train(model, towers=2, averages=False):
    """Builds `model(index)` as towers, runs the last one's train_op, returns all variables."""
    train_op = in_towers(model, towers, averages)
    with v1.Session() as session, step_checks.user_errors():
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        return {v.op.name: session.run(v) for v in v1.global_variables()}


def absolute_error(index):
    return tf.reduce_sum(tf.abs(variable("c", 10.0) - tf.constant(TARGETS[index])))


def test_sum_of_towers_is_applied_once(graph):
    def model(index):
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0))
        step = v1.train.get_or_create_global_step()
        return optimizer.minimize(absolute_error(index), global_step=step)

    assert train(model) == {"c": 6.0, "global_step": 1}
    [(_, reduced)] = v1.get_collection(REDUCED_GRADIENTS)
    assert reduced.op.name == "c"
    assert not [key for key in graph.get_all_collection_keys() if "reduced" in key]


def test_gradients_in_between_are_those_of_the_towers_loss(graph, evaluate):
    seen = []

    def model(index):
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0))
        pairs = optimizer.compute_gradients(3.0 * variable("c", 10.0))
        seen.append(pairs[0][0])
        return optimizer.apply_gradients(pairs, name="update")

    assert train(model, averages=True) == {"c": 7.0}
    assert [op.name for op in graph.get_operations() if op.name.endswith("update")] == ["update"]
    assert evaluate(seen) == [3.0, 3.0]


def test_without_towers_everything_passes_through(graph):
    optimizer = TowerOptimizer(v1.train.MomentumOptimizer(1.0, 0.9))
    train_op = optimizer.minimize(absolute_error(0))
    weight = v1.trainable_variables()[0]
    assert optimizer.get_name() == "Momentum"
    assert optimizer.get_slot_names() == ["momentum"]
    assert optimizer.get_slot(weight, "momentum") in optimizer.variables()
    assert not TowerOptimizer.has_been_used()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(train_op)
        assert session.run(weight) == 8.0


@pytest.mark.parametrize("towers", [1, 2])
def test_slots_in_a_scope_have_the_same_names_without_replication(towers):
    def model(index):
        with v1.variable_scope("net"):
            optimizer = TowerOptimizer(lambda: v1.train.AdamOptimizer(1.0))
            return optimizer.minimize(absolute_error(index))

    with tf.Graph().as_default():
        values = train(model, towers=towers)
    with tf.Graph().as_default():
        model(0)
        plain = [variable.op.name for variable in v1.global_variables()]
    assert list(values) == plain
    assert {"net/c", "net/net/c/Adam", "net/net/c/Adam_1"} < set(plain)


@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize(
    ("settings", "trained"),
    [
        ({}, 8.0),
        ({"accumulate_steps": 2}, 10.0),
        ({"loss_scale": DynamicLossScale()}, 8.0),
        ({"skip_nonfinite": 1}, 8.0),
    ],
)
def test_two_optimizers_of_one_variable_have_the_slots_without_replication(
    settings, trained, towers
):
    def model(index):
        with v1.variable_scope("net"):
            loss = absolute_error(index)
            optimizers = [TowerOptimizer(v1.train.AdamOptimizer(1.0), **settings) for _ in range(2)]
            return v1.group(*(optimizer.minimize(loss) for optimizer in optimizers))

    with tf.Graph().as_default():
        values = train(model, towers=towers)
    with tf.Graph().as_default():
        model(0)
        plain = [variable.op.name for variable in v1.global_variables()]
    slots = {f"net/net/c/Adam{number}" for number in ("", "_1", "_2", "_3")}
    assert slots == {name for name in values if "c/Adam" in name}
    assert slots < set(plain)
    assert len(values) == len(plain)
    assert values["net/c"] == pytest.approx(trained, abs=1e-5)


def test_optimizer_function_is_called_once_outside_of_towers(graph):
    made = []

    def make():
        assert not tf.constant(0.0).device, "it is made outside of towers"
        rate = v1.get_variable("rate", initializer=1.0, trainable=False)
        made.append(rate)
        return v1.train.GradientDescentOptimizer(rate)

    values = train(lambda index: TowerOptimizer(make).minimize(absolute_error(index)))
    assert len(made) == 1
    assert values == {"c": 6.0, "rate": 1.0}


def test_gradient_missing_in_some_or_all_towers(graph):
    def model(index):
        c, d = variable("c", 10.0), variable("d", 4.0)
        variable("unused", 3.0)
        loss = c if index == 0 else c + d
        return TowerOptimizer(v1.train.GradientDescentOptimizer(1.0)).minimize(loss)

    assert train(model) == {"c": 8.0, "d": 3.0, "unused": 3.0}


def test_non_finite_gradient_names_tower_and_variable_and_changes_nothing(graph):
    factors = v1.placeholder(tf.float32, [2])

    def model(index):
        loss = variable("net/c", 10.0) * factors[index] + variable("net/d", 1.0)
        return TowerOptimizer(v1.train.MomentumOptimizer(1.0, 0.9)).minimize(loss)

    train_op = in_towers(model)
    c, d = v1.trainable_variables()
    text = r"^In tower 1 \(/device:CPU:1\), the gradient of net/c is NaN or infinite; no variable"
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for value in (np.inf, np.nan):
            with pytest.raises(errors.NonFiniteError, match=text), step_checks.user_errors():
                session.run(train_op, {factors: [1.0, value]})
        assert session.run([c, d]) == [10.0, 1.0]
        session.run(train_op, {factors: [1.0, 1.0]})
        assert session.run([c, d]) == [9.0, 0.0]


def test_later_tower_with_more_calls_is_refused(graph):
    def model(index):
        loss = absolute_error(index)
        for _ in range(index + 1):
            train_op = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0)).minimize(loss)
        return train_op

    with pytest.raises(
        ValueError,
        match=r"was supposed to make the same optimizer calls .*tower 0 made 1, tower 1 made 2",
    ):
        train(model)


def test_packs_are_summed_and_then_clipped(graph):
    def model(index):
        c, d = variable("c", 10.0), variable("d", 4.0)
        optimizer = TowerOptimizer(
            v1.train.GradientDescentOptimizer(1.0), clip_norm=1.0, pack_bytes=1000
        )
        return optimizer.minimize((3.0 * c + 4.0 * d) / 2.0)

    values = train(model)
    np.testing.assert_allclose([values["c"], values["d"]], [9.4, 3.2], rtol=1e-6)
    assert "ConcatV2" in {operation.type for operation in graph.get_operations()}


@pytest.mark.parametrize(
    ("setting", "error", "match"),
    [
        ({"clip_norm": 0.0}, ValueError, r"clip_norm must be > 0, or None not to clip; got 0\.0"),
        ({"clip_norm": float("nan")}, ValueError, "clip_norm must be > 0, or None .* got nan"),
        ({"pack_bytes": 0}, ValueError, "pack_bytes must be ≥ 1, or None not to pack; got 0"),
        ({"accumulate_steps": 0}, ValueError, "accumulate_steps must be an int ≥ 1, got 0"),
        ({"accumulate_steps": 1.5}, ValueError, "accumulate_steps must be an int ≥ 1, got 1.5"),
        ({"skip_nonfinite": -1}, ValueError, "skip_nonfinite must be an int ≥ 0, got -1"),
        ({"skip_nonfinite": True}, ValueError, "skip_nonfinite must be an int ≥ 0, got True"),
        ({"loss_scale": "dynamic"}, TypeError, r"must be a replicate\.Dyn.* got 'dynamic'"),
    ],
)
def test_wrong_settings_are_refused(setting, error, match):
    with pytest.raises(error, match=match):
        TowerOptimizer(v1.train.AdamOptimizer(0.1), **setting)


def test_loss_scale_without_a_scaled_loss_is_refused(graph):
    weight = variable("w", 1.0)
    optimizer = TowerOptimizer(v1.train.AdamOptimizer(0.1), loss_scale=DynamicLossScale())
    with pytest.raises(ValueError, match=r"loss_scale=.*nothing scales their loss. Replace tf\.gr"):
        optimizer.apply_gradients([(tf.gradients(2.0 * weight, weight)[0], weight)])


def test_wrapping_something_else_is_refused():
    with pytest.raises(TypeError, match=r"TowerOptimizer wraps a .*Optimizer or a function .* got"):
        TowerOptimizer("adam")


@pytest.mark.parametrize("settings", [{}, {"accumulate_steps": 2}])
def test_summaries_of_the_wrapped_optimizer_are_written(graph, settings):
    class Telling(v1.train.GradientDescentOptimizer):
        def apply_gradients(self, *args, **kwargs):
            v1.summary.scalar("rate", 1.0)
            return super().apply_gradients(*args, **kwargs)

    def model(index):
        v1.summary.scalar("loss", 2.0)
        return TowerOptimizer(Telling(1.0), **settings).minimize(absolute_error(index))

    train_op = in_towers(model)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        written = [session.run([v1.summary.merge_all(), train_op])[0] for _ in range(2)]
    tags = [[value.tag for value in v1.Summary.FromString(each).value] for each in written]
    assert tags == [["loss"] if settings else ["loss", "rate"], ["loss", "rate"]]


@pytest.mark.parametrize(
    "settings", [{"skip_nonfinite": 3}, {"accumulate_steps": 2}, {"loss_scale": DynamicLossScale()}]
)
def test_sync_replicas_cannot_skip_steps(graph, settings):
    wrapped = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 2)
    (name,) = settings
    with pytest.raises(ValueError, match=rf"TowerOptimizer\({name}=.*cannot wrap a SyncReplicas"):
        TowerOptimizer(wrapped, **settings).minimize(variable("w", 1.0) * 2.0)


def test_synchronous_replicas_run_the_model_once_a_step(graph):
    step = v1.train.create_global_step()
    passes = v1.get_variable("passes", initializer=0, trainable=False)
    weight = variable("w", 1.0)
    with v1.control_dependencies([v1.assign_add(passes, 1)]):
        loss = weight * 2.0
    optimizer = TowerOptimizer(
        lambda: v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(1.0), 1)
    )
    train_op = optimizer.minimize(loss, step)
    hooks = [SyncReplicasHook(optimizer.wrapped, is_chief=True, num_tokens=0)]
    with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
        for _ in range(5):
            session.run(train_op)
        assert session.run([passes, step]) == [5, 5]


class Means(v1.train.GradientDescentOptimizer):
    """Makes variables while it applies gradients, and begins with tensors as their values."""

    def __init__(self, use_resource):
        super().__init__(1.0)
        self._use_resource = use_resource

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        added = []
        for gradient, weight in grads_and_vars:
            ones = tf.ones_like(weight) + tf.zeros(tf.shape(tf.range(weight.shape[0])))
            total = v1.Variable(ones * 2.0, False, name="total", use_resource=self._use_resource)
            noise = v1.get_variable("noise", initializer=tf.random.normal([2], seed=1))
            with v1.control_dependencies([v1.assign_add(noise, [1.0, 1.0])]):
                added.append(v1.assign_add(total, gradient))
        with v1.control_dependencies(added):
            return super().apply_gradients(grads_and_vars, global_step, name)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("towers", [1, 2])
@pytest.mark.parametrize(
    ("settings", "applied"),
    [
        ({}, 4.0),
        ({"clip_norm": 1.0}, 2.0**0.5),
        ({"accumulate_steps": 2}, 2.0),
        ({"skip_nonfinite": 1}, 2.0),
        ({"loss_scale": DynamicLossScale()}, 2.0),
    ],
)
def test_initial_values_in_apply_gradients_do_not_wait(
    graph, towers, settings, applied, use_resource
):
    """The second step's gradients are NaN where they may be; the assignments wait for them."""
    factor = v1.placeholder(tf.float32, [])
    skips = "skip_nonfinite" in settings or "loss_scale" in settings

    def model(index):
        weight = v1.get_variable("w", initializer=[5.0, 5.0], use_resource=use_resource)
        optimizer = TowerOptimizer(Means(use_resource), **settings)
        return optimizer.minimize(factor * tf.reduce_sum(weight) * 2.0)

    train_op = in_towers(model, towers)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        values = {each.op.name: each for each in v1.global_variables()}
        [first] = session.run([values["noise"]])
        for value in (1.0, np.nan if skips else 1.0):
            session.run(train_op, {factor: value})
        weight, total, noise = session.run([values[name] for name in ("w", "total", "noise")])
    updates = 1.0 if skips or "accumulate_steps" in settings else 2.0
    np.testing.assert_allclose(weight, [5.0 - applied] * 2, rtol=1e-6)
    np.testing.assert_allclose(total, [2.0 + applied] * 2, rtol=1e-6)
    np.testing.assert_allclose(noise, first + updates, rtol=1e-6)


def test_initial_values_are_those_that_the_optimizer_has_alone():
    def noise(optimizer):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(3)
            optimizer.minimize(tf.reduce_sum(v1.get_variable("w", initializer=[5.0, 5.0])))
            session.run(v1.global_variables_initializer())
            return session.run(v1.global_variables()[-1])

    assert np.array_equal(noise(Means(True)), noise(TowerOptimizer(Means(True))))
