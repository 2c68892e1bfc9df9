"""Metrics of towers are those of one tower that gets the parts of the batch one after the other."""

import contextlib
import importlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
M = v1.metrics
RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=[23, 3]).astype(np.float32)
Y = (X.sum(1) + RANDOM.normal(size=23)).astype(np.float32)
BATCHES = [slice(0, 8), slice(8, 11), slice(11, 23)]
"""Of 8, 3 and 12 rows: 4 towers get equal parts, an empty one, and equal ones."""
P = X.sum(1)


class Rows:
    """Keeps rows in Python, as evaluators of detections do."""

    def __init__(self):
        self.kept = []

    def add(self, rows):
        self.kept += list(rows)
        return np.int64(len(rows))

    def value(self):
        return np.float32(self.kept)


def in_python(rows, values, function=v1.numpy_function):
    update = function(rows.add, [values], tf.int64)
    return function(rows.value, [], tf.float32), tf.group(update)


def in_conditional(rows, values):
    update = tf.cond(
        tf.size(values) > 0,
        lambda: tf.numpy_function(rows.add, [values], tf.int64),
        lambda: tf.constant(0, tf.int64),
    )
    return tf.numpy_function(rows.value, [], tf.float32), update


def largest(kept, values):
    return kept, v1.assign(kept, tf.reduce_max(tf.concat([[kept], values], axis=0)))


def variable(name, initial=-9.0, **how):
    return v1.get_variable(name, initializer=initial, trainable=False, **how)


def from_five(values):
    kept = v1.get_local_variable("from_five", initializer=5.0)
    return kept, v1.assign_add(kept, tf.reduce_sum(values))


def metrics_of(labels, values, shared):
    local = {"collections": [v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES]}
    return {
        "mean": M.mean(values),
        "accuracy": M.accuracy(labels > 0, values > 0),
        "from 5": from_five(values),
        "largest": largest(v1.get_local_variable("largest", initializer=-9.0), values),
        "largest, own": largest(v1.Variable(-9.0, trainable=False, **local), values),
        "largest, listed": largest(variable("listed", **local), values),
        "largest, global": largest(variable("global"), values),
        "rows": in_python(Rows(), values),
        "rows, shared": in_python(shared, values, v1.py_func),
        "rows, eager": in_python(Rows(), values, eager_function),
        "rows, conditional": in_conditional(Rows(), values),
        "mean of Python": M.mean(tf.numpy_function(lambda rows: rows + 1, [values], tf.float32)),
    }


def eager_function(function, inputs, dtype):
    return tf.py_function(lambda *given: function(*(each.numpy() for each in given)), inputs, dtype)


EXPECTED = {
    "mean": P.mean(),
    "accuracy": np.mean((Y > 0) == (P > 0)),
    "from 5": 5 + P.sum(),
    **{f"largest{which}": P.max() for which in ("", ", own", ", listed", ", global")},
    **{f"rows{which}": P for which in ("", ", shared", ", eager", ", conditional")},
    "mean of Python": P.mean() + 1,
}


@contextlib.contextmanager
def as_in_version_1():
    """Reference variables and conditionals of switches."""
    v1.disable_resource_variables()
    v1.disable_control_flow_v2()
    try:
        yield
    finally:
        v1.enable_resource_variables()
        v1.enable_control_flow_v2()


def evaluated(make, towers):
    """Returns the metrics over BATCHES."""

    def model_fn(features, labels, mode):
        values = tf.reduce_sum(features, axis=1)
        return EstimatorSpec(
            mode, values, tf.reduce_mean(values), eval_metric_ops=make(labels, values)
        )

    with tf.Graph().as_default():
        features = v1.placeholder(tf.float32, [None, 3])
        labels = v1.placeholder(tf.float32, [None])
        devices = [f"/cpu:{number % 3}" for number in range(towers)]
        how = {"uneven": "weighted", "variables": "round_robin"}
        replicated = replicate_model_fn(model_fn, devices=devices, **how)
        spec = replicated(features, labels, ModeKeys.EVAL)
        updates = [update for _, update in spec.eval_metric_ops.values()]
        with v1.Session() as session:
            session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
            for rows in BATCHES:
                session.run([*updates, spec.loss], {features: X[rows], labels: Y[rows]})
            return session.run({name: value for name, (value, _) in spec.eval_metric_ops.items()})


@pytest.mark.parametrize("style", [contextlib.nullcontext, as_in_version_1])
@pytest.mark.parametrize("towers", [2, 4])
def test_metrics_of_all_kinds_are_exact(towers, style):
    shared = Rows()
    with style():
        found = evaluated(lambda *given: metrics_of(*given, shared), towers)
    assert found.keys() == EXPECTED.keys()
    for name, expected in EXPECTED.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-5, err_msg=name)


@pytest.mark.parametrize("style", [contextlib.nullcontext, as_in_version_1])
def test_streaming_metrics_are_those_of_one_tower_and_of_numpy(style):
    pytest.importorskip("tf_slim")
    slim = importlib.import_module("replicate.compat.contrib").metrics

    def make(labels, values):
        return {
            "correlation": slim.streaming_pearson_correlation(values, labels),
            "covariance": slim.streaming_covariance(values, labels),
            "rows": slim.streaming_concat(values),
            "auc": M.auc(labels > 0, tf.sigmoid(values)),
        }

    with style():
        one, four = (evaluated(make, towers) for towers in (1, 4))
    for found in (one, four):
        np.testing.assert_allclose(found["correlation"], np.corrcoef(P, Y)[0, 1], rtol=1e-5)
        np.testing.assert_allclose(found["covariance"], np.cov(P, Y)[0, 1], rtol=1e-5)
        np.testing.assert_allclose(found["rows"], P, rtol=1e-5)
        np.testing.assert_allclose(found["auc"], one["auc"], rtol=1e-6)


def by_call(*makers):
    """Makes other metrics in each call."""
    left = list(makers)

    def make(labels, values):
        return left.pop(0)(labels, values)

    return make


def mean(labels, values):
    return {"m": M.mean(values)}


def test_towers_with_different_metrics_are_refused():
    two_more = by_call(mean, lambda labels, values: {"m": M.mean(values), "n": M.mean(labels)})
    with pytest.raises(
        ValueError,
        match=r"Different eval_metric_ops across towers. The metrics of tower 0 are \['m'\], but "
        r"those of tower 1 are \['m', 'n'\]. Each call",
    ):
        evaluated(two_more, 2)
    with pytest.raises(ValueError, match=r"The metrics of tower 0 are \[\], but"):
        evaluated(by_call(lambda *_: {}, mean), 2)
    other = by_call(mean, lambda labels, values: {"m": M.auc(labels > 0, tf.sigmoid(values))})
    with pytest.raises(
        ValueError, match=r"tables of tower 0 are \[VarHandleOp float32 \(\), VarHandleOp float32"
    ):
        evaluated(other, 2)
    others = (
        lambda labels, values, function=function: {"m": in_python(Rows(), values, function)}
        for function in (v1.numpy_function, eager_function)
    )
    with pytest.raises(ValueError, match=r"The calls of Python of tower 0 are \[PyFunc\(float32"):
        evaluated(by_call(*others), 2)


def test_a_state_that_changes_in_a_loop_of_version_1_is_refused_by_name():
    def make(labels, values):
        kept = v1.get_local_variable("kept", initializer=0.0)
        done = v1.while_loop(lambda i: i < 3, lambda i: i + 0 * kept.assign_add(1.0) + 1, [0.0])
        return {"mine": (kept, done), "other": M.mean(values)}

    with (
        as_in_version_1(),
        pytest.raises(ValueError, match=r"Cannot evaluate metric 'mine' on several towers: its up"),
    ):
        evaluated(make, 2)
    assert evaluated(make, 2)["mine"] == 18  # 3 times by each of 2 towers in 3 batches.
