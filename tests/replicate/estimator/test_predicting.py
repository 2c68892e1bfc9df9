import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.predicting import batches, examples, open_prediction_session, select
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys


def test_batches_until_the_input_ends():
    with tf.Graph().as_default() as graph:
        v1 = tf.compat.v1
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(5).batch(2))
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        spec = EstimatorSpec(ModeKeys.PREDICT, predictions=iterator.get_next())
        session = open_prediction_session(spec, None, RunConfig())
    found = [values.tolist() for values in batches(session, graph, spec.predictions)]
    assert found == [[0, 1], [2, 3], [4]]


def test_select():
    predictions = {"a": 1, "b": 2}
    assert select(predictions, None) is predictions
    assert select(predictions, "a") == {"a": 1}
    assert select(predictions, ["b", "a"]) == predictions


@pytest.mark.parametrize(
    ("predictions", "text"),
    [({"a": 1}, r"\['c'\]: the model's predictions are \['a'\]"), (1, "are a single Tensor")],
)
def test_select_what_is_not_there(predictions, text):
    with pytest.raises(ValueError, match=text):
        select(predictions, ["c"])


def test_examples_of_a_dict():
    rows = list(examples({"a": np.array([1, 2]), "b": np.array([[3], [4]])}))
    assert rows == [{"a": 1, "b": [3]}, {"a": 2, "b": [4]}]


def test_examples_of_an_array():
    assert list(examples(np.array([1, 2]))) == [1, 2]


@pytest.mark.parametrize(
    "values",
    [{"a": np.zeros(2), "b": np.zeros(3)}, {"a": np.zeros(2), "b": np.float32(1)}, np.float32(1)],
)
def test_values_without_a_common_batch(values):
    with pytest.raises(ValueError, match="must all have the batch as their first dimension"):
        list(examples(values))
