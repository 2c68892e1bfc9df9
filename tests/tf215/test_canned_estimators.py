"""Canned estimators beside those of tf.estimator: from the same weights, on the same data.

The stock estimator trains a step. From its checkpoint, stock and ours are warm-started and make the
same steps. What is compared: losses, weights, names of variables, metrics, predictions, summaries,
and signatures of exports. The old flavour has another formula for the two areas under curves and
other names of summaries; it is compared in all else.
"""

import glob
import types

import numpy as np
import pytest
import tensorflow as tf

import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1
fc = tf.feature_column
STEPS, ROWS = 4, 6
AREAS = ("auc", "auc_precision_recall")

FLAVOURS = {"old": v1.estimator, "new": tf.estimator}
OURS = {"old": replicate.v1, "new": replicate}

_random = np.random.default_rng(0)
FEATURES = {
    "age": _random.normal(size=[ROWS, 2]).astype(np.float32),
    "job": np.array([["a"], ["b"], ["c"], ["none"], ["a"], ["c"]]),
    "weight": np.array([[1.0], [2.0], [0.5], [1.0], [3.0], [1.0]], np.float32),
}


def columns():
    age = fc.numeric_column("age", [2])
    job = fc.categorical_column_with_vocabulary_list("job", ["a", "b", "c"])
    linear = [age, job, fc.crossed_column([fc.bucketized_column(age, [0.0]), "job"], 5)]
    dense = [age, fc.embedding_column(job, 2), fc.indicator_column(job)]
    return linear, dense


def arguments(kind, optimizer):
    """Arguments of a kind of estimator; `optimizer` makes one, or is None for the defaults."""
    linear, dense = columns()
    named = {} if optimizer is None else {"optimizer": optimizer()}
    if kind == "DNNLinearCombined":
        found = {
            "linear_feature_columns": linear,
            "dnn_feature_columns": dense,
            "dnn_hidden_units": [4],
        }
        if optimizer is not None:
            found |= {"linear_optimizer": optimizer(), "dnn_optimizer": optimizer()}
        return found
    return {
        "DNN": {"hidden_units": [4, 3], "feature_columns": dense},
        "Linear": {"feature_columns": linear},
        "Baseline": {},
    }[kind] | named


CASES = [
    # kind, task, flavour. The new flavour trains by Keras's SGD, the old one by its defaults.
    ("DNN", "Classifier", "new"),
    ("Linear", "Regressor", "new"),
    ("DNNLinearCombined", "Classifier", "new"),
    ("Linear", "Classifier", "old"),
    ("DNNLinearCombined", "Regressor", "old"),
    ("Baseline", "Regressor", "old"),
]
CLASSES = {"DNN": 2, "Linear": 3, "DNNLinearCombined": 3, "Baseline": 2}


def made(library, case, model_dir, config, warm_start_from=None):
    kind, task, flavour = case
    optimizer = (lambda: tf.keras.optimizers.legacy.SGD(0.1)) if flavour == "new" else None
    given = arguments(kind, optimizer) | {"weight_column": "weight"}
    if task == "Classifier":
        given["n_classes"] = CLASSES[kind]
    if kind != "Baseline":
        given["warm_start_from"] = warm_start_from
    return getattr(library, f"{kind}{task}")(model_dir=str(model_dir), config=config, **given)


def input_fn(case):
    kind, task, _ = case
    labels = np.arange(ROWS) % CLASSES[kind]
    if task == "Regressor":
        labels = labels.astype(np.float32)
    return lambda: tf.data.Dataset.from_tensors((FEATURES, labels)).repeat()


def scalars(model_dir):
    """Losses in the order of the steps, and the tags of all summaries."""
    losses, tags = {}, set()
    for path in glob.glob(f"{model_dir}/events*"):
        for event in v1.train.summary_iterator(path):
            for value in event.summary.value:
                tags.add(value.tag)
                if value.tag == "loss":
                    losses[event.step] = value.simple_value
    return [losses[step] for step in sorted(losses)], tags - {"global_step/sec"}


def signatures(estimator, folder, library):
    """Inputs and outputs of each signature: names and types."""
    exporting = library.export if hasattr(library, "export") else tf.estimator.export

    def receive():
        age, job = v1.placeholder(tf.float32, [None, 2]), v1.placeholder(tf.string, [None, 1])
        features = {"age": age, "job": job}
        return exporting.ServingInputReceiver(features, features)

    path = estimator.export_saved_model(str(folder), receive)
    with tf.Graph().as_default(), v1.Session() as session:
        graph = v1.saved_model.load(session, ["serve"], path)
    return {
        name: (
            signature.method_name,
            {key: info.dtype for key, info in signature.inputs.items()},
            {key: info.dtype for key, info in signature.outputs.items()},
        )
        for name, signature in graph.signature_def.items()
    }


def model_variables(estimator):
    """Variables of the model by name: no slots, and none of an optimizer."""
    return {
        name: estimator.get_variable_value(name)
        for name in estimator.get_variable_names()
        if name.endswith(("kernel", "bias", "weights", "global_step"))
        and not name.startswith("training/")
    }


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def pair(request, tmp_path_factory):
    """Both estimators after training, and their directories."""
    case = request.param
    stock, ours = FLAVOURS[case[2]], OURS[case[2]]
    folder = tmp_path_factory.mktemp("canned")
    settings = {"tf_random_seed": 1, "save_summary_steps": 1, "log_step_count_steps": None}
    stock_config = tf.estimator.RunConfig(**settings)
    our_config = replicate.RunConfig(**settings, progress="off")
    data = input_fn(case)
    start = None
    if case[0] != "Baseline":
        first = made(stock, case, folder / "first", stock_config)
        first.train(data, steps=1)
        start = first.model_dir
    stock = made(stock, case, folder / "stock", stock_config, start).train(data, steps=STEPS)
    ours = made(ours, case, folder / "ours", our_config, start).train(data, steps=STEPS)
    return types.SimpleNamespace(case=case, stock=stock, ours=ours, data=data, folder=folder)


def test_losses_of_all_steps_are_equal(pair):
    (expected, _), (got, _) = scalars(pair.stock.model_dir), scalars(pair.ours.model_dir)
    assert len(got) == len(expected) >= STEPS
    assert len(set(got)) == len(got)
    np.testing.assert_allclose(got, expected, rtol=2e-5)


def test_weights_and_their_names_are_equal(pair):
    expected, got = model_variables(pair.stock), model_variables(pair.ours)
    assert sorted(got) == sorted(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_metrics_are_equal(pair):
    expected, got = (each.evaluate(pair.data, steps=3) for each in (pair.stock, pair.ours))
    assert sorted(got) == sorted(expected)
    for key, value in expected.items():
        if pair.case[2] == "new" or key not in AREAS:
            np.testing.assert_allclose(got[key], value, rtol=2e-5, atol=1e-6, err_msg=key)


def test_predictions_are_equal(pair):
    def predicted(estimator):
        found = estimator.predict(pair.data)
        return [next(found) for _ in range(ROWS)]

    for expected, got in zip(predicted(pair.stock), predicted(pair.ours), strict=True):
        assert sorted(got) == sorted(expected)
        for key, value in expected.items():
            assert (got[key].dtype, got[key].shape) == (value.dtype, value.shape), key
            if value.dtype.kind == "f":
                np.testing.assert_allclose(got[key], value, rtol=1e-4, atol=1e-5, err_msg=key)
            else:
                np.testing.assert_array_equal(got[key], value, err_msg=key)


def test_exported_signatures_are_equal(pair):
    library = FLAVOURS[pair.case[2]]
    expected = signatures(pair.stock, pair.folder / "stock_export", library)
    assert signatures(pair.ours, pair.folder / "our_export", replicate) == expected


def test_summaries_have_the_names_of_the_new_flavour(pair):
    expected, got = scalars(pair.stock.model_dir)[1], scalars(pair.ours.model_dir)[1]
    if pair.case[2] == "new":
        assert got == expected
    else:  # The old flavour put the scope before the name once more.
        renamed = {
            "linear/bias": "bias",
            "linear/fraction_of_zero_weights": "fraction_of_zero_weights",
            "linear/linear/activation": "linear/activation",
            "linear/linear/fraction_of_zero_values": "linear/fraction_of_zero_values",
        }
        assert got == {renamed.get(tag, tag.replace("dnn/dnn/", "dnn/")) for tag in expected}


def test_stock_checkpoint_is_evaluated_as_it_is(pair, tmp_path):
    """A model_dir of tf.estimator needs no conversion for evaluation, prediction and export."""
    library, config = OURS[pair.case[2]], replicate.RunConfig(progress="off")
    other = made(library, pair.case, pair.stock.model_dir, config)
    checkpoint = pair.stock.latest_checkpoint()
    got = other.evaluate(pair.data, steps=1, checkpoint_path=checkpoint, name="ours")
    expected = pair.stock.evaluate(pair.data, steps=1, name="stock")
    assert got["loss"] == pytest.approx(expected["loss"], rel=1e-5)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_training_goes_on_in_a_stock_directory(flavour, tmp_path, own_log):
    """The weights are those of tf.estimator, and the slots, which have other names, start anew."""
    case = ("DNN", "Classifier", flavour)
    settings = {"tf_random_seed": 1, "log_step_count_steps": None, "save_summary_steps": None}
    stock = made(FLAVOURS[flavour], case, tmp_path, tf.estimator.RunConfig(**settings))
    before = model_variables(stock.train(input_fn(case), steps=2))
    config = replicate.RunConfig(**settings, progress="off")
    given = arguments("DNN", lambda: v1.train.AdagradOptimizer(0.05)) | {"weight_column": "weight"}
    ours = OURS[flavour].DNNClassifier(model_dir=str(tmp_path), config=config, **given)
    own_log.set_level("INFO", "absl")
    ours.train(input_fn(case), steps=1)
    after = model_variables(ours)
    assert after["global_step"] == 3
    assert sorted(after) == sorted(before)
    for name in set(before) - {"global_step"}:
        # A new accumulator of 0.1 makes steps shorter than the rate.
        assert 0 <= np.abs(after[name] - before[name]).max() < 0.05, name
    assert (after["dnn/logits/bias"] != before["dnn/logits/bias"]).all()
    gradients = ours.get_variable_value("dnn/logits/bias/Adagrad") - 0.1
    steps = 0.05 * np.sqrt(gradients / (gradients + 0.1))
    np.testing.assert_allclose(
        np.abs(after["dnn/logits/bias"] - before["dnn/logits/bias"]), steps, rtol=1e-3
    )
    assert sum("start at their initial values" in text for text in own_log.messages) == 1
