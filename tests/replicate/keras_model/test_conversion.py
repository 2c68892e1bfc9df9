"""model_to_estimator: an Estimator from a compiled Keras model trains as Keras does."""

import importlib
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.keras_model.losses import CompiledLosses

kfac = importlib.import_module("kfac")
pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
ROWS = 32
QUIET = replicate.RunConfig(progress="off", tf_random_seed=1)
_RANDOM = np.random.RandomState(0)
X = _RANDOM.randn(ROWS, 6).astype("f4")
CLASSES = _RANDOM.randint(0, 3, [ROWS])
NUMBERS = _RANDOM.randn(ROWS, 2).astype("f4")
WEIGHTS = np.tile(np.array([0.5, 2.0], "f4"), ROWS // 2)
TWO_TOWERS = ["/cpu:0", "/cpu:1"]
NAMES = ["dense/kernel", "dense/bias", "logits/kernel", "logits/bias"]


keras2_in_broad = pytest.mark.parametrize(
    "keras",
    ["keras", pytest.param("keras2", marks=pytest.mark.broad)],
    indirect=True,
    scope="module",
)
"""Marks tests that the core asks of Keras 3 only."""


@pytest.fixture(scope="module", params=["keras", "keras2"])
def keras(request):
    """The module of Keras 3, and that of Keras 2."""
    if request.param == "keras2" and not hasattr(tf, "estimator"):
        return pytest.importorskip("tf_keras")
    return importlib.import_module("keras")


@pytest.fixture
def keras3():
    """The module of Keras 3."""
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
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


@pytest.fixture(scope="module")
def trained(keras, plain_sessions, tmp_path_factory):
    """A model, its estimator on two towers, and the results before and after two steps."""
    model = classifier(keras)
    estimator = converted(model, tmp_path_factory.mktemp("trained"), devices=TWO_TOWERS)
    before = estimator.evaluate(input_fn())
    estimator.train(input_fn())
    return model, estimator, before, estimator.evaluate(input_fn())


def test_trains_on_towers_as_keras_does(keras, trained):
    _, estimator, before, after = trained
    model = classifier(keras)
    for number, got in enumerate((before, after)):
        if number:
            model.fit(X, CLASSES, batch_size=16, shuffle=False, verbose=0)
        expected = model.evaluate(X, CLASSES, batch_size=16, verbose=0, return_dict=True)
        assert got == pytest.approx({**expected, "global_step": 2 * number}, abs=1e-6)
    for name, weight in zip(NAMES, model.get_weights(), strict=True):
        np.testing.assert_allclose(estimator.get_variable_value(name), weight, atol=1e-6)


def test_continues_from_its_checkpoint_and_not_from_the_model(trained):
    model, estimator, before, after = trained
    again = converted(model, estimator.model_dir)
    assert again.evaluate(input_fn()) == pytest.approx(after, abs=1e-6)
    assert abs(before["loss"] - after["loss"]) > 1e-3
    assert len(list(pathlib.Path(estimator.model_dir, "keras").glob("*.index"))) == 1


@keras2_in_broad
def test_predictions_and_export_have_the_names_of_the_outputs(trained, tmp_path):
    _, estimator, *_ = trained
    rows = list(estimator.predict(input_fn(labels=None)))
    kernel, bias, kernel_2, bias_2 = map(estimator.get_variable_value, NAMES)
    expected = np.tanh(X @ kernel + bias) @ kernel_2 + bias_2
    np.testing.assert_allclose([row["logits"] for row in rows], expected, atol=1e-5)
    receiver = replicate.export.build_raw_serving_input_receiver_fn(
        {"x": tf.TensorSpec([None, 6], tf.float32)}
    )
    path = estimator.export_saved_model(str(tmp_path), receiver).decode()
    served = tf.saved_model.load(path).signatures["serving_default"]
    np.testing.assert_allclose(served(x=tf.constant(X))["logits"], expected, atol=1e-5)


def test_frozen_layers_stay_and_averages_move_as_in_keras(keras3, tmp_path):
    model = classifier(keras3, batch_norm=True)
    model.layers[1].trainable = False
    model.compile(optimizer=keras3.optimizers.SGD(0.1), loss=model.loss)
    estimator = converted(model, tmp_path)
    estimator.train(input_fn())
    start = model.get_weights()
    model.fit(X, CLASSES, batch_size=16, shuffle=False, verbose=0)
    got = values(estimator)
    for weight in model.weights:
        np.testing.assert_allclose(got[weight.path], weight.numpy(), atol=1e-6)
    np.testing.assert_array_equal(got["dense/kernel"], start[0])
    assert not np.allclose(got["logits/kernel"], start[-2])


def two_headed(keras):
    left, right = keras.Input([6], name="left"), keras.Input([2], name="right")
    joined = keras.layers.Concatenate()([left, right])
    regularizer = keras.regularizers.L2(0.01)
    number = keras.layers.Dense(2, name="number", kernel_regularizer=regularizer)(joined)
    kind = keras.layers.Dense(3, activation="softmax", name="kind")(joined)
    model = keras.Model([left, right], [number, kind])
    random = np.random.RandomState(2)
    model.set_weights([random.randn(*w.shape).astype("f4") for w in model.get_weights()])
    model.compile(
        optimizer=keras.optimizers.SGD(0.01),
        loss={"number": "mse", "kind": "sparse_categorical_crossentropy"},
        loss_weights={"number": 0.5, "kind": 2.0},
        metrics={"number": ["mae"], "kind": ["accuracy"]},
    )
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


def test_several_inputs_and_outputs_on_towers(keras, tmp_path):
    model = two_headed(keras)
    expected = two_headed_by_numpy(model.get_weights())
    inputs = input_fn(
        {"left": X, "right": NUMBERS}, {"number": NUMBERS, "kind": CLASSES}, batch=ROWS
    )
    estimator = converted(
        model, tmp_path, devices=TWO_TOWERS, metric_names_map={"number_mae": "distance"}
    )
    got = estimator.evaluate(inputs)
    expected["distance"] = expected.pop("number_mae")
    got.pop("global_step")
    assert got == pytest.approx(expected, abs=1e-4)


@keras2_in_broad
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
    kinds = keras3.metrics.F1Score, keras3.metrics.CategoricalAccuracy
    model = classifier(
        keras3,
        metrics=[kind(name=kind.__name__) for kind in kinds],
        loss=keras3.losses.CategoricalCrossentropy(from_logits=True),
    )
    one_hot = np.eye(3, dtype="f4")[CLASSES]
    got = converted(model, tmp_path, devices=TWO_TOWERS).evaluate(input_fn(X, one_hot, batch=8))
    for kind in kinds:
        expected = kind()(one_hot, model(X))
        np.testing.assert_allclose(got[kind.__name__], expected, atol=1e-6)


@keras2_in_broad
def test_binary_labels_of_one_dimension(keras, tmp_path):
    model = keras.Sequential([keras.Input([6]), keras.layers.Dense(1, "sigmoid")])
    model.compile(optimizer="sgd", loss="binary_crossentropy", metrics=["accuracy"])
    kernel, bias = model.get_weights()
    labels = (CLASSES > 0).astype("i8")
    chance = 1 / (1 + np.exp(-(X @ kernel + bias)[:, 0]))
    expected = -np.log(np.where(labels, chance, 1 - chance)).mean()
    got = converted(model, tmp_path).evaluate(input_fn(X, labels, batch=ROWS))
    assert got["loss"] == pytest.approx(expected, abs=1e-5)
    assert got["accuracy"] == pytest.approx(((chance > 0.5) == labels).mean(), abs=1e-6)


@keras2_in_broad
def test_compiled_kfac_trains_on_towers_as_for_canned_does_on_one(keras, tmp_path):
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
    for settings in ({"devices": TWO_TOWERS}, {"optimizer": by_hand}):
        model = keras.Sequential([keras.Input([6]), keras.layers.Dense(3, name="logits")])
        model.set_weights([NUMBERS[:9].reshape(6, 3), np.zeros(3)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=optimizer, loss=loss)
        estimator = converted(model, tmp_path / str(len(got)), **settings)
        estimator.train(lambda: input_fn(batch=ROWS)().repeat(), steps=3)
        got.append(estimator.get_variable_value("logits/kernel"))
    np.testing.assert_allclose(got[0], got[1], atol=1e-5)
    assert np.abs(got[0] - NUMBERS[:9].reshape(6, 3)).max() > 0.01


def test_kfac_trains_by_the_name_of_a_loss_as_by_its_object(keras3, tmp_path):
    got = []
    for loss in ("sparse_categorical_crossentropy", keras3.losses.SparseCategoricalCrossentropy()):
        model = keras3.Sequential([keras3.Input([6]), keras3.layers.Dense(3, "softmax", name="a")])
        model.set_weights([NUMBERS[:9].reshape(6, 3), np.zeros(3)])
        model.compile(loss=loss)
        optimizer = kfac.for_canned(0.1, 0.1, cov_update_every=1, invert_every=1)
        estimator = converted(model, tmp_path / str(len(got)), optimizer=optimizer)
        estimator.train(input_fn())
        got.append(estimator.get_variable_value("a/kernel"))
    np.testing.assert_allclose(got[0], got[1], atol=1e-6)
    assert np.abs(got[0] - NUMBERS[:9].reshape(6, 3)).max() > 1e-4
    model.compile(loss="mae")
    unknown = converted(model, tmp_path / "unknown", optimizer=optimizer)
    with pytest.raises(ValueError, match=r"the loss of the Keras model, 'mae', for K-FAC: it is"):
        unknown.train(input_fn())


def test_optimizer_of_tensorflow_1_and_features_of_a_flat_shape(keras2, tmp_path):
    model = keras2.Sequential(
        [keras2.layers.Flatten(input_shape=(2, 3)), keras2.layers.Dense(2, name="out")]
    )
    model.compile(v1.train.GradientDescentOptimizer(0.1), loss="mse", loss_weights=[2.0])
    (kernel, _) = start = model.get_weights()
    estimator = converted(model, tmp_path, devices=TWO_TOWERS)
    estimator.train(input_fn(X, NUMBERS, batch=ROWS))
    expected = kernel - 0.1 * 2.0 * X.T @ (X @ kernel - NUMBERS) / ROWS
    np.testing.assert_allclose(estimator.get_variable_value("out/kernel"), expected, atol=1e-5)
    receiver = replicate.export.build_raw_serving_input_receiver_fn(
        {"flatten_input": tf.TensorSpec([None, 6], tf.float32)}
    )
    estimator.export_saved_model(str(tmp_path / "export"), receiver)
    np.testing.assert_array_equal(model.get_weights()[0], start[0])
    assert model.predict(X.reshape(ROWS, 2, 3), verbose=0).shape == (ROWS, 2)


LENGTHS = [5, 5, 4, 2, 1, 2, 1, 1]


def sequence_model(keras, loss, **compiled):
    """Returns a model whose second half of the batch has fewer steps than the first."""
    regularizer = keras.regularizers.L2(0.1)
    output = keras.layers.Dense(1, name="out", kernel_regularizer=regularizer)
    layers = [keras.Input([5, 3]), keras.layers.Masking(), keras.layers.Dense(4, "tanh"), output]
    model = keras.Sequential(layers)
    random = np.random.RandomState(2)
    model.set_weights([random.randn(*w.shape).astype("f4") for w in model.get_weights()])
    model.compile(keras.optimizers.SGD(0.1), loss, metrics=["mae"], **compiled)
    return model


@pytest.mark.parametrize("reduction", ["name", "sum"])
def test_masked_steps_count_on_towers_as_in_fit(keras, tmp_path, reduction):
    random = np.random.RandomState(3)
    steps = random.randn(8, 5, 3).astype("f4")
    for row, length in enumerate(LENGTHS):
        steps[row, length:] = 0.0
    targets = random.randn(8, 5, 1).astype("f4")
    loss = "mse" if reduction == "name" else keras.losses.MeanSquaredError(reduction=reduction)
    model = sequence_model(keras, loss)
    estimators = [
        converted(sequence_model(keras, loss), tmp_path / str(len(towers)), devices=towers)
        for towers in (TWO_TOWERS[:1], TWO_TOWERS)
    ]
    expected = model.evaluate(steps, targets, verbose=0, return_dict=True)
    model.fit(steps, targets, batch_size=8, verbose=0)
    for estimator in estimators:
        got = estimator.evaluate(input_fn(steps, targets, batch=8))
        assert got == pytest.approx({**expected, "global_step": 0}, rel=1e-5)
        estimator.train(input_fn(steps, targets, batch=8))
        kernel = estimator.get_variable_value("out/kernel")
        np.testing.assert_allclose(kernel, model.layers[-1].get_weights()[0], atol=1e-5)


@keras2_in_broad
def test_sum_beside_a_mean_is_not_divided_by_the_towers(keras, tmp_path):
    inputs = keras.Input([6])
    outputs = [keras.layers.Dense(2, name=name)(inputs) for name in ("a", "b")]
    model = keras.Model(inputs, outputs)
    losses = {"a": keras.losses.MeanSquaredError(reduction="sum"), "b": "mse"}
    model.compile(keras.optimizers.SGD(0.01), losses)
    estimator = converted(model, tmp_path, devices=TWO_TOWERS)
    rows, labels = X[:7], {"a": NUMBERS[:7], "b": NUMBERS[:7]}
    expected = model.evaluate(rows, list(labels.values()), verbose=0, return_dict=True)["loss"]
    got = estimator.evaluate(input_fn(rows, labels, batch=7))["loss"]
    assert got == pytest.approx(expected, rel=1e-5)


def test_saved_model_by_its_path(keras3, tmp_path):
    model = classifier(keras3)
    model.save(tmp_path / "model.keras")
    estimator = replicate.model_to_estimator(
        keras_model_path=tmp_path / "model.keras", model_dir=tmp_path / "run", config=QUIET
    )
    rows = list(estimator.predict(input_fn(labels=None)))
    np.testing.assert_allclose([row["logits"] for row in rows], model(X), atol=1e-5)


@keras2_in_broad
def test_class_needs_get_config(keras, tmp_path):
    class Own(keras.Model):
        def __init__(self, factor, **settings):
            super().__init__(**settings)
            self.factor = factor
            self.dense = keras.layers.Dense(2, kernel_initializer="ones", name="dense")

        def call(self, inputs):
            return self.factor * self.dense(inputs)

    class Described(Own):
        def get_config(self):
            return {"factor": self.factor, "name": self.name}

        @classmethod
        def from_config(cls, config):
            return cls(**config)

    own, model = Own(3.0), Described(3.0)
    for each in (own, model):
        each.compile(optimizer="sgd", loss="mse")
    got = converted(model, tmp_path).evaluate(input_fn(X, NUMBERS, batch=ROWS))
    expected = ((3.0 * X.sum(1, keepdims=True) - NUMBERS) ** 2).mean()
    assert got["loss"] == pytest.approx(expected, rel=1e-5)
    if keras.__version__ >= "3":
        with pytest.raises(TypeError, match=r"of class Own cannot be made anew in a graph"):
            replicate.model_to_estimator(own)


def test_arguments_that_name_no_model_are_refused():
    for arguments, error, text in [
        (["model"], TypeError, "keras_model must be a Keras model, got str"),
        ([], ValueError, "keras_model or keras_model_path, got neither"),
        (["model", "path"], ValueError, "got both"),
    ]:
        with pytest.raises(error, match=text):
            replicate.model_to_estimator(*arguments)


@keras2_in_broad
def test_models_that_cannot_be_converted_are_refused(keras):
    sequential = keras.Sequential([keras.Input([6]), keras.layers.Dense(1)])
    nadam = classifier(keras, optimizer=keras.optimizers.Nadam())
    adaptive = classifier(keras, optimizer=kfac_class(keras)(adaptive=True))
    for model, text in [
        (sequential, r"is not compiled\. Call model\.compile"),
        (nadam, r"Nadam.* cannot be translated"),
        (adaptive, r"Kfac\(adaptive=True\) cannot be the optimizer of an"),
    ]:
        with pytest.raises(ValueError, match=text):
            replicate.model_to_estimator(model)


def test_unknown_names_and_settings_are_refused(keras3, tmp_path):
    model = two_headed(keras3)
    for settings, text in [
        ({"export_outputs": {"what": None}}, r"export_outputs names \['what'\], but the outputs"),
        ({"checkpoint_format": "h5"}, "checkpoint_format must be 'saver' or None"),
    ]:
        with pytest.raises(ValueError, match=text):
            converted(model, tmp_path, **settings)
    labels = {"number": NUMBERS, "kind": CLASSES}
    features = {"left": X, "right": NUMBERS}
    usual = converted(model, tmp_path)
    renamed = converted(model, tmp_path, metric_names_map={"no": "x"})
    without_loss = converted(classifier(keras3, loss=None), tmp_path)
    for estimator, *inputs, text in [
        (usual, {"left": X}, labels, "no feature for the input 'right'"),
        (usual, X, labels, r"1 features for 2 inputs \['left', 'right'\]"),
        (usual, features, {"number": NUMBERS}, "no labels for the output 'kind'"),
        (usual, features, {"numbr": NUMBERS}, r"labels are given for \['numbr'\]"),
        (usual, features, NUMBERS, r"1 labels for 2 outputs"),
        (renamed, features, labels, r"names \['no'\], but the met"),
        (without_loss, X, CLASSES, "compiled without a loss"),
    ]:
        with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
            estimator.model_fn(*input_fn(*inputs)().get_single_element(), "eval", QUIET)


def test_sums_are_told_from_means(keras):
    for reduction, expected in (("sum", True), ("sum_over_batch_size", False)):
        loss = keras.losses.MeanSquaredError(reduction=reduction)
        assert CompiledLosses(None, {"a": loss, "b": None}, None).are_sums is expected
    assert not CompiledLosses(None, "mse", None).are_sums
