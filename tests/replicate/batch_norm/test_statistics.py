"""Batch normalization's moving averages over several towers."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops.checks import user_errors
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

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


def moved(moving, value):
    return v1.assign_sub(moving, (1 - DECAY) * (moving - value))


def moving_mean():
    return v1.get_variable("bn/mean", initializer=tf.zeros([1]), trainable=False)


def normalized_in_place(features):
    """Batch normalization with updates_collections=None: the outputs wait for the updates."""
    mean, variance = tf.nn.moments(features, [0])
    updates = [moved(moving_mean(), mean)]
    moving = v1.get_variable("bn/variance", initializer=tf.ones([1]), trainable=False)
    updates.append(moved(moving, variance))
    with v1.control_dependencies(updates):
        return tf.nn.batch_normalization(features, mean, variance, None, None, 1e-3)


def unbiased_in_place(features):
    """The same with a moving mean that is corrected by the number of updates."""
    mean = tf.reduce_mean(features, 0)
    biased = v1.get_variable("bn/biased", initializer=tf.zeros([1]), trainable=False)
    count = v1.get_variable("bn/count", initializer=0.0, trainable=False)
    updated, number = moved(biased, mean), v1.assign_add(count, 1.0)
    update = v1.assign(moving_mean(), updated / (1 - DECAY**number))
    with v1.control_dependencies([update]):
        return features - mean


def positive(features):
    return tf.reduce_max(features) > 0.0


def in_branch_in_place(features):
    mean, moving = tf.reduce_mean(features, 0), moving_mean()

    def update():
        with v1.control_dependencies([moved(moving, mean)]):
            return tf.identity(features)

    return tf.cond(positive(features), update, lambda: features) - mean


def in_branch(features):
    mean, moving = tf.reduce_mean(features, 0), moving_mean()

    def update():
        with v1.control_dependencies([moved(moving, mean)]):
            return tf.constant(value=True)

    done = tf.cond(positive(features), update, lambda: False)
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, done)
    return features - mean


def spec_of(mode, loss, style, **settings):
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.1), **settings)
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    if style == "group":
        return EstimatorSpec(mode, loss=loss, train_op=tf.group(optimizer.minimize(loss), *updates))
    with v1.control_dependencies(updates if style == "dependencies" else []):
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))


def states(
    layer,
    towers,
    update_ops="mean",
    style="dependencies",
    batch=BATCH,
    steps=2,
    use_resource=True,
    **settings,
):
    """Returns all variables after each step, by the last part of their names."""

    def model_fn(features, labels, mode):
        scale = v1.get_variable("scale", initializer=1.0)
        loss = tf.reduce_mean(layer(features) * scale)
        return spec_of(mode, loss, style, **settings)

    devices = [f"/cpu:{index}" for index in range(towers)]
    how = {"devices": devices, "update_ops": update_ops, "uneven": "weighted"}
    with tf.Graph().as_default(), v1.variable_scope("", use_resource=use_resource):
        spec = replicate_model_fn(model_fn, **how)(tf.constant(batch), None, ModeKeys.TRAIN)
        with v1.Session() as session, user_errors():
            # Copies of variables without a value yet start from the initial one.
            session.run(v1.local_variables_initializer())
            session.run(v1.global_variables_initializer())
            variables = {
                v.op.name.rpartition("/")[2].removeprefix("moving_"): v
                for v in v1.global_variables()
            }
            found = []
            for _ in range(steps):
                session.run(spec.train_op)
                found.append(session.run(variables))
            return found


def train(*args, **kwargs):
    """Returns the moving mean and variance at the end, and the counter if there is one."""
    found = states(*args, **kwargs)[-1]
    return found["mean"][0], found["variance"][0], found.get("count")


def moving(start, values):
    for value in values:
        start = DECAY * start + (1 - DECAY) * value
    return start


@pytest.mark.parametrize(
    ("layer", "towers", "style"),
    [
        (normalized, 1, "forgotten"),
        (normalized, 3, "dependencies"),
        (normalized, 3, "group"),
        (normalized, 3, "forgotten"),
        (keras_normalized, 3, "dependencies"),
    ],
)
def test_mean_over_towers(layer, towers, style):
    mean, variance, count = train(layer, towers, style=style)
    shards = np.split(BATCH, towers)
    np.testing.assert_allclose(mean, moving(0.0, [BATCH.mean()] * 2), rtol=1e-5)
    mean_of_variances = np.mean([shard.var() for shard in shards])
    np.testing.assert_allclose(variance, moving(1.0, [mean_of_variances] * 2), rtol=1e-5)
    assert count in (2, None)


def centered_by_its_past(features):
    """Reads the moving mean, so that the gradient of the scale shows its value on each tower."""
    moving_average = moving_mean()
    before = tf.identity(moving_average)
    with v1.control_dependencies([before]):
        update = moved(moving_average, tf.reduce_mean(features, 0))
    v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, update)
    return features - before


@pytest.mark.parametrize(
    ("update_ops", "settings"), [("first", {}), ("mean", {}), ("mean", {"skip_nonfinite": 1})]
)
def test_all_towers_read_the_merged_statistics(update_ops, settings):
    found = states(centered_by_its_past, 2, update_ops, "forgotten", steps=3, **settings)
    seen = BATCH[:3] if update_ops == "first" else BATCH
    means = [moving(0.0, [seen.mean()] * steps) for steps in range(4)]
    np.testing.assert_allclose([state["mean"][0] for state in found], means[1:], rtol=1e-5)
    scales = 1.0 - 0.1 * np.cumsum([BATCH.mean() - mean for mean in means[:3]])
    np.testing.assert_allclose([state["scale"] for state in found], scales, rtol=1e-5)


BY_MODE = {
    "mean": [BATCH.mean()] * 2,
    "first": [BATCH[:3].mean()] * 2,
    "all": [BATCH[:3].mean(), BATCH[3:].mean()] * 2,
}


@pytest.mark.parametrize(
    ("layer", "update_ops", "use_resource"),
    [
        (normalized_in_place, "mean", True),
        (normalized_in_place, "first", True),
        (normalized_in_place, "mean", False),
        (normalized_in_place, "all", False),
        (in_branch_in_place, "mean", True),
        (in_branch_in_place, "first", True),
        (in_branch_in_place, "all", True),
        (in_branch, "mean", True),
        (in_branch, "first", True),
        (in_branch, "all", True),
    ],
)
def test_updates_in_branches_or_that_outputs_wait_for(layer, update_ops, use_resource):
    style = "dependencies" if layer is in_branch else "forgotten"
    found = states(layer, 2, update_ops, style, use_resource=use_resource)
    np.testing.assert_allclose(found[-1]["mean"], [moving(0.0, BY_MODE[update_ops])], rtol=1e-5)


def test_counters_of_updates_that_outputs_wait_for():
    one, two = (states(unbiased_in_place, towers, style="forgotten")[-1] for towers in (1, 2))
    assert two["count"] == one["count"] == 2
    np.testing.assert_allclose(two["mean"], one["mean"], rtol=1e-6)


@pytest.mark.parametrize(
    ("layer", "use_resource"),
    [
        (normalized, True),
        (normalized, False),
        (keras_normalized, True),
        (normalized_in_place, True),
    ],
)
def test_all_towers_one_after_the_other(layer, use_resource):
    """Towers that do not wait for each other meet in some of these steps."""
    found = states(layer, 3, "all", steps=10, use_resource=use_resource)
    shards = [shard.mean() for shard in np.split(BATCH, 3)]
    expected = [[moving(0.0, shards * steps)] for steps in range(1, 11)]
    np.testing.assert_allclose([state["mean"] for state in found], expected, rtol=1e-5)
    assert found[-1].get("count") in (30, None)


def test_all_towers_count_in_turn_where_updates_read_each_other():
    found = states(unbiased_in_place, 3, "all", "forgotten", steps=10)[-1]
    shards = [shard.mean() for shard in np.split(BATCH, 3)]
    assert found["count"] == 30
    unbiased = moving(0.0, shards * 10) / (1 - DECAY**30)
    np.testing.assert_allclose(found["mean"], [unbiased], rtol=1e-5)


def test_unequal_and_empty_shards_count_by_their_rows():
    mean, variance, _ = train(normalized, towers=4, batch=BATCH[:3], steps=1)
    np.testing.assert_allclose(mean, moving(0.0, [BATCH[:3].mean()]), rtol=1e-5)
    np.testing.assert_allclose(variance, moving(1.0, [0.0]), rtol=1e-5)


def test_copies_start_from_the_restored_value_and_are_not_saved(tmp_path):
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
                results.append(session.run({v.op.name: v for v in v1.global_variables()}))
    assert sorted(results[1]) == ["bn/count", "bn/mean", "bn/variance", "scale"]
    np.testing.assert_equal(results[1], results[2])


def counter(kind):
    if kind == "get_variable":
        return v1.get_variable("count", initializer=0.0, trainable=False)
    if kind == "Variable":
        return tf.Variable(0.0, trainable=False, name="count")
    return v1.Variable(0.0, trainable=False, name="count", use_resource=False)


def annealed(count, weights):
    return 0.1 * v1.assign_add(count, 1.0)


def counted(count, weights):
    with v1.control_dependencies([v1.assign_add(count, 1.0)]):
        return tf.constant(1.0)


def mean_teacher(count, weights):
    with v1.control_dependencies([v1.assign(count, 0.9 * count + 0.1 * tf.reduce_sum(weights))]):
        return tf.identity(count)


def spectral_norm(count, weights):
    u = v1.get_variable("u", [2], initializer=tf.ones_initializer(), trainable=False)
    matrix = tf.reshape(weights, [2, 2])
    with v1.control_dependencies(
        [v1.assign(u, tf.linalg.l2_normalize(tf.linalg.matvec(matrix, u)))]
    ):
        return 1.0 / tf.norm(tf.linalg.matvec(matrix, u))


@pytest.mark.parametrize("wraps", [True, False])
@pytest.mark.parametrize("kind", ["get_variable", "Variable", "reference"])
@pytest.mark.parametrize("factor", [annealed, counted, mean_teacher, spectral_norm])
def test_assignments_that_losses_wait_for_run_once_a_step(factor, kind, wraps):
    def model_fn(features, labels, mode):
        weights = v1.get_variable("weights", initializer=tf.constant([1.0, 2.0, 3.0, 5.0]))
        loss = tf.reduce_mean((features @ weights[:, None]) ** 2) * factor(counter(kind), weights)
        optimizer = v1.train.GradientDescentOptimizer(0.01)
        optimizer = optimizer if wraps else TowerOptimizer(optimizer)
        return EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss))

    check_same_on_towers(model_fn, wraps)


@pytest.mark.parametrize(
    ("wraps", "settings"), [(True, {}), (False, {}), (True, {"zero_debias": True})]
)
def test_averages_of_losses_that_gradients_wait_for(wraps, settings):
    def model_fn(features, labels, mode):
        with v1.variable_scope("net"):
            weights = v1.get_variable("weights", initializer=tf.constant([1.0, 2.0, 3.0, 5.0]))
            loss = tf.reduce_mean((features @ weights[:, None]) ** 2, name="loss")
            losses = [loss, tf.multiply(0.1, tf.nn.l2_loss(weights), name="loss")]
        losses += [tf.add_n(losses, name="total")]
        averages = v1.train.ExponentialMovingAverage(0.9, name="avg", **settings)
        optimizer = v1.train.GradientDescentOptimizer(0.01)
        optimizer = optimizer if wraps else TowerOptimizer(optimizer)
        with tf.control_dependencies([averages.apply(losses)]):
            gradients = optimizer.compute_gradients(losses[-1])
        return EstimatorSpec(
            mode, loss=averages.average(loss), train_op=optimizer.apply_gradients(gradients)
        )

    names = check_same_on_towers(model_fn, wraps, rows=7)
    assert {"net/loss_1/avg", "net/loss_2/avg", "total/avg"} <= names


def check_same_on_towers(model_fn, wraps, rows=8):
    """Compares all variables of towers with those of one tower, and returns their names."""
    batch = np.random.default_rng(0).normal(size=[rows, 4]).astype("f4")

    def trained(towers):
        devices = ["/cpu:0"] * towers
        with tf.Graph().as_default(), v1.Session() as session:
            tf.no_op("net/loss")  # A name that the first tower cannot have.
            model = replicate_model_fn(
                model_fn, devices=devices, wrap_optimizers=wraps, uneven="weighted"
            )
            spec = model(tf.constant(batch), None, "train")
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for _ in range(3):
                session.run(spec.train_op)
            return session.run({v.op.name: v for v in v1.global_variables()})

    one, four = trained(1), trained(4)
    assert four.keys() == one.keys()
    for name, value in one.items():
        np.testing.assert_allclose(four[name], value, rtol=1e-5, err_msg=name)
    return set(one)


def test_assignments_that_are_not_updates_are_left_alone(graph):
    def model_fn(features, labels, mode):
        total = v1.get_variable("total", initializer=5.0, trainable=False)
        v1.assign_add(total, tf.reduce_sum(features), name="add_by_hand")
        counter = tf.Variable(5.0, trainable=False, name="counter")
        counter.assign(0.0, name="reset_by_hand")
        scale = v1.get_variable("scale", initializer=1.0)
        return spec_of(mode, tf.reduce_mean(features * scale), "dependencies")

    spec = replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])(BATCH, None, ModeKeys.TRAIN)
    counters = [v for v in v1.global_variables() if v.op.name in ("counter", "total")]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(spec.train_op)
        assert session.run(counters) == [5.0, 5.0]
