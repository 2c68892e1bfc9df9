"""Batch normalization's moving averages over several towers."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch_statistics import BatchStatistics
from replicate.errors import user_errors
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys
from replicate.tower_optimizer import TowerOptimizer

v1 = tf.compat.v1

BATCH = np.array([[1.0], [3.0], [10.0], [20.0], [40.0], [70.0]], np.float32)
DECAY = 0.9


def normalized(features):
    """Batch normalization as contrib layers did it: assignments listed in UPDATE_OPS."""
    mean, variance = tf.nn.moments(features, [0])
    for name, value, start in (("mean", mean, 0.0), ("variance", variance, 1.0)):
        moving = v1.get_variable(f"bn/{name}", initializer=tf.fill([1], start), trainable=False)
        update = v1.assign_sub(moving, (1 - DECAY) * (moving - value))
        v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    count = v1.get_variable("bn/count", initializer=0, dtype=tf.int32, trainable=False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, v1.assign_add(count, 1))
    return (features - mean) / tf.sqrt(variance + 1e-3)


def keras_normalized(features):
    layer = tf.keras.layers.BatchNormalization(momentum=DECAY, name="bn")
    return layer(features, training=True)


def spec_of(mode, loss, style):
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1))
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    if style == "group":
        return EstimatorSpec(mode, loss=loss, train_op=tf.group(optimizer.minimize(loss), *updates))
    with v1.control_dependencies(updates if style == "dependencies" else []):
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def train(
    layer,
    towers,
    update_ops="mean",
    style="dependencies",
    batch=BATCH,
    steps=2,
    use_resource=True,
):
    """Trains; returns the moving mean and variance, and the counter if there is one."""

    def model_fn(features, labels, mode):
        scale = v1.get_variable("scale", initializer=1.0)
        loss = tf.reduce_mean(layer(features) * scale)
        return spec_of(mode, loss, style)

    with tf.Graph().as_default(), v1.variable_scope("", use_resource=use_resource):
        replicated = replicate_model_fn(
            model_fn,
            devices=[f"/cpu:{index}" for index in range(towers)],
            update_ops=update_ops,
            uneven="weighted",
        )
        spec = replicated(tf.constant(batch), None, ModeKeys.TRAIN)
        with v1.Session() as session, user_errors():
            session.run(v1.global_variables_initializer())
            session.run(v1.local_variables_initializer())
            for _ in range(steps):
                session.run(spec.train_op)
            values = {v.op.name: session.run(v) for v in v1.global_variables()}
    found = {name.rpartition("/")[2].removeprefix("moving_"): v for name, v in values.items()}
    return found["mean"][0], found["variance"][0], found.get("count")


def moving(start, values):
    for value in values:
        start = DECAY * start + (1 - DECAY) * value
    return start


@pytest.mark.parametrize("style", ["dependencies", "group", "forgotten"])
@pytest.mark.parametrize("layer", [normalized, keras_normalized])
@pytest.mark.parametrize("towers", [1, 2, 3])
def test_mean_over_towers(layer, towers, style):
    mean, variance, count = train(layer, towers, style=style)
    shards = np.split(BATCH, towers)
    np.testing.assert_allclose(mean, moving(0.0, [BATCH.mean()] * 2), rtol=1e-5)
    mean_of_variances = np.mean([shard.var() for shard in shards])
    np.testing.assert_allclose(variance, moving(1.0, [mean_of_variances] * 2), rtol=1e-5)
    assert count in (2, None)


def test_mean_of_reference_variables():
    mean, _, count = train(normalized, towers=2, use_resource=False)
    np.testing.assert_allclose(mean, moving(0.0, [BATCH.mean()] * 2), rtol=1e-5)
    assert count == 2


@pytest.mark.parametrize("layer", [normalized, keras_normalized])
def test_first_tower_alone(layer):
    mean, variance, _ = train(layer, towers=2, update_ops="first")
    np.testing.assert_allclose(mean, moving(0.0, [BATCH[:3].mean()] * 2), rtol=1e-5)
    np.testing.assert_allclose(variance, moving(1.0, [BATCH[:3].var()] * 2), rtol=1e-5)


def test_all_towers_one_after_the_other():
    first, second = BATCH[:3].mean(), BATCH[3:].mean()
    mean, _, count = train(normalized, towers=2, update_ops="all", steps=1)
    orders = [moving(0.0, [first, second]), moving(0.0, [second, first]), 0.1 * (first + second)]
    assert np.isclose(mean, orders, rtol=1e-5).any() or mean in (0.1 * first, 0.1 * second)
    assert count in (1, 2)


def test_unequal_and_empty_shards_count_by_their_rows():
    mean, variance, _ = train(normalized, towers=4, batch=BATCH[:3], steps=1)
    np.testing.assert_allclose(mean, moving(0.0, [BATCH[:3].mean()]), rtol=1e-5)
    np.testing.assert_allclose(variance, moving(1.0, [0.0]), rtol=1e-5)


def test_copies_start_from_the_restored_value(tmp_path):
    def model_fn(features, labels, mode):
        scale = v1.get_variable("scale", initializer=1.0)
        return spec_of(mode, tf.reduce_mean(normalized(features) * scale), "dependencies")

    path = str(tmp_path / "model.ckpt")
    results = []
    for restore, steps in ((False, 1), (True, 1), (False, 2)):
        with tf.Graph().as_default():
            spec = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])(BATCH, None, "train")
            saver = v1.train.Saver()
            with v1.Session() as session:
                if restore:
                    saver.restore(session, path)
                else:
                    session.run(v1.global_variables_initializer())
                session.run(v1.local_variables_initializer())
                for _ in range(steps):
                    session.run(spec.train_op)
                if not restore and steps == 1:
                    saver.save(session, path)
                results.append(session.run(v1.global_variables()))
    np.testing.assert_equal(results[1], results[2])


def test_checkpoints_hold_no_copies(graph):
    def model_fn(features, labels, mode):
        scale = v1.get_variable("scale", initializer=1.0)
        return spec_of(mode, tf.reduce_mean(normalized(features) * scale), "dependencies")

    replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])(BATCH, None, ModeKeys.TRAIN)
    assert sorted(variable.op.name for variable in v1.global_variables()) == [
        "bn/count",
        "bn/mean",
        "bn/variance",
        "scale",
    ]


def test_assignments_that_do_not_see_the_batch_are_left_alone(graph):
    def model_fn(features, labels, mode):
        counter = tf.Variable(5.0, trainable=False, name="counter")
        counter.assign(0.0, name="reset_by_hand")
        scale = v1.get_variable("scale", initializer=1.0)
        return spec_of(mode, tf.reduce_mean(features * scale), "dependencies")

    spec = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])(BATCH, None, ModeKeys.TRAIN)
    counter = next(v for v in v1.global_variables() if v.op.name == "counter")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        assert session.run(counter) == 5.0


def test_unknown_choice_is_refused():
    with pytest.raises(ValueError, match=r"update_ops must be one of .*; got 'last'"):
        BatchStatistics("last")
