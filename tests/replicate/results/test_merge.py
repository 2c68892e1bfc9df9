"""Results of towers: losses, predictions, outputs and metrics merged into those of one."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.export import ClassificationOutput, PredictOutput, RegressionOutput, TrainOutput
from replicate.graph_ops.checks import user_errors
from replicate.results.merge import merge_specs
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


def merge(mode, specs):
    return merge_specs(mode, specs, "/device:CPU:3")


def test_one_spec_is_returned_as_it_is(graph):
    spec = EstimatorSpec(ModeKeys.TRAIN, loss=tf.constant(1.0), train_op=tf.no_op())
    assert merge_specs(ModeKeys.TRAIN, [spec], "/cpu:0") is spec


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
    merged = merge_specs(ModeKeys.PREDICT, specs, "/cpu:0", rows=tf.constant(3))
    assert list(evaluate(merged.predictions)) == [1.0, 2.0, 3.0]
    exported = merged.export_outputs
    assert list(evaluate(exported["serving_default"].value)) == [1.0, 2.0, 3.0]
    classify = exported["classify"]
    assert evaluate(classify.scores).shape == evaluate(classify.classes).shape == (3, 1)


def test_scalars_among_the_predictions_of_an_evaluation_are_the_first_towers(graph, evaluate):
    specs = [
        EstimatorSpec(
            ModeKeys.EVAL,
            loss=tf.constant(1.0),
            predictions={"number": tf.constant(n), "rows": tf.constant([n, n])},
        )
        for n in (5, 7)
    ]
    found = evaluate(merge(ModeKeys.EVAL, specs).predictions)
    assert found["number"] == 5
    assert list(found["rows"]) == [5, 5, 7, 7]


def test_rows_of_other_lengths_are_refused_with_what_to_do(graph):
    def merged(shapes, placeholder_shapes):
        parts = [v1.placeholder(tf.int32, shape) for shape in placeholder_shapes]
        specs = [EstimatorSpec(ModeKeys.PREDICT, predictions={"ids": part}) for part in parts]
        ids = merge(ModeKeys.PREDICT, specs).predictions["ids"]
        values = [np.full(shape, tower) for tower, shape in enumerate(shapes)]
        with v1.Session() as session, user_errors():
            return session.run(ids, dict(zip(parts, values, strict=True)))

    for unknown in ([[None, None]] * 2, [None] * 2):
        assert merged([[2, 7], [1, 7]], unknown).shape == (3, 7)
    lengths = (
        r"the predictions 'ids' of 2 towers: the shapes of their rows are \[7\], \[5\]. .* Pad"
    )
    for unknown in ([[None, None]] * 2, [None] * 2, [[2, 7], [2, 5]]):
        with pytest.raises(ValueError, match=lengths):
            merged([[2, 7], [2, 5]], unknown)
    with pytest.raises(ValueError, match="predictions 'ids' of 2 towers: they are scalars"):
        merged([[], []], [[], []])


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
