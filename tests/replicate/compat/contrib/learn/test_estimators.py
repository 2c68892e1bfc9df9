"""Estimators of tf.contrib.learn: fit, evaluate and predict."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.contrib import learn
from replicate.compat.contrib.learn import datasets, monitors

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("plain_sessions")
X = np.random.default_rng(0).normal(size=[64, 2]).astype("f4")
Y = (X[:, 0] > 0).astype("i4")
COLUMNS = [tf.feature_column.numeric_column("x", (2,))]


def config(folder):
    return replicate.RunConfig(str(folder), progress="off", save_checkpoints_steps=20)


def test_classifier_on_arrays(tmp_path):
    columns = learn.infer_real_valued_columns_from_input(X)
    classifier = learn.DNNClassifier(
        [8], columns, n_classes=2, gradient_clip_norm=5.0, config=config(tmp_path)
    )
    assert classifier.fit(X, Y, steps=40) is classifier
    results = classifier.evaluate(X, Y)
    assert results["accuracy"] > 0.8
    classes = list(classifier.predict(X))
    shares = np.array(classifier.predict_proba(X, as_iterable=False))
    np.testing.assert_array_equal(classes, np.argmax(shares, 1))
    np.testing.assert_allclose(np.mean(classes == Y), results["accuracy"], rtol=1e-6)
    assert set(next(classifier.predict(X[:1], outputs=["logits"]))) == {"logits"}


def test_regressor_on_arrays(tmp_path):
    regressor = learn.LinearRegressor(COLUMNS, config=config(tmp_path))
    target = X.sum(1)
    regressor.fit({"x": X}, target, steps=5, batch_size=64)
    scores = np.array(list(regressor.predict({"x": X})))
    found = regressor.evaluate({"x": X}, target)
    np.testing.assert_allclose(found["loss"], np.mean((scores - target) ** 2), rtol=1e-4)


def test_other_estimators_have_the_parts_of_their_models(tmp_path, graph):
    v1.train.create_global_step()
    wide = {"linear_feature_columns": COLUMNS}
    both = {**wide, "dnn_feature_columns": COLUMNS, "dnn_hidden_units": [4]}
    for made, parts in (
        (learn.LinearClassifier(COLUMNS), {"linear"}),
        (learn.DNNRegressor([4], COLUMNS), {"dnn"}),
        (learn.DNNLinearCombinedClassifier(**both), {"linear", "dnn"}),
        (learn.DNNLinearCombinedRegressor(**both), {"linear", "dnn"}),
    ):
        before = len(v1.trainable_variables())
        with v1.variable_scope(f"model_{before}"):
            spec = made.model_fn({"x": tf.constant(X)}, tf.constant(Y[:, None]), "train", None)
        names = [each.op.name.split("/")[1] for each in v1.trainable_variables()[before:]]
        assert (spec.train_op is not None, set(names)) == (True, parts)


def model_fn(inputs, targets, mode, params):
    w = v1.get_variable("w", [2], initializer=v1.zeros_initializer())
    predictions = tf.reduce_sum(inputs[""] * w, 1)
    loss = train_op = None
    if mode != "infer":
        loss = v1.losses.mean_squared_error(targets, predictions)
        step = v1.train.get_or_create_global_step()
        train_op = v1.train.GradientDescentOptimizer(params["rate"]).minimize(loss, step)
    if mode == "eval":
        return predictions, loss, train_op
    return learn.ModelFnOps(mode, predictions, loss, train_op)


def test_model_fn_of_any_names(tmp_path):
    estimator = learn.Estimator(
        model_fn,
        config=config(tmp_path),
        params={"rate": 0.1},
        feature_engineering_fn=lambda features, labels: ({"": 2 * features[""]}, labels),
    )
    target = X.sum(1).astype("f4")
    estimator.partial_fit(X, target, steps=1, batch_size=64)
    w = estimator.get_variable_value("w")
    np.testing.assert_allclose(w, 0.1 * 2 * np.mean(2 * X * target[:, None], 0), rtol=1e-4)
    found = estimator.predict(X, as_iterable=False)
    np.testing.assert_allclose(found, 2 * X @ w, rtol=1e-4)
    error = estimator.evaluate(
        X, target, metrics={"error": v1.metrics.mean_absolute_error}, batch_size=64
    )["error"]
    np.testing.assert_allclose(error, np.abs(2 * X @ w - target).mean(), rtol=1e-4)
    serving = {"": tf.TensorSpec([None, 2], tf.float32, "x")}
    receiver = learn.build_default_serving_input_fn(serving)
    assert estimator.export_savedmodel(str(tmp_path / "exports"), receiver)


def test_validation_monitor_stops_early(tmp_path):
    def diverging(features, labels, mode):
        w = v1.get_variable("w", [], initializer=v1.ones_initializer())
        train_op = tf.group(
            v1.assign(w, w * 2), v1.assign_add(v1.train.get_or_create_global_step(), 1)
        )
        return replicate.EstimatorSpec(mode, loss=w * tf.reduce_mean(labels), train_op=train_op)

    estimator = learn.Estimator(diverging, config=config(tmp_path))
    watch = monitors.ValidationMonitor(
        X, np.ones(64, "f4"), every_n_steps=1, early_stopping_rounds=20
    )
    estimator.fit(X, np.ones(64, "f4"), steps=100, monitors=[watch])
    assert watch.early_stopped
    assert (watch.best_step, watch.best_value) == (0, 1)
    assert estimator.get_variable_value("global_step") < 60


def test_monitors_are_hooks():
    with tf.Graph().as_default():
        loss = tf.constant(1.0, name="loss")
        hooks = [
            monitors.PrintTensor(["loss:0"], every_n=5),
            monitors.StopAtStep(num_steps=3),
            monitors.NanLoss(loss),
            monitors.SummarySaver(loss, save_steps=1, output_dir="."),
            monitors.CheckpointSaver(".", save_steps=1),
        ]
    assert all(isinstance(hook, v1.train.SessionRunHook) for hook in hooks)
    assert monitors.replace_monitors_with_hooks(hooks, None) == hooks
    assert monitors.replace_monitors_with_hooks(None, None) == []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (monitors.ValidationMonitor, "x and y, or input_fn"),
        (lambda: monitors.ValidationMonitor(X, metrics={"a": 1}), r"metrics \['a'\]"),
        (lambda: monitors.ValidationMonitor(X).begin(), "does not know its Estimator"),
        (lambda: learn.DNNClassifier([1], [], enable_centered_bias=True),
         "DNNClassifier got .'enable_centered_bias'."),
        (lambda: learn.LinearRegressor([], embedding_lr_multipliers={}),
         "LinearRegressor got .'embedding_lr_multipliers'."),
        (lambda: learn.Estimator(model_fn, params={}).fit(), "fit takes x or .* got neither"),
        (lambda: learn.Estimator(model_fn, params={}).evaluate(X, Y, max),
         "evaluate takes x or input_fn, got both"),
    ],
)  # fmt: skip
def test_messages(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_csv_files(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("2,3,a,b\n1.5,2,3,0\n4,5,6,1\n")
    found = datasets.load_csv_with_header(str(path), np.int32, np.float32)
    assert found.data.tolist() == [[1.5, 2, 3], [4, 5, 6]]
    assert found.target.tolist() == [0, 1]
    path.write_text("7,1.5\n8,2.5\n")
    found = datasets.load_csv_without_header(str(path), np.int32, np.float32, target_column=0)
    assert (found.data.tolist(), found.target.tolist()) == ([[1.5], [2.5]], [7, 8])
    assert datasets.maybe_download("data.csv", str(tmp_path), "") == str(path)
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        datasets.maybe_download("none.csv", str(tmp_path), "http://localhost")


def test_run_config_has_its_defaults_and_makes_a_session_config():
    config = learn.RunConfig()
    assert (config.save_checkpoints_secs, config.tf_random_seed) == (600, None)
    assert config.replace(model_dir="runs/other").model_dir == "runs/other"
    config = learn.RunConfig(gpu_memory_fraction=0.5, num_cores=3, save_checkpoints_steps=7)
    assert isinstance(config, replicate.RunConfig)
    options = config.session_config
    assert options.gpu_options.per_process_gpu_memory_fraction == 0.5
    assert options.intra_op_parallelism_threads == options.inter_op_parallelism_threads == 3
    assert (config.save_checkpoints_steps, config.save_checkpoints_secs) == (7, None)
    with pytest.raises(ValueError, match=r"master='grpc://a:1'.*TF_CONFIG"):
        learn.RunConfig("grpc://a:1")
