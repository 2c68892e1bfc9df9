"""replicate_model_fn: N towers train, evaluate and predict as one tower on the whole batch."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.graph_ops.checks import user_errors
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys
from replicate.tower.build import current_tower

v1 = tf.compat.v1
Reduction = v1.losses.Reduction

FEATURES = np.array([[1.0], [2.0]], np.float32)
LABELS = np.array([[1.0], [2.0]], np.float32)
TWO = ["/cpu:1", "/cpu:2"]


def reference_model_fn(features, labels, mode, params):
    """|c · x − y| with c = 10, summed over examples, as the old system's tests had it."""
    c = v1.get_variable("c", initializer=tf.constant(10.0))
    prediction = c * features
    loss = accuracy = train_op = None
    if mode != ModeKeys.PREDICT:
        loss = v1.losses.absolute_difference(labels, prediction, reduction=Reduction.SUM)
        accuracy = {"accuracy": v1.metrics.accuracy(labels, prediction / 10.0)}
    if mode == ModeKeys.TRAIN:
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(params["rate"]))
        train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    return EstimatorSpec(
        mode, loss=loss, train_op=train_op, eval_metric_ops=accuracy, predictions={"p": prediction}
    )


def run(fetches, *more):
    with v1.Session() as session, user_errors():
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        return [session.run(fetch) for fetch in (fetches, *more)]


def call(mode, model_fn=reference_model_fn, features=FEATURES, labels=LABELS, **how):
    how = {"loss_reduction": Reduction.SUM, "devices": TWO, **how}
    return replicate_model_fn(model_fn, **how)(features, labels, mode, params={"rate": 1.0})


def value_of_c():
    return next(variable for variable in v1.global_variables() if variable.op.name == "c")


@pytest.mark.parametrize(
    ("reduction", "loss", "after"), [(Reduction.SUM, 27.0, 7.0), (Reduction.MEAN, 13.5, 8.5)]
)
def test_training_step(graph, reduction, loss, after):
    spec = call(ModeKeys.TRAIN, loss_reduction=reduction)
    got, _, c = run(spec.loss, spec.train_op, value_of_c())
    assert (got, c) == (loss, after)
    assert [variable.op.name for variable in v1.global_variables()] == ["c", "global_step"]
    assert value_of_c().device == "/device:CPU:0"


def test_each_call_logs_the_device_plan(graph, caplog):
    with caplog.at_level("INFO", logger="absl"):
        call(ModeKeys.PREDICT, variables="round_robin")
    assert caplog.messages == [
        "Replicating model_fn in mode 'infer'. Towers: /device:CPU:1, /device:CPU:2. "
        "Variables: /device:CPU:1, /device:CPU:2. Consolidation: /device:CPU:0."
    ]
    assert value_of_c().device == "/device:CPU:1"


def test_evaluation_of_the_whole_batch_ignores_earlier_metrics(graph):
    v1.metrics.mean(tf.constant([1.0]))
    spec = call(ModeKeys.EVAL)
    value, update = spec.eval_metric_ops["accuracy"]
    loss, predicted, _, accuracy = run(spec.loss, spec.predictions["p"], update, value)
    assert (loss, accuracy) == (27.0, 1.0)
    np.testing.assert_array_equal(predicted, [[10.0], [20.0]])


def plain_optimizer_model_fn(features, labels, mode):
    loss = tf.reduce_sum(tf.abs(v1.get_variable("c", initializer=10.0) * features - labels))
    train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
    return EstimatorSpec(mode, loss=loss, train_op=train_op)


def test_a_plain_optimizer_trains_on_one_device_and_is_refused_on_several(graph):
    rows = np.ones([3, 1], np.float32)
    how = {"devices": ["/cpu:1"], "loss_reduction": Reduction.MEAN}
    spec = call(ModeKeys.TRAIN, plain_optimizer_model_fn, rows, rows, **how)
    loss, _, c = run(spec.loss, spec.train_op, value_of_c())
    assert (loss, c) == (27.0, 7.0)
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="Please wrap optimizers with TowerOptimizer in model_fn: "),
    ):
        call(ModeKeys.TRAIN, plain_optimizer_model_fn)


def test_each_tower_receives_what_estimator_passes(graph):
    received = []

    def model_fn(features, **named):
        received.append({**named, "features": features})
        return EstimatorSpec(named["mode"], predictions=features)

    params, config = {"rate": [1.0]}, ["config"]
    replicated = replicate_model_fn(model_fn, devices=TWO)
    replicated(FEATURES, LABELS, ModeKeys.PREDICT, params, config)
    assert len(received) == 2
    for given in received:
        assert sorted(given) == ["config", "features", "labels", "mode", "params"]
        assert (given["mode"], given["params"], given["config"]) == ("infer", params, config)
        assert given["params"]["rate"] is not params["rate"], "a model_fn may change its copy"
        assert given["labels"].shape == given["features"].shape == [1, 1]
    assert received[0]["params"] is received[1]["params"]


def test_last_tower_with_fewer_optimizer_calls_is_refused(graph):
    def model_fn(features, labels, mode):
        loss = tf.reduce_sum(v1.get_variable("c", shape=[]) * features)
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0))
        train_op = optimizer.minimize(loss)
        if current_tower().is_first:
            optimizer.minimize(loss)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    with pytest.raises(ValueError, match="was supposed to make the same optimizer calls"):
        call(ModeKeys.TRAIN, model_fn)


@pytest.mark.parametrize(
    ("rows", "uneven", "known"),
    [
        (1, "error", True),
        (1, "weighted", False),
        (2, "pad", False),
        (4, "error", False),
        (4, "weighted", True),
        (5, "weighted", False),
    ],
)
def test_prediction_takes_any_batch_and_no_tower_an_empty_shard(graph, rows, uneven, known):
    def model_fn(features, mode):
        filled = tf.debugging.assert_positive(tf.shape(features)[0])
        with tf.control_dependencies([filled]):
            return EstimatorSpec(mode, predictions={"double": 2 * features})

    values = np.arange(rows, dtype=np.float32)
    batch = v1.placeholder_with_default(values, [rows if known else None])
    devices = ["/cpu:0", "/cpu:1", "/cpu:2"]
    spec = call(ModeKeys.PREDICT, model_fn, batch, None, devices=devices, uneven=uneven)
    np.testing.assert_array_equal(run(spec.predictions["double"])[0], 2 * values)


def row_sums_model_fn(features, labels, mode):
    """c times the sums of sparse and of ragged rows."""
    sums = v1.sparse_reduce_sum(features["sparse"], 1) + tf.reduce_sum(features["ragged"], 1)
    outputs = v1.get_variable("c", initializer=1.0) * sums
    loss = tf.reduce_mean(outputs * labels)
    optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(1.0))
    train_op = optimizer.minimize(loss) if mode == ModeKeys.TRAIN else None
    metrics = {"mean": v1.metrics.mean(outputs)}
    return EstimatorSpec(mode, {"p": outputs}, loss, train_op, metrics)


@pytest.mark.parametrize("mode", [ModeKeys.TRAIN, ModeKeys.EVAL])
def test_padded_rows_count_as_copies_of_the_last(graph, mode):
    ragged = tf.ragged.constant([[1.0, 2.0], [], [3.0], [4.0, 5.0]])
    features, labels = {"ragged": ragged, "sparse": ragged.to_sparse()}, np.float32([1, 2, 3, 4])
    how = {"loss_reduction": Reduction.MEAN, "devices": ["/cpu:0"] * 3, "uneven": "pad"}
    spec = call(mode, row_sums_model_fn, features, labels, **how)
    sums, copies = np.array([6, 0, 6, 18]), [0, 1, 2, 3, 3, 3]
    loss = np.mean((sums * labels)[copies])
    if mode == ModeKeys.TRAIN:
        got, _, c = run(spec.loss, spec.train_op, value_of_c())
        np.testing.assert_allclose(c, 1 - loss, rtol=1e-6)
    else:
        value, update = spec.eval_metric_ops["mean"]
        got, predicted, _, mean = run(spec.loss, spec.predictions["p"], update, value)
        np.testing.assert_array_equal(predicted, sums)
        np.testing.assert_allclose(mean, sums[copies].mean(), rtol=1e-6)
    np.testing.assert_allclose(got, loss, rtol=1e-6)


@pytest.mark.parametrize(
    ("how", "error", "match"),
    [
        ({"model_fn": 3}, TypeError, r"model_fn must be a function fn\(features.* got 3"),
        ({"model_fn": lambda x: x}, TypeError, r"takes the arguments \['x'\], but must take feat"),
        ({"loss_reduction": Reduction.NONE}, ValueError, "none. reduction is specified"),
        ({"loss_reduction": "average"}, ValueError, "loss_reduction must be one of .*'average'"),
        ({"devices": ["/gpu:9"]}, ValueError, "Cannot put a tower on /device:GPU:9"),
        ({"uneven": "drop"}, ValueError, "uneven must be one of .*'drop'"),
        ({"update_ops": "last"}, ValueError, "update_ops must be one of .*'last'"),
        ({"summaries": "none"}, ValueError, "summaries must be one of .*'none'"),
        ({"reduction": "ring"}, ValueError, "reduction must be one of 'last', 'tree', 'sharded'"),
        ({"variables": "ps"}, ValueError, "variables must be one of .*'ps'"),
    ],
)
def test_wrong_arguments_are_refused_at_once(how, error, match):
    with pytest.raises(error, match=match):
        replicate_model_fn(**{"model_fn": reference_model_fn, **how})


@pytest.mark.parametrize(
    "mode", [ModeKeys.EVAL, pytest.param(ModeKeys.TRAIN, marks=pytest.mark.broad)]
)
def test_keras_metrics_of_towers_are_merged(graph, mean_metric, mode):
    def model_fn(features, labels, mode):
        c = v1.get_variable("c", initializer=1.0)
        loss = tf.reduce_mean(c * features)
        optimizer = TowerOptimizer(v1.train.GradientDescentOptimizer(0.0))
        train_op = optimizer.minimize(loss) if mode == ModeKeys.TRAIN else None
        metrics = {"labels": mean_metric(labels), "features": mean_metric(features)}
        return EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)

    features = np.arange(7, dtype=np.float32)[:, None]
    spec = call(mode, model_fn, features, features**2, uneven="weighted")
    updates = [update for _, update in spec.eval_metric_ops.values()]
    values = {name: value for name, (value, _) in spec.eval_metric_ops.items()}
    _, _, found = run(updates, updates, values)
    rows = features if mode == ModeKeys.EVAL else features[4:]
    assert found == pytest.approx({"features": np.mean(rows), "labels": np.mean(rows**2)})
    assert [variable.op.name for variable in v1.global_variables()] == ["c"]
