import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import ArgumentTypeError
from replicate.estimator import CheckpointError, Estimator, RunConfig
from replicate.estimator.warm_start import (
    VocabInfo,
    WarmStartSettings,
    apply_warm_start,
    warm_start_settings,
)
from replicate.export import TensorServingInputReceiver
from replicate.model_average import ModelAverageCustomGetter, ModelAverageOptimizer
from replicate.saved.checkpoint_names import add_former_names
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def trained_dir(linear, tmp_path_factory):
    """The directory of a model that was trained for 4 steps."""
    path = tmp_path_factory.mktemp("trained")
    linear.make_estimator(path).train(linear.input_fn, max_steps=4)
    return path


@pytest.fixture
def source(linear, trained_dir, tmp_path):
    """An Estimator trained for 4 steps, whose directory is the test's own."""
    shutil.copytree(trained_dir, tmp_path / "source")
    return linear.make_estimator(tmp_path / "source")


@pytest.fixture
def begin(linear, tmp_path):
    """Makes a model that starts warm; returns its variables before its first step."""

    def variables(warm_start_from, model_fn=linear.model_fn):
        path = str(tmp_path / "model")
        config = linear.make_estimator(path).config
        estimator = Estimator(model_fn, path, config, warm_start_from=warm_start_from)
        estimator.train(linear.input_fn, steps=1)
        reader = v1.train.load_checkpoint(f"{path}/model.ckpt-0")
        return {name: reader.get_tensor(name) for name in estimator.get_variable_names()}

    return variables


def receive():
    features = v1.placeholder(tf.float32, [None, 3])
    return TensorServingInputReceiver(features, features)


@pytest.mark.parametrize("kind", ["directory", "checkpoint", "SavedModel"])
def test_trainable_variables_are_initialised_from_the_source(source, begin, tmp_path, kind):
    given = {
        "directory": lambda: tmp_path / "source",
        "checkpoint": lambda: f"{tmp_path}/source/model.ckpt-4",
        "SavedModel": lambda: source.export_saved_model(tmp_path / "export", receive),
    }[kind]()
    values = begin(given)
    for name in ("w", "b"):
        np.testing.assert_array_equal(values[name], source.get_variable_value(name))
    assert values["global_step"] == 0
    assert np.all(values["w/Momentum"] == 0)


def test_some_variables_and_some_of_any_kind(source, begin, tmp_path):
    values = begin(WarmStartSettings(tmp_path / "source", ("w:0", "w/Momentum")))
    for name in ("w", "w/Momentum"):
        np.testing.assert_array_equal(values[name], source.get_variable_value(name))
    assert np.all(values["b"] == 0)


def test_given_name_takes_precedence_over_a_former_one(tmp_path):
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.get_variable("given", initializer=[1.0])
        former = v1.get_variable("former", initializer=[2.0])
        session.run([given.initializer, former.initializer])
        v1.train.Saver().save(session, f"{tmp_path}/model.ckpt")
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("now", initializer=[0.0])
        add_former_names(variable, ["former"])
        names = {"now": "given"}
        settings = WarmStartSettings(str(tmp_path), var_name_to_prev_var_name=names)
        apply_warm_start(settings)
        session.run(variable.initializer)
        assert session.run(variable).tolist() == [1.0]


def test_new_vocabulary(source, begin, tmp_path):
    old, new = tmp_path / "old.txt", tmp_path / "new.txt"
    old.write_text("a\nb\nc\n")
    new.write_text("c\nnew\na\n")
    info = VocabInfo(str(new), 3, 0, str(old), 3, v1.zeros_initializer())
    a, _, c = source.get_variable_value("w")
    found = begin(WarmStartSettings(tmp_path / "source", "w:0", {"w": info}))
    np.testing.assert_array_equal(found["w"], [c, [0.0], a])


def test_only_the_first_start_is_warm(linear, source, begin, tmp_path):
    begin(tmp_path / "source")
    shutil.rmtree(tmp_path / "source")
    again = Estimator(
        linear.model_fn,
        str(tmp_path / "model"),
        RunConfig(progress="off"),
        warm_start_from=tmp_path / "source",
    )
    again.train(linear.input_fn, max_steps=3)
    assert again.get_variable_value("global_step") == 3


def test_damaged_checkpoint_is_an_error(source, begin):
    (path,) = pathlib.Path(source.model_dir).glob("model.ckpt-4.data-*")
    content = bytearray(path.read_bytes())
    content[3] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(CheckpointError, match=r"Cannot warm-start .*model.ckpt-4: damaged file"):
        begin(f"{source.model_dir}/model.ckpt-4")


@pytest.fixture
def untrained(linear, tmp_path):
    """Makes an Estimator that would start warm and has no checkpoint."""

    def make(warm_start_from, model_fn=linear.model_fn):
        path = str(tmp_path / "untrained")
        config = linear.make_estimator(path).config
        return Estimator(model_fn, path, config, warm_start_from=warm_start_from)

    return make


def test_evaluation_and_prediction_without_training_start_warm(linear, source, untrained):
    model = untrained(source.model_dir)
    results = model.evaluate(linear.once_input_fn)
    assert results == {**source.evaluate(linear.once_input_fn), "global_step": 0}
    first = f"{source.model_dir}/model.ckpt-0"
    results = model.evaluate(linear.once_input_fn, checkpoint_path=first)
    assert results["mae"] == pytest.approx(np.mean(np.abs(linear.Y)), rel=1e-5)
    model = untrained(WarmStartSettings(source.model_dir, ["w:0"]))
    predicted = [each["y"] for each in model.predict(linear.once_input_fn)]
    expected = linear.X @ source.get_variable_value("w")
    np.testing.assert_allclose(predicted, expected, rtol=1e-5)


def test_export_without_training_maps_names(linear, source, untrained, tmp_path):
    def model_fn(features, labels, mode):
        weights = v1.get_variable("new/w", [3, 1])
        bias = v1.get_variable("bias", initializer=[5.0])
        return EstimatorSpec(mode, predictions=features @ weights + bias)

    names = {"new/w": "w"}
    model = untrained(WarmStartSettings(source.model_dir, "new", None, names), model_fn)
    path = model.export_saved_model(tmp_path / "export", receive).decode()
    serve = tf.saved_model.load(path).signatures["serving_default"]
    (served,) = serve(tf.constant(linear.X)).values()
    expected = linear.X @ source.get_variable_value("w") + 5.0
    np.testing.assert_allclose(served, expected, rtol=1e-5)


OTHER_MODEL = r"Cannot warm-start the model from .*model.ckpt-1: .*WarmStartSettings"


@pytest.mark.parametrize(
    ("path", "settings", "error", "text"),
    [
        ("nowhere", [], CheckpointError, "nowhere.index does not exist"),
        ("", [], CheckpointError, "holds no checkpoint. Correct the path"),
        ("other", [], CheckpointError, OTHER_MODEL),
        ("source", [".*", None, {"absent": "w"}], CheckpointError, "Cannot warm-start .*absent"),
        ("source", [".*", None, {"absent": "w"}], ValueError, "Cannot warm-start .*absent"),
        ("source", ["v:0"], ValueError, r"'v:0' matches none of the trainable variables, \['w:0'"),
    ],
)
def test_source_that_does_not_fit(source, begin, tmp_path, path, settings, error, text):
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.create_global_step()
        session.run(step.initializer)
        v1.train.Saver().save(session, f"{tmp_path}/other/model.ckpt-1")
    with pytest.raises(error, match=text):
        begin(WarmStartSettings(tmp_path / path, *settings))


def test_settings():
    assert warm_start_settings(None) is None
    settings = WarmStartSettings("a")
    assert warm_start_settings(settings) is settings
    assert warm_start_settings("a") == settings == ("a", ".*", {}, {})
    with pytest.raises(TypeError, match=r"warm_start_from must be the path of a .* got 3"):
        warm_start_settings(3)
    with pytest.raises(ValueError, match=r"ckpt_to_initialize_from must be .* got ''"):
        WarmStartSettings("")
    for wanted in (3, b"w", {"w"}, ["w", 3]):
        with pytest.raises(ArgumentTypeError, match=r"vars_to_warm_start must be a regular .* got"):
            WarmStartSettings("a", wanted)


@pytest.mark.parametrize(("chosen", "warm"), [(["w:0"], "w"), (None, "")], ids=str)
def test_warm_start_initialises_averages(source, begin, tmp_path, chosen, warm):
    settings = WarmStartSettings(tmp_path / "source", chosen)

    def averaged_model_fn(features, labels, mode):
        getter = ModelAverageCustomGetter("")
        with v1.variable_scope("", custom_getter=getter):
            weights = v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer())
            bias = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean((features @ weights + bias - labels) ** 2)
        optimizer = ModelAverageOptimizer(
            v1.train.GradientDescentOptimizer(0.1), 1, True, getter, interval_steps=1
        )
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        hook = optimizer.make_session_run_hook()
        return EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=[hook])

    values = begin(settings, averaged_model_fn)
    assert sorted(values) == ["b", "global_step", "w"]
    for name in ("w", "b"):
        expected = source.get_variable_value(name) if name in warm else 0 * values[name]
        np.testing.assert_array_equal(values[name], expected)
