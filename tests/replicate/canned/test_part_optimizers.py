"""Optimizers of parts: what is handed to `register`, and when."""

import logging
import shutil

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.estimator.log import log

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column

JOB = fc.categorical_column_with_identity("job", 3)
DENSE = [fc.numeric_column("x", [2]), fc.embedding_column(JOB, 2)]
FEATURES = {"x": np.ones([4, 2], np.float32), "job": np.array([0, 1, 2, 1]), "w": np.ones(4)}
LABELS = np.array([0, 1, 2, 1])


class Recording:
    """An optimizer function that keeps what it was told, in order."""

    def __init__(self):
        self.calls = []

    def register(self, model):
        self.calls.append(model)

    def __call__(self):
        self.calls.append("made")
        return v1.train.GradientDescentOptimizer(0.1)


def test_model_is_registered_in_each_tower_before_the_optimizer_is_made(train_steps, tmp_path):
    optimizer = Recording()
    settings = {"n_classes": 3, "weight_column": "w", "devices": ["/cpu:0", "/cpu:1"]}
    estimator = replicate.DNNClassifier([5], DENSE, str(tmp_path), optimizer=optimizer, **settings)
    train_steps(estimator, FEATURES, LABELS)
    first, made, second = optimizer.calls
    assert made == "made"
    for one, other in zip(first.layers, second.layers, strict=True):
        assert one.kernel is other.kernel
        assert one.inputs is not other.inputs
    assert first.variables == second.variables
    assert [(layer.kind, layer.kernel.shape.as_list()) for layer in first.layers] == [
        ("embedding", [3, 2]),
        ("dense", [4, 5]),
        ("dense", [5, 3]),
    ]
    assert [layer.bias is None for layer in first.layers] == [True, False, False]
    assert [layer.outputs.shape.as_list() for layer in first.layers] == [[2, 2], [2, 5], [2, 3]]
    assert len(first.variables) == 5
    (loss,) = first.losses
    assert (loss.kind, loss.coefficient, loss.logits.shape.as_list()) == ("categorical", 1, [2, 3])
    assert (first.loss_reduction, first.head) == ("sum_over_batch_size", "MultiClassHead")


def test_parts_are_registered_for_their_own_optimizers(train_steps, tmp_path):
    dnn, linear = Recording(), Recording()
    estimator = replicate.DNNLinearCombinedRegressor(
        str(tmp_path),
        linear_feature_columns=[JOB, fc.numeric_column("x", [2])],
        linear_optimizer=linear,
        dnn_feature_columns=DENSE,
        dnn_optimizer=dnn,
        dnn_hidden_units=[3],
    )
    train_steps(estimator, FEATURES, LABELS.astype(np.float32))
    assert [layer.kind for layer in linear.calls[0].layers] == ["embedding", "dense"]
    assert [layer.kind for layer in dnn.calls[0].layers] == ["embedding", "dense", "dense"]
    assert linear.calls[0].losses[0].logits is dnn.calls[0].losses[0].logits
    assert len(linear.calls[0].variables) == 3


def test_unknown_losses_are_left_out_of_the_record(train_steps, tmp_path):
    head, optimizer = replicate.PoissonRegressionHead(), Recording()
    estimator = replicate.LinearEstimator(head, [JOB], str(tmp_path), optimizer=optimizer)
    with tf.Graph().as_default():
        estimator.model_fn(FEATURES, LABELS, "eval", estimator.config)
    assert optimizer.calls == [], "nothing is registered outside of training"
    train_steps(estimator, FEATURES, LABELS.astype(np.float32))
    assert optimizer.calls[0].losses is None
    assert optimizer.calls[0].head == "PoissonRegressionHead"


def combined(model_dir, **arguments):
    """Part optimizers with state of different names."""
    return replicate.DNNLinearCombinedRegressor(
        str(model_dir),
        linear_feature_columns=[JOB],
        linear_optimizer="Ftrl",
        dnn_feature_columns=DENSE,
        dnn_optimizer=lambda: v1.train.AdamOptimizer(0.1),
        dnn_hidden_units=[2],
        config=replicate.RunConfig(progress="off", save_summary_steps=None, tf_random_seed=1),
        **arguments,
    )


def input_fn():
    return tf.data.Dataset.from_tensors((FEATURES, LABELS.astype(np.float32))).repeat()


def without(path, is_left_out):
    """Writes a checkpoint anew, without some of its variables."""
    reader = v1.train.load_checkpoint(path)
    with tf.Graph().as_default(), v1.Session() as session:
        for name in reader.get_variable_to_shape_map():
            if not is_left_out(name):
                v1.get_variable(name, initializer=reader.get_tensor(name))
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(session, path, write_state=False)


@pytest.fixture(scope="module")
def first_step(plain_sessions, tmp_path_factory):
    """Directory with a checkpoint after a step."""
    folder = tmp_path_factory.mktemp("combined")
    combined(folder).train(input_fn, steps=1)
    return folder


@pytest.fixture
def started(first_step, tmp_path):
    return combined(shutil.copytree(first_step, tmp_path / "copy"))


def test_training_goes_on_without_the_slots_of_another_program(started, caplog):
    before = {name: started.get_variable_value(name) for name in started.get_variable_names()}
    caplog.set_level(logging.INFO, log.name)
    without(started.latest_checkpoint(), lambda name: "Adam" in name or "beta" in name)
    other = combined(started.model_dir, devices=["/cpu:0", "/cpu:1"]).train(input_fn, steps=1)
    assert other.get_variable_value("global_step") == 2
    assert sorted(other.get_variable_names()) == sorted(before)
    assert other.get_variable_value("training/beta1_power") == pytest.approx(0.9**2)
    # The first step of Adam from the weights is as large as the rate.
    bias = "dnn/logits/bias"
    difference = other.get_variable_value(bias) - before[bias]
    np.testing.assert_allclose(np.abs(difference), [0.1], rtol=1e-4)
    weights = "linear/linear_model/job/weights/Ftrl"
    assert (other.get_variable_value(weights) > before[weights]).all()
    (told,) = [text for text in caplog.messages if "start at their initial values" in text]
    assert "the slots and other state of Adam under" in told


def test_missing_weight_of_another_program_stays_an_error(started):
    without(started.latest_checkpoint(), lambda name: name.startswith("dnn/logits/bias"))
    with pytest.raises(replicate.CheckpointError, match=r"it lacks 3 of the .*: dnn/logits/bias"):
        combined(started.model_dir).train(input_fn, steps=1)
