"""Estimators of networks: a step, training, export, warm start, and errors."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import DNNClassifier, DNNRegressor

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column
X = fc.numeric_column("x")
WORD = fc.categorical_column_with_vocabulary_list("word", ["a", "b", "c"])
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)


def test_named_optimizer_has_the_rate_of_networks(train_steps, tmp_path):
    """The network is 3 · (2x)²."""
    estimator = DNNRegressor(
        [1], [X], str(tmp_path), optimizer="SGD", activation_fn=tf.square, loss_reduction="sum"
    )
    kernels = {"dnn/hiddenlayer_0/kernel": [[2.0]], "dnn/logits/kernel": [[3.0]]}
    done = train_steps(estimator, {"x": [1.0, 2.0]}, [10.0, 40.0], initial=kernels)
    assert done.losses == [2**2 + 8**2]
    np.testing.assert_allclose(done.variables["dnn/logits/bias"], [-0.05 * 2 * (2 + 8)], rtol=1e-5)
    kernel = 3 - 0.05 * 2 * (2 * 4 + 8 * 16)
    np.testing.assert_allclose(done.variables["dnn/logits/kernel"], [[kernel]], rtol=1e-5)


def input_fn():
    features = {
        "x": np.array([[0.0], [1.0], [2.0], [3.0]], np.float32),
        "word": np.array([["a"], ["b"], ["c"], ["a"]]),
    }
    return tf.data.Dataset.from_tensors((features, np.array([0, 1, 2, 0]))).repeat(60)


def classifier(model_dir, **arguments):
    columns = [X, fc.embedding_column(WORD, 2), fc.indicator_column(WORD)]
    return DNNClassifier([8, 4], columns, str(model_dir), n_classes=3, config=CONFIG, **arguments)


@pytest.fixture(scope="module")
def trained(plain_sessions, tmp_path_factory):
    """A classifier that has learnt the words."""
    model_dir = tmp_path_factory.mktemp("trained")
    return classifier(model_dir, optimizer="Adam").train(input_fn)


def test_trains_evaluates_and_predicts(trained):
    results = trained.evaluate(input_fn, steps=1)
    assert results["loss"] == pytest.approx(results["average_loss"])
    assert results["global_step"] == 60
    predictions = list(trained.predict(lambda: input_fn().take(1)))
    assert [each["class_ids"][0] for each in predictions] == [0, 1, 2, 0]
    assert results["accuracy"] == 1


def serialized(number, word):
    feature = {
        "x": tf.train.Feature(float_list=tf.train.FloatList(value=[number])),
        "word": tf.train.Feature(bytes_list=tf.train.BytesList(value=[word])),
    }
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def test_exported_model_predicts_the_same(trained, tmp_path):
    expected = [each["probabilities"] for each in trained.predict(lambda: input_fn().take(1))]
    spec = fc.make_parse_example_spec([X, fc.indicator_column(WORD)])
    receive = replicate.export.build_parsing_serving_input_receiver_fn(spec)
    path = trained.export_saved_model(str(tmp_path), receive).decode()
    signatures = tf.saved_model.load(path).signatures
    assert {"serving_default", "classification", "predict"} <= set(signatures)
    examples = [serialized(*row) for row in enumerate([b"a", b"b", b"c", b"a"])]
    found = signatures["serving_default"](tf.constant(examples))
    np.testing.assert_allclose(found["scores"], expected, rtol=1e-5)
    assert found["classes"].numpy().tolist() == [[b"0", b"1", b"2"]] * 4


def test_warm_start_takes_all_weights(trained, tmp_path):
    other = classifier(tmp_path, optimizer="SGD", warm_start_from=trained.model_dir)
    other.train(input_fn, steps=1)
    name = "dnn/input_from_feature_columns/input_layer/word_embedding/embedding_weights"
    difference = other.get_variable_value(name) - trained.get_variable_value(name)
    assert np.abs(difference).max() < 0.01


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"feature_columns": [WORD]}, "categorical column 'word' of feature_columns"),
        ({"dropout": -1}, "dropout must be in"),
        ({"optimizer": 3}, "DNNClassifier: optimizer must be one of the names"),
    ],
)
def test_wrong_arguments_are_refused(arguments, text, tmp_path):
    given = {"hidden_units": [2], "feature_columns": [X], "model_dir": str(tmp_path), **arguments}
    with pytest.raises(ValueError, match=text):
        DNNClassifier(**given)


class KillAt(v1.train.SessionRunHook):
    def __init__(self, step):
        self._step = step

    def before_run(self, context):
        return v1.train.SessionRunArgs(v1.train.get_global_step())

    def after_run(self, context, values):
        if values.results == self._step:
            raise RuntimeError("killed")


def shuffled_batches():
    rows = np.arange(24, dtype=np.float32)[:, None] / 24
    return tf.data.Dataset.from_tensor_slices(({"x": rows}, rows)).shuffle(24, 1).repeat().batch(8)


@pytest.mark.broad
def test_killed_training_with_dropout_resumes_exactly(tmp_path, own_log):
    def estimator(name):
        settings = {"config": CONFIG.replace(save_checkpoints_steps=3), "dropout": 0.4}
        return DNNRegressor([8], [X], str(tmp_path / name), **settings, devices=["/cpu:0"] * 2)

    whole = estimator("whole").train(shuffled_batches, max_steps=5)
    with pytest.raises(RuntimeError, match="killed"):
        estimator("killed").train(shuffled_batches, hooks=[KillAt(4)], max_steps=5)
    resumed = estimator("killed").train(shuffled_batches, max_steps=5)
    assert "Checkpoints cannot hold the state" not in own_log.text
    for name in whole.get_variable_names():
        expected, got = whole.get_variable_value(name), resumed.get_variable_value(name)
        np.testing.assert_array_equal(got, expected, err_msg=name)


def test_labels_out_of_range_are_told_in_the_words_of_the_head(tmp_path):
    """The error of a step comes out of train as a ValueError."""
    estimator = DNNClassifier([2], [X], str(tmp_path), n_classes=3, config=CONFIG)
    text = (
        r"^Cannot compute the loss of MultiClassHead: labels must be in \[0, 2\]\. Raise n_classes"
        r", or correct the labels\. Received smallest_label: 0, largest_label: 3\.$"
    )
    with pytest.raises(ValueError, match=text):
        estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [0.0, 1.0]}, [0, 3])))
