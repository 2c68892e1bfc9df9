"""Results of towers: losses, predictions, outputs and metrics merged into those of one."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.export import ClassificationOutput, PredictOutput, RegressionOutput, TrainOutput
from replicate.results.merge import merge_specs
from replicate.results.metrics import merge_metrics
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1
NO_METRICS = [[], []]


def merge(mode, specs, metric_variables=NO_METRICS):
    return merge_specs(mode, specs, metric_variables, "/device:CPU:3")


def test_one_spec_is_returned_as_it_is(graph):
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=tf.constant(1.0), train_op=tf.no_op())
    assert merge_specs(ModeKeys.TRAIN, [spec], [[]], "/cpu:0") is spec


def test_train_follows_the_last_tower_with_the_sum_of_losses(graph, evaluate):
    hooks = [v1.train.SessionRunHook(), v1.train.SessionRunHook()]
    specs = [
        EstimatorSpec(
            ModeKeys.TRAIN,
            loss=tf.constant(loss),
            train_op=tf.no_op(),
            predictions={"p": tf.constant(loss)},
            training_hooks=[hook],
        )
        for loss, hook in zip([1.0, 2.5], hooks, strict=True)
    ]
    merged = merge(ModeKeys.TRAIN, specs)
    assert type(merged) is EstimatorSpec
    assert merged.train_op is specs[1].train_op
    assert merged.predictions is specs[1].predictions
    assert list(merged.training_hooks) == [hooks[1]]
    assert merged.loss.op.name == "loss"
    assert merged.loss.device == "/device:CPU:3"
    assert evaluate(merged.loss) == 3.5


def test_keys_of_predictions_need_not_be_names_of_operations(graph, evaluate):
    outputs = {"serving_default": PredictOutput(tf.zeros([1]))}
    keys = [0, ("a", 1), "two words", "_x", "p"]
    specs = [
        EstimatorSpec(
            ModeKeys.PREDICT, dict.fromkeys(keys, tf.constant([tower])), export_outputs=outputs
        )
        for tower in range(2)
    ]
    merged = merge(ModeKeys.PREDICT, specs).predictions
    assert merged["p"].op.name == "p"
    assert merged["p"].device == "/device:CPU:3"
    found = evaluate(merged)
    assert list(found) == keys
    assert all(value.tolist() == [0, 1] for value in found.values())


def test_predictions_and_outputs_end_with_the_rows_of_the_batch(graph, evaluate):
    def exports(part):
        names = tf.as_string(part)
        return {
            "serving_default": RegressionOutput(part),
            "classify": ClassificationOutput(part[:, tf.newaxis], names[:, tf.newaxis]),
        }

    specs = [
        EstimatorSpec(ModeKeys.PREDICT, predictions=part)._replace(export_outputs=exports(part))
        for part in (tf.constant([1.0, 2.0]), tf.constant([3.0, 3.0]))
    ]
    merged = merge_specs(ModeKeys.PREDICT, specs, NO_METRICS, "/cpu:0", rows=tf.constant(3))
    assert list(evaluate(merged.predictions)) == [1.0, 2.0, 3.0]
    exported = merged.export_outputs
    assert list(evaluate(exported["serving_default"].value)) == [1.0, 2.0, 3.0]
    classify = exported["classify"]
    assert evaluate(classify.scores).shape == evaluate(classify.classes).shape == (3, 1)


def merged_exports(first, second):
    specs = [
        EstimatorSpec(ModeKeys.PREDICT, predictions=tf.constant([0]))._replace(
            export_outputs=export
        )
        for export in (first, second)
    ]
    return merge(ModeKeys.PREDICT, specs).export_outputs


def test_export_outputs_keep_their_kind_and_are_concatenated(graph, evaluate):
    def export(n):
        return {
            "serving_default": PredictOutput({"x": tf.constant([n])}),
            "classify": ClassificationOutput(tf.constant([[0.5, n]]), tf.constant([["a", "b"]])),
            "scores": ClassificationOutput(scores=tf.constant([[float(n)]])),
            "scalar": ClassificationOutput(classes=tf.constant(str(n))),
        }

    once = {"of_one_tower": RegressionOutput(tf.constant([1.0]))}
    merged = merged_exports({**export(1), **once}, export(2))
    np.testing.assert_array_equal(evaluate(merged["of_one_tower"].value), [1.0])
    np.testing.assert_array_equal(evaluate(merged["serving_default"].outputs["x"]), [1, 2])
    np.testing.assert_array_equal(evaluate(merged["classify"].scores), [[0.5, 1], [0.5, 2]])
    assert merged["classify"].classes.shape == [2, 2]
    assert merged["scores"].classes is None
    assert merged["scalar"].scores is None
    np.testing.assert_array_equal(evaluate(merged["scalar"].classes), [b"1", b"2"])


def test_unknown_export_output_is_refused_by_name(graph):
    with pytest.raises(TypeError, match=r"Cannot merge export output 'odd' over towers: it is T"):
        merged_exports({"odd": TrainOutput()}, {"odd": TrainOutput()})


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


@pytest.mark.parametrize("shards", [[5], [1, 7]])
def test_merged_metrics_equal_those_of_one_tower_with_one_update(graph, data, shards):
    ops, (first, *others) = build(*data, shards)
    metrics = merge_metrics(ops, [first, *(variables[::-1] for variables in others)])
    assert len({update.name for _, update in metrics.values()}) == 1
    merged = run(metrics, updates=2)
    whole = run(build(*data, [])[0][0], updates=2)
    labels, predictions = data
    assert merged["accuracy"] == np.float32(np.mean(np.round(predictions) == labels))
    for name, value in whole.items():
        np.testing.assert_allclose(merged[name], value, rtol=1e-6)


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
