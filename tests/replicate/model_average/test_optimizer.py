import threading

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradients.accumulation import GradientAccumulation
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_average import (
    ModelAverageCustomGetter,
    ModelAverageOptimizer,
    saved_objects,
    saved_variables,
)
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


@pytest.fixture(params=["TensorFlow 2", pytest.param("TensorFlow 1", marks=pytest.mark.broad)])
def use_resource(request):
    """Variables and control flow as they are, and those that `disable_v2_behavior` brings back."""
    if request.param == "TensorFlow 1":
        v1.disable_control_flow_v2()
    yield request.param == "TensorFlow 2"
    v1.enable_control_flow_v2()


def test_two_workers_average_in_monitored_sessions(use_resource, start_workers, servers):
    workers = start_workers(2, started=0, use_resource=use_resource)
    for worker, server in zip(workers, servers, strict=False):
        filters = ["/job:ps", f"/job:worker/task:{worker.index}"]
        with worker.graph.as_default():
            worker.session = v1.train.MonitoredTrainingSession(
                server.target,
                is_chief=worker.index == 0,
                hooks=[worker.optimizer.make_session_run_hook()],
                config=v1.ConfigProto(device_filters=filters),
                stop_grace_period_secs=5,
                save_summaries_steps=None,
                save_summaries_secs=None,
                log_step_count_steps=None,
            )
    chief, other = workers
    chief.step(), other.step()
    assert other.values() == ([2.0, 3.0], [0.0, 1.0], 0)
    step = other.step_beside()
    chief.step()
    step()
    assert chief.values() == other.values() == ([3.0, 4.0], [3.0, 4.0], 1)
    chief.step()
    assert chief.values() == ([4.0, 5.0], [3.0, 4.0], 1)
    for worker in reversed(workers):
        closing = threading.Thread(target=worker.session.close)
        closing.start()
        closing.join(30)
        assert not closing.is_alive()


def averaged_weight(device="", name="w", initializer=1.0):
    """Makes a getter and a local variable of it."""
    getter = ModelAverageCustomGetter(device)
    with v1.variable_scope("", custom_getter=getter):
        return getter, v1.get_variable(name, initializer=initializer)


def quadratic(optimizer, name="w", **settings):
    """Trains a vector towards zero; returns the train_op, its local variable and the optimizer."""
    getter, weights = averaged_weight(name=name, initializer=[1.0, -2.0])
    averaging = ModelAverageOptimizer(optimizer, 1, True, getter, **settings)
    step = v1.train.get_or_create_global_step()
    return averaging.minimize(tf.reduce_sum(weights**2), step), weights, averaging


def initialised():
    session = v1.Session()
    session.run(v1.global_variables_initializer())
    session.run(v1.local_variables_initializer())
    return session


OPTIMIZERS = {
    "momentum": lambda: v1.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: v1.train.AdamOptimizer(0.1),
    "rmsprop": lambda: v1.train.RMSPropOptimizer(0.1, momentum=0.5, centered=True),
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_one_worker_trains_as_its_optimizer_does(graph, kind):
    train_op, weights, averaging = quadratic(OPTIMIZERS[kind](), interval_steps=2)
    alone = v1.get_variable("alone", initializer=[1.0, -2.0])
    own_op = OPTIMIZERS[kind]().minimize(tf.reduce_sum(alone**2))
    with initialised() as session:
        for _ in range(5):
            session.run([train_op, own_op])
        np.testing.assert_array_equal(*session.run([weights, alone]))
        assert session.run(v1.train.get_global_step()) == 2
    slots = [averaging.get_slot(weights, name) for name in averaging.get_slot_names()]
    assert all(slot is not None for slot in slots)
    assert set(averaging.variables()) >= set(slots)
    assert not set(averaging.variables()) & set(v1.global_variables())
    assert set(averaging.variables()) <= set(v1.local_variables())


def test_slots_of_the_outer_optimizer_are_saved_with_the_centers(graph, tmp_path):
    """Rounds of a resumed run are equal to the bit."""
    outer = v1.train.MomentumOptimizer(0.7, 0.9, use_nesterov=True)
    inner = v1.train.GradientDescentOptimizer(0.1)
    train_op, _, averaging = quadratic(inner, interval_steps=2, outer_optimizer=outer)
    copied, saver = averaging.get_init_op(), v1.train.Saver(saved_objects())
    variables = v1.global_variables()
    assert set(saved_variables()) == {"w", "global_step", "global_center_variable/w/Momentum"}
    with initialised() as session:
        for _ in range(4):
            session.run(train_op)
        path = saver.save(session, str(tmp_path / "model"))
        for _ in range(4):
            session.run(train_op)
        expected = session.run(variables)
    with initialised() as session:
        saver.restore(session, path)
        session.run(copied)
        for _ in range(4):
            session.run(train_op)
        for found, value in zip(session.run(variables), expected, strict=True):
            np.testing.assert_array_equal(found, value)


def test_two_optimizers_with_one_name_do_not_clash(graph):
    first, a, _ = quadratic(v1.train.GradientDescentOptimizer(0.5), "a", interval_steps=1)
    second, b, _ = quadratic(v1.train.GradientDescentOptimizer(0.25), "b", interval_steps=3)
    with initialised() as session:
        session.run(first)
        session.run(second)
        assert session.run([a, b]) == [pytest.approx([0, 0]), pytest.approx([0.5, -1.0])]
        assert session.run(v1.train.get_global_step()) == 1
    shared = [
        op.get_attr("shared_name")
        for op in graph.get_operations()
        if op.type.endswith(("ConditionalAccumulator", "FIFOQueueV2", "MutableHashTableV2"))
    ]
    assert len(set(shared)) == len(shared) == 10
    assert all(shared)


def test_sparse_and_missing_gradients_are_applied_and_centers_copied(graph):
    getter = ModelAverageCustomGetter("")
    with v1.variable_scope("", custom_getter=getter):
        table = v1.get_variable("table", initializer=[[1.0], [2.0], [3.0]])
        unused = v1.get_variable("unused", initializer=5.0)
    averaging = ModelAverageOptimizer(
        v1.train.GradientDescentOptimizer(0.5), 1, True, getter, interval_steps=1
    )
    loss = tf.reduce_sum(tf.gather(table, [0, 2]) ** 2)
    train_op = averaging.minimize(loss, v1.train.create_global_step())
    copied = averaging.get_init_op()
    with initialised() as session:
        session.run(train_op)
        assert session.run(getter.averaged[0].center).ravel().tolist() == [0.0, 2.0, 0.0]
        assert session.run(unused) == 5.0
        session.run(getter.averaged[0].center.assign([[7.0], [8.0], [9.0]]))
        session.run(copied)
        assert session.run(table).ravel().tolist() == [7.0, 8.0, 9.0]


def replicated(towers, **settings):
    """One training step's operation for a model on several towers."""

    def model_fn(features, mode):
        getter, weights = averaged_weight()
        loss = tf.reduce_mean((features * weights) ** 2)
        optimizer = TowerOptimizer(
            lambda: ModelAverageOptimizer(
                v1.train.GradientDescentOptimizer(0.1), 1, True, getter, interval_steps=2
            ),
            **settings,
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        hook = optimizer.wrapped.make_session_run_hook()
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    v1.train.create_global_step()
    features = tf.constant([1.0, 2.0, 3.0, 4.0])
    devices = [f"/cpu:{tower}" for tower in range(towers)]
    spec = replicate_model_fn(model_fn, v1.losses.Reduction.MEAN, devices)(
        features, None, ModeKeys.TRAIN
    )
    (hook,) = spec.training_hooks
    hook.begin()
    return spec.train_op


@pytest.mark.parametrize(
    "settings",
    [{"accumulate_steps": 2}, pytest.param({"skip_nonfinite": 1}, marks=pytest.mark.broad)],
)
def test_tower_optimizer_wraps_model_averaging(graph, settings):
    results = []
    for towers in (1, 2):
        with tf.Graph().as_default():
            train_op = replicated(towers, **settings)
            (weights,) = v1.trainable_variables()
            with initialised() as session:
                for _ in range(4):
                    session.run(train_op)
                results.append(session.run([weights, v1.train.get_global_step()]))
    assert results[0] == pytest.approx(results[1], rel=1e-6)
    assert results[0][1] == (1 if "accumulate_steps" in settings else 2)


def test_accumulate_statistics_is_that_of_the_local_optimizer(graph):
    class Counting(v1.train.GradientDescentOptimizer):
        def accumulate_statistics(self):
            return v1.Variable(0.0, name="statistics").assign_add(1.0).op

    getter = ModelAverageCustomGetter("")
    averaging = ModelAverageOptimizer(Counting(0.1), 1, True, getter)
    weights = v1.get_variable("w", initializer=1.0)
    accumulation = GradientAccumulation(2, True, averaging.accumulate_statistics)
    accumulation.add([(tf.constant(1.0), weights)], accepted=None)
    assert [variable.op.name for variable in v1.local_variables()] == ["statistics"]
    plain = ModelAverageOptimizer(v1.train.GradientDescentOptimizer(0.1), 1, True, getter)
    assert plain.accumulate_statistics is None


def arguments(**changes):
    given = {
        "opt": v1.train.GradientDescentOptimizer(0.1),
        "num_worker": 1,
        "is_chief": True,
        "ma_custom_getter": ModelAverageCustomGetter(""),
    }
    return {**given, **changes}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"opt": "sgd"}, "opt must be a .*Optimizer, got 'sgd'"),
        ({"ma_custom_getter": None}, "ma_custom_getter must be a .*CustomGetter, got None"),
        ({"is_chief": 1}, "is_chief must be a builtins.bool, got 1"),
        ({"num_worker": 0}, "num_worker must be an int ≥ 1, got 0"),
        ({"interval_steps": True}, "interval_steps must be an int ≥ 1, got True"),
        ({"patience_secs": float("nan")}, "patience_secs must be a number of seconds > 0, got nan"),
    ],
    ids=str,
)
def test_invalid_settings_are_refused(graph, changes, message):
    with pytest.raises((TypeError, ValueError), match=message):
        ModelAverageOptimizer(**arguments(**changes))


def test_gradients_and_steps_that_cannot_be_averaged_are_refused(graph):
    getter, weights = averaged_weight("/job:worker/task:0")
    averaging = ModelAverageOptimizer(**arguments(ma_custom_getter=getter, num_worker=2))
    with pytest.raises(ValueError, match=r"global_step is None.* Pass tf.train.get_or_create"):
        averaging.minimize(weights**2)
    step = v1.train.create_global_step()
    message = r"over 2 workers: global_step, global_center_variable/w would be on each"
    with pytest.raises(ValueError, match=message):
        averaging.minimize(weights**2, step)
    ordinary = v1.get_variable("ordinary", initializer=1.0)
    for pairs in ([], [(None, ordinary)]):
        with pytest.raises(ValueError, match=r"grads_and_vars holds no gradient"):
            averaging.apply_gradients(pairs, step)
    with pytest.raises(ValueError, match=r"cannot average ordinary: its getter has not made"):
        averaging.apply_gradients([(tf.constant(1.0), ordinary)], step)
