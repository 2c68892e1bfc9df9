"""The specs of all towers merged into one."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.export import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
    TrainOutput,
)
from replicate.results.merge import merge_specs
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1

NO_METRICS = [[], []]


def merge(mode, specs, metric_variables=NO_METRICS):
    return merge_specs(mode, specs, metric_variables, "/device:CPU:3")


def evaluate(tensors):
    with v1.Session() as session:
        return session.run(tensors)


def test_one_spec_is_returned_as_it_is(graph):
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=tf.constant(1.0), train_op=tf.no_op())
    assert merge_specs(ModeKeys.TRAIN, [spec], [[]], "/cpu:0") is spec


def test_train_follows_the_last_tower_with_the_sum_of_losses(graph):
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


def test_eval_follows_the_first_tower_with_merged_metrics(graph):
    specs, variables = [], []
    for values in ([1.0, 2.0], [3.0, 10.0]):
        before = len(v1.get_collection(v1.GraphKeys.METRIC_VARIABLES))
        metric = v1.metrics.mean(tf.constant(values))
        variables.append(v1.get_collection(v1.GraphKeys.METRIC_VARIABLES)[before:])
        specs.append(
            EstimatorSpec(
                ModeKeys.EVAL, loss=tf.reduce_sum(values), eval_metric_ops={"mean": metric}
            )
        )
    merged = merge(ModeKeys.EVAL, specs, variables)
    value, update = merged.eval_metric_ops["mean"]
    with v1.Session() as session:
        session.run(v1.local_variables_initializer())
        assert session.run(merged.loss) == 16.0
        session.run(update)
        assert session.run(value) == 4.0


def test_keys_of_predictions_need_not_be_names_of_operations(graph):
    outputs = {"serving_default": PredictOutput(tf.zeros([1]))}
    keys = [0, ("a", 1), "two words", "_x"]
    specs = [
        EstimatorSpec(
            ModeKeys.PREDICT, dict.fromkeys(keys, tf.constant([tower])), export_outputs=outputs
        )
        for tower in range(2)
    ]
    merged = evaluate(merge(ModeKeys.PREDICT, specs).predictions)
    assert list(merged) == keys
    assert all(value.tolist() == [0, 1] for value in merged.values())


def test_predictions_are_concatenated_by_key(graph):
    specs = [
        EstimatorSpec(
            ModeKeys.PREDICT, predictions={"p": tf.constant(part), "q": tf.constant(part)}
        )
        for part in ([[1], [2]], [[3]])
    ]
    merged = merge(ModeKeys.PREDICT, specs)
    assert merged.predictions["p"].op.name == "p"
    assert merged.predictions["p"].device == "/device:CPU:3"
    default = merged.export_outputs["serving_default"]
    np.testing.assert_array_equal(evaluate(default.outputs["p"]), [[1], [2], [3]])
    np.testing.assert_array_equal(evaluate(merged.predictions["q"]), [[1], [2], [3]])


def test_predictions_end_with_the_rows_of_the_batch(graph):
    specs = [
        EstimatorSpec(ModeKeys.PREDICT, predictions=tf.constant(part))
        for part in ([1.0, 2.0], [3.0, 3.0])
    ]
    merged = merge_specs(ModeKeys.PREDICT, specs, NO_METRICS, "/cpu:0", rows=tf.constant(3))
    assert list(evaluate(merged.predictions)) == [1.0, 2.0, 3.0]


def test_bare_prediction_is_concatenated(graph):
    specs = [EstimatorSpec(ModeKeys.PREDICT, predictions=tf.constant([n])) for n in (1, 2)]
    np.testing.assert_array_equal(evaluate(merge(ModeKeys.PREDICT, specs).predictions), [1, 2])


def merged_exports(first, second):
    specs = [
        EstimatorSpec(ModeKeys.PREDICT, predictions=tf.constant([0]))._replace(
            export_outputs=export
        )
        for export in (first, second)
    ]
    return merge(ModeKeys.PREDICT, specs).export_outputs


def test_export_outputs_keep_their_kind_and_are_concatenated(graph):
    def export(n):
        return {
            "serving_default": PredictOutput({"x": tf.constant([n])}),
            "regress": RegressionOutput(tf.constant([float(n)])),
            "classify": ClassificationOutput(tf.constant([[0.5, n]]), tf.constant([["a", "b"]])),
            "scores": ClassificationOutput(scores=tf.constant([[float(n)]])),
            "scalar": ClassificationOutput(classes=tf.constant(str(n))),
        }

    merged = merged_exports(export(1), export(2))
    np.testing.assert_array_equal(evaluate(merged["serving_default"].outputs["x"]), [1, 2])
    np.testing.assert_array_equal(evaluate(merged["regress"].value), [1.0, 2.0])
    np.testing.assert_array_equal(evaluate(merged["classify"].scores), [[0.5, 1], [0.5, 2]])
    assert merged["classify"].classes.shape == [2, 2]
    assert merged["scores"].classes is None
    assert merged["scalar"].scores is None
    np.testing.assert_array_equal(evaluate(merged["scalar"].classes), [b"1", b"2"])


def test_export_output_of_one_tower_only_is_kept(graph):
    both = {"serving_default": PredictOutput(tf.constant([0]))}
    merged = merged_exports({**both, "a": RegressionOutput(tf.constant([1.0]))}, both)
    np.testing.assert_array_equal(evaluate(merged["a"].value), [1.0])


def test_unknown_export_output_is_refused_by_name(graph):
    with pytest.raises(TypeError, match=r"Cannot merge export output 'odd' over towers: it is T"):
        merged_exports({"odd": TrainOutput()}, {"odd": TrainOutput()})
