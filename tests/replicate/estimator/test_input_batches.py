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


def test_position_belongs_to_training_datasets():
    config = RunConfig(save_input_position=False)
    inputs = build(rows({"x": [1, 2]}))
    assert inputs.position is not None
    assert (list(inputs.features), inputs.labels) == (["x"], None)
    assert build(rows([1, 2]), ModeKeys.EVAL).position is None
    assert len(v1.get_collection(v1.GraphKeys.TABLE_INITIALIZERS)) == 1
    assert build(lambda: tf.zeros([2])).position is None
    assert build_inputs(rows([1, 2]), ModeKeys.TRAIN, {}, config).position is None


def test_tensors_are_made_on_the_cpu_with_keys_of_any_kind():
    inputs = build(lambda: [{"a": tf.zeros([2]), 0: tf.ones([2])}, {0: tf.zeros([2]), "b": 1}])
    assert (set(inputs.features), set(inputs.labels)) == ({"a", 0}, {0, "b"})
    assert inputs.features["a"].device.lower().endswith("cpu:0")
    assert batch_size(inputs.features) == 2


def test_labels_are_dropped_in_predict():
    features = {"x": tf.zeros([2, 3])}
    inputs = build(lambda: (features, tf.zeros([2])), ModeKeys.PREDICT)
    assert inputs.features is features
    assert inputs.labels is None


@pytest.mark.parametrize(
    ("returned", "error", "text"),
    [
        (None, ValueError, "input_fn returned None in mode 'train'"),
        ((1, 2, 3), ValueError, "got 3 parts"),
        ([], ValueError, "got 0"),
        (({"x": iter([1, 2])}, 3), TypeError, r"got the iterator .*from_generator"),
        ({"x": OUTSIDE}, TypeError, r"Tensor of shape \(2, 3\) that was made outside of it"),
    ],
)
def test_wrong_returns(returned, error, text):
    with pytest.raises(error, match=text):
        build(lambda: returned)


def test_batch_size_is_known_now_or_at_run_time_or_not_at_all(evaluate):
    assert batch_size({"x": tf.zeros([4, 2]), "y": tf.zeros([4])}) == 4
    features = v1.placeholder(tf.float32, [None, 2])
    assert evaluate(batch_size(features), {features: np.zeros([3, 2])}) == 3
    for nothing in (tf.zeros([]), {}, tf.sparse.from_dense([[1.0]])):
        assert batch_size(nothing) is None
