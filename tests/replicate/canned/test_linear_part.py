"""Linear parts: variables, summaries, the builder, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.linear_part import linear_logit_fn_builder, make_linear_part
from replicate.spec import ModeKeys

v1 = tf.compat.v1
fc = tf.feature_column

X = fc.numeric_column("x", shape=[2])
FEATURES = {"x": [[1.0, 2.0], [-3.0, 1.0]]}


def summaries(session):
    summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    return {value.tag: value.simple_value for value in summary.value}


def test_part_is_below_its_scope_and_summarized_in_training(graph):
    part = make_linear_part([X], "sum", None).build(FEATURES, 1, ModeKeys.TRAIN, None)
    assert [each.op.name for each in part.variables] == [
        "linear/linear_model/x/weights",
        "linear/linear_model/bias_weights",
    ]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        part.variables[0].load(np.array([[3.0], [0.0]], np.float32), session)
        part.variables[1].load(np.array([7.0], np.float32), session)
        np.testing.assert_allclose(session.run(part.logits), [[10], [-2]])
        assert summaries(session) == {"bias": 7, "fraction_of_zero_weights": 0.5}


def test_evaluation_of_partitioned_weights_makes_no_summaries(graph):
    part = make_linear_part([X], "sum", v1.fixed_size_partitioner(2))
    names = [each.op.name for each in part.build(FEATURES, 2, ModeKeys.EVAL, None).variables]
    assert names[0] == "linear/linear_model/x/weights/part_0"
    assert v1.get_collection(v1.GraphKeys.SUMMARIES) == []


def test_builder_leaves_the_scope_to_its_caller(graph):
    logit_fn = linear_logit_fn_builder(units=3, feature_columns=[X])
    with v1.variable_scope("mine", partitioner=v1.fixed_size_partitioner(2)):
        logits = logit_fn(FEATURES)
    assert logits.shape.as_list() == [2, 3]
    assert v1.trainable_variables()[0].op.name == "mine/linear_model/x/weights/part_0"
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert set(summaries(session)) == {"mine/bias", "mine/fraction_of_zero_weights"}


@pytest.mark.parametrize("units", [{"head": 2}, 2.0, True])
def test_units_must_be_an_int(units):
    with pytest.raises(ValueError, match="units must be an int, the logits per example, got"):
        linear_logit_fn_builder(units, [X])
