"""Metrics of several towers merged into those of the whole batch."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.results.metrics import merge_metrics

v1 = tf.compat.v1


def build(labels, predictions, shards):
    """Accuracy, mean and AUC on consecutive shards; returns ops and variables of each tower."""
    ops, variables = [], []
    for rows in np.split(np.arange(len(labels)), shards):
        before = len(v1.get_collection(v1.GraphKeys.METRIC_VARIABLES))
        label, prediction = labels[rows], predictions[rows]
        ops.append(
            {
                "accuracy": v1.metrics.accuracy(label, np.round(prediction)),
                "mean": v1.metrics.mean(prediction),
                "auc": v1.metrics.auc(label, prediction),
            }
        )
        variables.append(v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)[before:])
    return ops, variables


@pytest.fixture
def data():
    random = np.random.default_rng(0)
    return random.integers(0, 2, 10), random.random(10).astype(np.float32)


def run(metrics, updates):
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        for _ in range(updates):
            session.run([update for _, update in metrics.values()])
        return session.run({name: value for name, (value, _) in metrics.items()})


@pytest.mark.parametrize("shards", [[5], [1, 7], [3]])
def test_merged_metrics_equal_those_of_one_tower(graph, data, shards):
    merged = run(merge_metrics(*build(*data, shards)), updates=2)
    whole = run(build(*data, [])[0][0], updates=2)
    labels, predictions = data
    assert merged["accuracy"] == np.float32(np.mean(np.round(predictions) == labels))
    for name, value in whole.items():
        np.testing.assert_allclose(merged[name], value, rtol=1e-6)


def test_order_in_which_variables_are_listed_does_not_matter(graph, data):
    ops, variables = build(*data, [5])
    merged = run(merge_metrics(ops, [variables[0], variables[1][::-1]]), updates=1)
    assert merged["mean"] == pytest.approx(np.mean(data[1]))


def test_reducing_again_without_updates_changes_nothing(graph):
    total = [v1.Variable(value, collections=["local"]) for value in (1.0, 2.0, 4.0)]
    metrics = merge_metrics(
        [{"m": (variable.read_value(), tf.no_op())} for variable in total],
        [[variable] for variable in total],
    )
    value, update = metrics["m"]
    with v1.Session() as session:
        session.run([variable.initializer for variable in total])
        for _ in range(3):
            session.run(update)
            assert session.run(value) == 7.0
        assert session.run(total) == [7.0, 0.0, 0.0]


def test_all_metrics_share_one_update(graph, data):
    metrics = merge_metrics(*build(*data, [5]))
    assert len({update.name for _, update in metrics.values()}) == 1


def test_towers_with_different_metrics_are_refused(graph):
    variables = [[v1.Variable(0.0)], []]
    with pytest.raises(
        ValueError,
        match=r"Different eval_metric_ops .*Expected 1 local variables, but got 0 instead",
    ):
        merge_metrics([{"m": (None, tf.no_op())}] * 2, variables)


def test_no_metrics_merge_into_none(graph):
    assert merge_metrics([{}, {}], [[], []]) == {}
    assert merge_metrics([None, None], [[], []]) == {}
