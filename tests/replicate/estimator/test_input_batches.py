import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.input_batches import batch_size, build_inputs
from replicate.estimator.run_config import RunConfig
from replicate.spec import ModeKeys

v1 = tf.compat.v1

OUTSIDE = tf.zeros([2, 3])

pytestmark = pytest.mark.usefixtures("graph")


def build(input_fn, mode=ModeKeys.TRAIN):
    return build_inputs(input_fn, mode, {}, RunConfig())


def rows(*parts):
    return lambda: tf.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0]).batch(
        2
    )


def test_dataset_of_features_and_labels():
    inputs = build(rows([1, 2, 3], [4, 5, 6]))
    with v1.Session() as session:
        inputs.position.begin(session, None)
        features, labels = session.run([inputs.features, inputs.labels])
        np.testing.assert_array_equal(features, [1, 2])
        np.testing.assert_array_equal(labels, [4, 5])


def test_dataset_of_features_only():
    inputs = build(rows({"x": [1, 2]}))
    assert list(inputs.features) == ["x"]
    assert inputs.labels is None


def test_config_can_turn_the_position_off():
    config = RunConfig(save_input_position=False)
    assert build_inputs(rows([1, 2]), ModeKeys.TRAIN, {}, config).position is None


def test_position_belongs_to_training_datasets():
    assert build(rows([1, 2])).position is not None
    assert build(rows([1, 2]), ModeKeys.EVAL).position is None
    assert len(v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)) == 1
    assert build(lambda: tf.zeros([2])).position is None


@pytest.mark.parametrize("container", [tuple, list])
def test_tensors(container):
    features, labels = tf.zeros([2, 3]), tf.zeros([2])
    inputs = build(lambda: container((features, labels)))
    assert inputs.features is features
    assert inputs.labels is labels


def test_keys_may_be_numbers_and_strings_at_once():
    features, labels = {"a": tf.zeros([2]), 0: tf.zeros([2])}, {0: tf.zeros([2]), "b": tf.ones([2])}
    inputs = build(lambda: (features, labels))
    assert (inputs.features, inputs.labels) == (features, labels)
    assert batch_size(features) == 2


def test_labels_are_dropped_in_predict():
    features = {"x": tf.zeros([2, 3])}
    inputs = build(lambda: (features, tf.zeros([2])), ModeKeys.PREDICT)
    assert inputs.features is features
    assert inputs.labels is None


def test_input_is_made_on_the_cpu():
    inputs = build(lambda: tf.zeros([2, 3]))
    assert inputs.features.device.lower().endswith("cpu:0")


@pytest.mark.parametrize(
    ("returned", "text"),
    [(None, "input_fn returned None in mode 'train'"), ((1, 2, 3), "got 3 parts"), ([], "got 0")],
)
def test_wrong_returns(returned, text):
    with pytest.raises(ValueError, match=text):
        build(lambda: returned)


def test_iterators_are_refused():
    with pytest.raises(TypeError, match=r"got the iterator .*from_generator"):
        build(lambda: ({"x": iter([1, 2])}, tf.zeros([2])))


def test_tensors_made_outside_are_refused():
    with pytest.raises(TypeError, match=r"Tensor of shape \(2, 3\) that was made outside of it"):
        build(lambda: {"x": OUTSIDE})


def test_batch_size_known_now():
    assert batch_size({"x": tf.zeros([4, 2]), "y": tf.zeros([4])}) == 4


def test_batch_size_known_at_run_time(evaluate):
    features = v1.placeholder(tf.float32, [None, 2])
    assert evaluate(batch_size(features), {features: np.zeros([3, 2])}) == 3


def test_batch_size_unknown():
    assert batch_size(tf.zeros([])) is None
    assert batch_size({}) is None
    assert batch_size(tf.sparse.from_dense([[1.0]])) is None
