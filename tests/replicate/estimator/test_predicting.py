import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.predicting import (
    batches,
    endless_input,
    examples,
    open_prediction_session,
    select,
)
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys

v1 = tf.compat.v1


def test_batches_until_the_input_ends():
    with tf.Graph().as_default() as graph:
        iterator = v1.data.make_initializable_iterator(tf.data.Dataset.range(5).batch(2))
        v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        spec = EstimatorSpec(ModeKeys.PREDICT, predictions=iterator.get_next())
        session = open_prediction_session(spec, None, RunConfig())
    found = [values.tolist() for values in batches(session, graph, spec.predictions)]
    assert found == [[0, 1], [2, 3], [4]]


def numbers():
    return tf.data.Dataset.range(3).batch(1)


def fed():
    return tf.data.Dataset.from_tensors(v1.placeholder(tf.int64, [1])).repeat()


def queued():
    queue = v1.FIFOQueue(1, tf.int64, [[1]])
    v1.train.add_queue_runner(v1.train.QueueRunner(queue, [queue.enqueue([[1]])]))
    return queue.dequeue()


@pytest.mark.parametrize(
    ("make_input", "is_endless"),
    [
        (lambda: tf.constant([1, 2]), True),
        (lambda: numbers().repeat(), True),
        (lambda: tf.data.Dataset.zip((numbers().repeat(), numbers().repeat())), True),
        (numbers, False),
        (lambda: numbers().repeat(2), False),
        (lambda: numbers().repeat().take(2), False),
        (lambda: tf.data.Dataset.zip((numbers().repeat(), numbers())), False),
        (fed, False),
        (queued, False),
        (lambda: v1.data.make_one_shot_iterator(numbers().repeat()).get_next(), False),
        (lambda: tf.numpy_function(lambda: np.ones(1), [], tf.float64), False),
    ],
)
def test_endless_input_gives_a_warning(make_input, is_endless, caplog):
    with tf.Graph().as_default() as graph:
        made = make_input()
        scaffold = None
        if isinstance(made, tf.data.Dataset):
            iterator = v1.data.make_initializable_iterator(made)
            holders = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
            feed = {holder: [7] for holder in holders}
            scaffold = v1.train.Scaffold(
                init_op=iterator.initializer, init_feed_dict=feed, local_init_op=tf.no_op()
            )
            made = iterator.get_next()
        predictions = {str(number): each for number, each in enumerate(tf.nest.flatten(made))}
        spec = EstimatorSpec(ModeKeys.PREDICT, predictions, scaffold=scaffold)
        condition = endless_input()
        session = open_prediction_session(spec, None, RunConfig())
    found = batches(session, graph, predictions, condition)
    next(found)
    found.close()
    assert ("predict never ends by itself" in caplog.text) == is_endless


def test_select():
    predictions = {"a": 1, "b": 2}
    assert select(predictions, None) is predictions
    assert select(predictions, "a") == {"a": 1}
    assert select(predictions, ["b", "a"]) == predictions


@pytest.mark.parametrize(
    ("predictions", "text"),
    [({"a": 1}, r"\['c'\]: the model's predictions are \['a'\]"), (1, "are a single Tensor")],
)
def test_select_of_unknown_keys_is_an_error(predictions, text):
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
