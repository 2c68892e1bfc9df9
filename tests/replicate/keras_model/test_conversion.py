"""model_to_estimator: an Estimator from a compiled Keras model trains as Keras does."""

import importlib

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.keras_model.losses import CompiledLosses

kfac = importlib.import_module("kfac")

v1 = tf.compat.v1
ROWS = 32
QUIET = replicate.RunConfig(progress="off", tf_random_seed=1)
_RANDOM = np.random.RandomState(0)
X = _RANDOM.randn(ROWS, 6).astype("f4")
CLASSES = _RANDOM.randint(0, 3, [ROWS])
NUMBERS = _RANDOM.randn(ROWS, 2).astype("f4")
WEIGHTS = np.tile(np.array([0.5, 2.0], "f4"), ROWS // 2)
TWO_TOWERS = ["/cpu:0", "/cpu:1"]


@pytest.fixture(params=["keras", "keras2"])
def keras(request):
    """The module of Keras 3, and that of Keras 2."""
    if request.param == "keras2":
        return request.getfixturevalue("keras2")
    return importlib.import_module("keras")


@pytest.fixture
def keras3():
    """The module of Keras 3, whose `fit` gives reference numbers."""
    module = importlib.import_module("keras")
    if module.__version__ < "3":
        pytest.skip("Keras 3 is not installed")
    return module


def classifier(keras, optimizer=None, batch_norm=False, **compiled):
    """Returns a compiled model with weights that depend on no version of Keras."""
    inputs = keras.Input([6], name="x")
    hidden = keras.layers.Dense(4, activation="tanh", name="dense")(inputs)
    if batch_norm:
        hidden = keras.layers.BatchNormalization(momentum=0.5)(hidden)
    model = keras.Model(inputs, keras.layers.Dense(3, name="logits")(hidden))
    random = np.random.RandomState(1)
    if not batch_norm:
        model.set_weights([random.randn(*w.shape).astype("f4") for w in model.get_weights()])
    settings = {
        "loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        "metrics": ["accuracy"],
        **compiled,
    }
    model.compile(optimizer=optimizer or keras.optimizers.SGD(0.1, momentum=0.9), **settings)
    return model


def kfac_class(keras):
    """Returns K-FAC for a Keras."""
    is_keras_3 = keras.__name__ == "keras" and keras.__version__ >= "3"
    return importlib.import_module(f"kfac.keras.{'current' if is_keras_3 else 'legacy'}").Kfac


def input_fn(features=X, labels=CLASSES, batch=16):
    data = features if labels is None else (features, labels)
    return lambda: tf.data.Dataset.from_tensor_slices(data).batch(batch)


def converted(model, tmp_path, **settings):
    return replicate.model_to_estimator(model, model_dir=tmp_path, config=QUIET, **settings)


def values(estimator):
    return {
        name: estimator.get_variable_value(name)
        for name in estimator.get_variable_names()
        if "Momentum" not in name and name != "global_step"
    }


@pytest.mark.parametrize("devices", [None, TWO_TOWERS], ids=["one", "two towers"])
def test_trains_and_evaluates_as_keras_does(keras3, tmp_path, devices):
    model = classifier(keras3)
    estimator = converted(model, tmp_path, devices=devices)
    before = estimator.evaluate(input_fn())
    estimator.train(input_fn())
    after = estimator.evaluate(input_fn())
    for got in (before, after):
        expected = model.evaluate(X, CLASSES, batch_size=16, verbose=0, return_dict=True)
        assert got["loss"] == pytest.approx(expected["loss"], abs=1e-6)
        assert got["accuracy"] == pytest.approx(expected["accuracy"], abs=1e-6)
        model.fit(X, CLASSES, batch_size=16, shuffle=False, verbose=0)
    assert after["global_step"] == 2


def test_batch_norm_moves_its_averages_as_in_keras(keras3, tmp_path):
    model = classifier(keras3, batch_norm=True)
    estimator = converted(model, tmp_path)
    estimator.train(input_fn())
    model.fit(X, CLASSES, batch_size=16, shuffle=False, verbose=0)
    got = values(estimator)
    for weight in model.weights:
        np.testing.assert_allclose(got[weight.path], weight.numpy(), atol=1e-6)


def test_every_keras_trains_alike_on_any_towers(keras, tmp_path):
    got = []
    for number, devices in enumerate([None, TWO_TOWERS]):
        estimator = converted(classifier(keras), tmp_path / str(number), devices=devices)
        estimator.train(input_fn())
        got.append({**values(estimator), **estimator.evaluate(input_fn())})
    weights = classifier(keras).get_weights()
    assert set(got[0]) >= {"dense/kernel", "logits/bias", "accuracy", "loss"}
    for name, value in got[0].items():
        np.testing.assert_allclose(got[1][name], value, atol=1e-6)
    assert not np.allclose(got[0]["dense/kernel"], weights[0])


def test_predictions_and_export_have_the_names_of_the_outputs(keras, tmp_path):
    model = classifier(keras)
    estimator = converted(model, tmp_path)
    estimator.train(input_fn(), steps=1)
    rows = list(estimator.predict(input_fn(labels=None)))
    kernel, bias, kernel_2, bias_2 = (
        estimator.get_variable_value(name)
        for name in ("dense/kernel", "dense/bias", "logits/kernel", "logits/bias")
    )
    expected = np.tanh(X @ kernel + bias) @ kernel_2 + bias_2
    np.testing.assert_allclose([row["logits"] for row in rows], expected, atol=1e-5)
    receiver = replicate.export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None, 6], tf.float32)}
    )
    path = estimator.export_saved_model(str(tmp_path / "export"), receiver)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signature = tf.compat.v1.saved_model.load(session, ["serve"], path).signature_def
        served = signature["serving_default"]
        feed = {served.inputs["x"].name: X}
        got = session.run(served.outputs["logits"].name, feed)
    np.testing.assert_allclose(got, expected, atol=1e-5)


def two_headed(keras, **compiled):
    left, right = keras.Input([6], name="left"), keras.Input([2], name="right")
    joined = keras.layers.Concatenate()([left, right])
    regularizer = keras.regularizers.L2(0.01)
    number = keras.layers.Dense(2, name="number", kernel_regularizer=regularizer)(joined)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(joined)
    model = keras.Model([left, right], [number, kind])
    random = np.random.RandomState(2)
    model.set_weights([random.randn(*w.shape).astype("f4") for w in model.get_weights()])
    settings = {
        "loss": {"number": "mse", "kind": "sparse_categorical_crossentropy"},
        "loss_weights": {"number": 0.5, "kind": 2.0},
        "metrics": {"number": ["mae"], "kind": ["accuracy"]},
        **compiled,
    }
    model.compile(optimizer=keras.optimizers.SGD(0.01), **settings)
    return model


def two_headed_by_numpy(weights):
    """Returns loss and metrics of `two_headed`."""
    both = np.concatenate([X, NUMBERS], axis=1)
    number, kind = both @ weights[0] + weights[1], both @ weights[2] + weights[3]
    probabilities = np.exp(kind) / np.exp(kind).sum(1, keepdims=True)
    error = ((number - NUMBERS) ** 2).mean()
    entropy = -np.log(probabilities[np.arange(ROWS), CLASSES]).mean()
    return {
        "loss": 0.5 * error + 2.0 * entropy + 0.01 * (weights[0] ** 2).sum(),
        "number_mae": abs(number - NUMBERS).mean(),
        "kind_accuracy": (kind.argmax(1) == CLASSES).mean(),
    }


@pytest.mark.parametrize("devices", [None, TWO_TOWERS], ids=["one", "two towers"])
def test_several_inputs_and_outputs(keras, tmp_path, devices):
    model = two_headed(keras)
    expected = two_headed_by_numpy(model.get_weights())
    inputs = input_fn(
        {"left": X, "right": NUMBERS}, {"number": NUMBERS, "kind": CLASSES}, batch=ROWS
    )
    estimator = converted(
        model, tmp_path, devices=devices, metric_names_map={"number_mae": "distance"}
    )
    got = estimator.evaluate(inputs)
    expected["distance"] = expected.pop("number_mae")
    got.pop("global_step")
    assert got == pytest.approx(expected, abs=1e-4)


def test_weights_of_examples_count_in_the_loss_and_in_weighted_metrics(keras, tmp_path):
    model = classifier(keras, metrics=None, weighted_metrics=["accuracy"])
    weights = model.get_weights()
    logits = np.tanh(X @ weights[0] + weights[1]) @ weights[2] + weights[3]
    shifted = logits - logits.max(1, keepdims=True)
    losses = np.log(np.exp(shifted).sum(1)) - shifted[np.arange(ROWS), CLASSES]
    hits = logits.argmax(1) == CLASSES
    features = {"features": X, "sample_weights": WEIGHTS}
    got = converted(model, tmp_path).evaluate(input_fn(features, batch=ROWS))
    assert got["loss"] == pytest.approx((losses * WEIGHTS).mean(), abs=1e-5)
    assert got["accuracy"] == pytest.approx((hits * WEIGHTS).sum() / WEIGHTS.sum(), abs=1e-5)


def test_metric_that_makes_its_variables_late(keras3, tmp_path):
    model = classifier(
        keras3,
        metrics=[keras3.metrics.F1Score(name="f1"), keras3.metrics.CategoricalAccuracy("hits")],
        loss=keras3.losses.CategoricalCrossentropy(from_logits=True),
    )
    one_hot = np.eye(3, dtype="f4")[CLASSES]
    expected = model.evaluate(X, one_hot, batch_size=8, verbose=0, return_dict=True)
    got = converted(model, tmp_path, devices=TWO_TOWERS).evaluate(input_fn(X, one_hot, batch=8))
    np.testing.assert_allclose(got["f1"], expected["f1"], atol=1e-6)
    assert got["hits"] == pytest.approx(expected["hits"], abs=1e-6)


def test_binary_labels_of_one_dimension(keras, tmp_path):
    model = keras.Sequential([keras.Input([6]), keras.layers.Dense(1, "sigmoid", name="chance")])
    model.compile(optimizer="sgd", loss="binary_crossentropy", metrics=["accuracy"])
    kernel, bias = model.get_weights()
    labels = (CLASSES > 0).astype("i8")
    chance = 1 / (1 + np.exp(-(X @ kernel + bias)[:, 0]))
    expected = -np.log(np.where(labels, chance, 1 - chance)).mean()
    estimator = converted(model, tmp_path)
    got = estimator.evaluate(input_fn(X, labels, batch=ROWS))
    assert got["loss"] == pytest.approx(expected, abs=1e-5)
    assert got["accuracy"] == pytest.approx(((chance > 0.5) == labels).mean(), abs=1e-6)
    estimator.train(input_fn(X, labels), steps=1)
    assert list(next(estimator.predict(input_fn(labels=None)))) == ["chance"]


def test_frozen_layers_stay(keras, tmp_path):
    model = classifier(keras)
    model.layers[1].trainable = False
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss=model.loss)
    kernel = model.get_weights()[0]
    estimator = converted(model, tmp_path)
    estimator.train(input_fn())
    np.testing.assert_array_equal(estimator.get_variable_value("dense/kernel"), kernel)


def test_kfac_trains_it_alike_on_any_towers(tmp_path):
    keras = importlib.import_module("keras")
    got = []
    for number, devices in enumerate([None, TWO_TOWERS]):
        estimator = converted(
            classifier(keras),
            tmp_path / str(number),
            devices=devices,
            optimizer=kfac.for_canned(0.1, 0.1, momentum=None, invert_every=1),
        )
        before = estimator.evaluate(input_fn(batch=ROWS))["loss"]
        estimator.train(lambda: input_fn(batch=ROWS)().repeat(), steps=4)
        assert estimator.evaluate(input_fn(batch=ROWS))["loss"] < before - 0.05
        got.append(estimator.get_variable_value("dense/kernel"))
    np.testing.assert_allclose(got[0], got[1], atol=1e-5)


def test_compiled_kfac_trains_it_as_for_canned_does(keras, tmp_path):
    rate = keras.optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = kfac_class(keras)(rate, 0.1, norm_constraint=0.01, invert_every=1)
    by_hand = kfac.for_canned(
        lambda: 0.1 * 0.5 ** (tf.cast(v1.train.get_global_step(), tf.float32) / 2),
        0.1,
        momentum_type="adam",
        norm_constraint=0.01,
        cov_update_every=1,
        invert_every=1,
    )
    got = []
    for number, given in enumerate([None, by_hand]):
        model = classifier(keras, optimizer=optimizer)
        start = model.get_weights()[0]
        estimator = converted(model, tmp_path / str(number), optimizer=given)
        estimator.train(lambda: input_fn(batch=ROWS)().repeat(), steps=3)
        got.append(estimator.get_variable_value("dense/kernel"))
    np.testing.assert_allclose(got[0], got[1], atol=1e-6)
    assert not np.allclose(got[0], start)


def test_kfac_that_an_estimator_cannot_have_is_refused(keras):
    model = classifier(keras, optimizer=kfac_class(keras)(adaptive=True))
    with pytest.raises(ValueError, match=r"Kfac\(adaptive=True\) cannot be the optimizer of an"):
        replicate.model_to_estimator(model)


def test_continues_from_its_checkpoint_and_not_from_the_model(keras, tmp_path):
    model = classifier(keras)
    start = model.get_weights()[0]
    converted(model, tmp_path).train(input_fn())
    trained = values(converted(model, tmp_path))
    again = converted(model, tmp_path)
    assert again.evaluate(input_fn())["global_step"] == 2
    assert not np.allclose(trained["dense/kernel"], start)
    assert len(list((tmp_path / "keras").glob("*.index"))) == 1


def test_saved_model_by_its_path(keras3, tmp_path):
    model = classifier(keras3)
    model.save(tmp_path / "model.keras")
    estimator = replicate.model_to_estimator(
        keras_model_path=tmp_path / "model.keras", model_dir=tmp_path / "run", config=QUIET
    )
    expected = model.evaluate(X, CLASSES, batch_size=16, verbose=0, return_dict=True)
    assert estimator.evaluate(input_fn())["loss"] == pytest.approx(expected["loss"], abs=1e-6)


def test_class_with_get_config(keras, tmp_path):
    class Scaled(keras.Model):
        def __init__(self, factor, **settings):
            super().__init__(**settings)
            self.factor = factor
            self.dense = keras.layers.Dense(2, kernel_initializer="ones", name="dense")

        def call(self, inputs):
            return self.factor * self.dense(inputs)

        def get_config(self):
            return {"factor": self.factor, "name": self.name}

        @classmethod
        def from_config(cls, config):
            return cls(**config)

    model = Scaled(3.0)
    model.compile(optimizer="sgd", loss="mse")
    got = converted(model, tmp_path).evaluate(input_fn(X, NUMBERS, batch=ROWS))
    expected = ((3.0 * X.sum(1, keepdims=True) - NUMBERS) ** 2).mean()
    assert got["loss"] == pytest.approx(expected, rel=1e-5)


class TestErrors:
    """Errors for what is no compiled model, and for names that are not there."""

    def test_no_model(self):
        with pytest.raises(TypeError, match="keras_model must be a Keras model, got str"):
            replicate.model_to_estimator("model")
        with pytest.raises(ValueError, match="keras_model or keras_model_path, got neither"):
            replicate.model_to_estimator()
        with pytest.raises(ValueError, match="got both"):
            replicate.model_to_estimator("model", "path")

    def test_not_compiled(self, keras):
        model = keras.Sequential([keras.Input([6]), keras.layers.Dense(1)])
        with pytest.raises(ValueError, match=r"is not compiled\. Call model\.compile"):
            replicate.model_to_estimator(model)

    def test_class_without_get_config(self, keras3):
        class Own(keras3.Model):
            def __init__(self, units):
                super().__init__()
                self.dense = keras3.layers.Dense(units)

            def call(self, inputs):
                return self.dense(inputs)

        model = Own(3)
        model.compile(optimizer="sgd", loss="mse")
        with pytest.raises(TypeError, match=r"of class Own cannot be made anew in a graph"):
            replicate.model_to_estimator(model)

    def test_unknown_names(self, keras, tmp_path):
        model = two_headed(keras)
        with pytest.raises(ValueError, match=r"export_outputs names \['what'\], but the outputs"):
            converted(model, tmp_path, export_outputs={"what": replicate.export.PredictOutput})
        with pytest.raises(ValueError, match="checkpoint_format must be 'saver' or None"):
            converted(model, tmp_path, checkpoint_format="h5")
        labels = {"number": NUMBERS, "kind": CLASSES}
        features = {"left": X, "right": NUMBERS}
        for settings, inputs, text in [
            ({}, ({"left": X}, labels), "no feature for the input 'right'"),
            ({}, (X, labels), r"1 features for 2 inputs \['left', 'right'\]"),
            ({}, (features, {"number": NUMBERS}), "no labels for the output 'kind'"),
            ({}, (features, {"numbr": NUMBERS}), r"labels are given for \['numbr'\]"),
            ({}, (features, NUMBERS), r"1 labels for 2 outputs"),
            ({"metric_names_map": {"no": "x"}}, (features, labels), r"names \['no'\], but the met"),
        ]:
            estimator = converted(model, tmp_path / "run", **settings)
            with pytest.raises(ValueError, match=text):
                estimator.evaluate(input_fn(*inputs))

    def test_optimizer_without_counterpart(self, keras):
        model = classifier(keras, optimizer=keras.optimizers.Nadam())
        with pytest.raises(ValueError, match=r"Nadam.* cannot be translated"):
            replicate.model_to_estimator(model)

    def test_no_loss(self, keras, tmp_path):
        model = classifier(keras, loss=None)
        with pytest.raises(ValueError, match="compiled without a loss"):
            converted(model, tmp_path).train(input_fn())


def test_sums_are_told_from_means(keras):
    for reduction, expected in (("sum", True), ("sum_over_batch_size", False)):
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        assert CompiledLosses(None, {"a": loss, "b": None}, None).are_sums is expected
    assert not CompiledLosses(None, "mse", None).are_sums
