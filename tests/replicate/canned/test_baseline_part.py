"""The baseline's logits: one row per example, tied to the input."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.baseline_part import BaselinePart
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1


def logits(features, weight_key=None):
    part = BaselinePart(weight_key).build(features, 2, "infer", None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        part.variables[0].load(np.array([1, 2], np.float32), session)
        return session.run(part.logits)


@pytest.mark.parametrize(
    "feature",
    [
        lambda: [1.0, 2.0, 3.0],
        lambda: tf.SparseTensor([[0, 0]], [1], [3, 9]),
        lambda: tf.ragged.constant([[1], [], [2, 3]]),
        lambda: v1.placeholder_with_default(np.ones([3, 2]), [None, 2]),
    ],
    ids=["list", "sparse", "ragged", "unknown"],
)
def test_every_example_gets_the_bias(graph, feature):
    np.testing.assert_array_equal(logits({"x": feature()}), [[1, 2]] * 3)
    assert [each.op.name for each in v1.trainable_variables()] == ["baseline/bias"]


def test_features_must_have_equally_many_rows(graph):
    text = r"same number of rows\. Received \[2 1\] rows of x, y\.$"
    with pytest.raises(ValueError, match=text), user_errors():
        logits({"x": [1.0, 2.0], "y": [1.0]})


def test_weights_are_not_counted(graph):
    assert logits({"x": [1.0, 2.0], "w": [1.0]}, weight_key="w").shape == (2, 2)


def test_weights_alone_give_no_batch_size(graph):
    with pytest.raises(ValueError, match=r"no feature besides the weights: features has \['w'\]"):
        logits({"w": [1.0]}, weight_key="w")


def test_logits_wait_for_the_input(graph):
    """A batch of known size would otherwise give logits when the input has ended."""
    iterator = v1.data.make_one_shot_iterator(tf.data.Dataset.from_tensors({"x": [1.0, 2.0]}))
    part = BaselinePart(None).build(iterator.get_next(), 1, "infer", None)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(part.logits)
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(part.logits)
