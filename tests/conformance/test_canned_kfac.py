"""K-FAC trains canned estimators: registered layers and losses, towers, restarts, all modes.

Two towers, of 11 and 10 rows, train as one. One is compared with a model registered by hand.
"""

import functools

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate
from replicate.graph_ops.checks import user_errors

v1 = tf.compat.v1
fc = tf.feature_column

STEPS, ROWS = 6, 21
TOLERANCE = 5e-6
"""Of the largest weight."""

UNOPTIMIZED = v1.ConfigProto(device_count={"CPU": 2})
"""Options of sessions that start sooner, because they leave graphs as they are."""
UNOPTIMIZED.graph_options.rewrite_options.disable_meta_optimizer = True

RANDOM = np.random.RandomState(3)
FEATURES = {
    "x": RANDOM.randn(ROWS, 3).astype("float32"),
    "job": RANDOM.randint(0, 5, [ROWS, 1]),
    "w": RANDOM.randint(1, 4, ROWS).astype("float32"),
}
CLASSES = (FEATURES["job"][:, 0] + (FEATURES["x"][:, 0] > 0)) % 3
NUMBERS = FEATURES["x"][:, :2] ** 2

X = fc.numeric_column("x", [3])
JOB = fc.categorical_column_with_identity("job", 5)
DENSE = [X, fc.embedding_column(JOB, 2)]


def adam_like(**settings):
    return kfac.for_canned(learning_rate=0.05, damping=0.1, invert_every=2, **settings)


def multi_head():
    return replicate.MultiHead(
        [
            replicate.MultiClassHead(3, name="class"),
            replicate.RegressionHead(2, name="number", weight_column="w"),
        ],
        head_weights=[1.0, 0.5],
    )


CASES = {
    "two_classes": (functools.partial(replicate.LinearClassifier, [X]), CLASSES > 0),
    "three_classes_with_weights": (
        functools.partial(
            replicate.DNNClassifier,
            [4],
            DENSE,
            n_classes=3,
            weight_column="w",
            activation_fn=tf.tanh,
        ),
        CLASSES,
    ),
    "two_heads": (
        functools.partial(replicate.LinearEstimator, multi_head(), [X]),
        {"class": CLASSES, "number": NUMBERS},
    ),
}


def combined(model_dir=None, *, optimizer, **kwargs):
    return replicate.DNNLinearCombinedClassifier(
        model_dir,
        linear_feature_columns=[JOB],
        dnn_feature_columns=[X],
        dnn_hidden_units=[4],
        dnn_optimizer=optimizer,
        n_classes=3,
        **kwargs,
    )


def initialize(session):
    """Gives variables the same values in every graph: kernels and tables are drawn."""
    session.run(v1.global_variables_initializer())
    session.run([v1.local_variables_initializer(), v1.tables_initializer()])
    drawn = [each for each in v1.trainable_variables() if len(each.shape) == 2]
    values = {
        each.initializer.inputs[1]: np.random.RandomState(each.shape.num_elements())
        .randn(*each.shape)
        .astype("float32")
        / 2
        for each in drawn
    }
    session.run([each.initializer for each in drawn], values)


def trained(model_fn, labels, steps=STEPS, features=FEATURES):
    """Makes steps of a model_fn on one batch; returns losses and all variables by name."""
    with tf.Graph().as_default():
        v1.set_random_seed(0)
        v1.train.create_global_step()
        spec = model_fn(dict(features), labels)
        with v1.Session(config=UNOPTIMIZED) as session, user_errors():
            initialize(session)
            losses = [session.run([spec.loss, spec.train_op])[0] for _ in range(steps)]
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


def model_fn_of(estimator):
    return lambda features, labels: estimator.model_fn(features, labels, "train", estimator.config)


@functools.cache
def reference(case):
    make, labels = CASES[case]
    return trained(model_fn_of(make(optimizer=adam_like())), labels)


def check_same(got, expected):
    losses, variables = got
    expected_losses, expected_variables = expected
    np.testing.assert_allclose(losses, expected_losses, rtol=5 * TOLERANCE)
    assert sorted(variables) == sorted(expected_variables)
    model = [name for name in variables if not name.startswith(("kfac", "KFAC"))]
    largest = max(np.abs(expected_variables[name]).max() for name in model if "global" not in name)
    for name in model:
        difference = np.abs(variables[name] - expected_variables[name]).max()
        assert difference <= TOLERANCE * largest, name


@pytest.mark.parametrize(
    "case",
    ["three_classes_with_weights", pytest.param("two_heads", marks=pytest.mark.broad)],
)
def test_two_towers_train_as_one(case):
    make, labels = CASES[case]
    losses, _ = reference(case)
    assert losses[-1] < 0.95 * losses[0]
    estimator = make(optimizer=adam_like(), devices=["/cpu:0", "/cpu:1"])
    check_same(trained(model_fn_of(estimator), labels), reference(case))


def test_replicated_model_fn_trains_as_one_tower():
    make, labels = CASES["two_classes"]
    estimator = make(optimizer=adam_like())
    replicated = replicate.replicate_model_fn(
        estimator.model_fn,
        v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        ["/cpu:0", "/cpu:1"],
        uneven="weighted",
    )
    got = trained(lambda x, y: replicated(x, y, "train", None, estimator.config), labels)
    losses, _ = reference("two_classes")
    assert losses[-1] < 0.95 * losses[0]
    check_same(got, reference("two_classes"))


def by_hand(features, labels):
    """The model of "three_classes_with_weights", without heads, columns or records."""

    def variable(name, shape):
        return v1.get_variable(f"dnn/{name}", shape, initializer=v1.zeros_initializer())

    layers = kfac.graph_layer_collection()
    column = "input_from_feature_columns/input_layer/job_embedding/embedding_weights"
    table, ids = variable(column, [5, 2]), tf.constant(features["job"][:, 0])
    rows = tf.gather(table, ids)
    layers.register_fully_connected(table, ids, rows, dense_inputs=False)
    net = tf.concat([rows, features["x"]], axis=1)
    sizes = {"hiddenlayer_0": (5, 4), "logits": (4, 3)}
    for name, (inputs, units) in sizes.items():
        kernel, bias = variable(f"{name}/kernel", [inputs, units]), variable(f"{name}/bias", units)
        outputs = net @ kernel + bias
        layers.register_fully_connected((kernel, bias), net, outputs)
        net = tf.tanh(outputs)
    weights = features["w"]
    layers.register_categorical_predictive_distribution(outputs, weights=weights, name="head")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)
    loss = tf.reduce_mean(losses * weights)
    settings = {**adam_like().arguments, "estimation_mode": "exact"}
    optimizer = kfac.PeriodicInvCovUpdateKfacOpt(layer_collection=layers, **settings)
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return replicate.EstimatorSpec("train", loss=loss, train_op=train_op)


def test_steps_and_factors_are_those_of_a_model_registered_by_hand():
    _, labels = CASES["three_classes_with_weights"]
    losses, expected = trained(by_hand, labels)
    got_losses, got = reference("three_classes_with_weights")
    assert got_losses == losses
    factors = [name for name in expected if name.startswith("kfac")]
    assert len(factors) > 6
    assert set(factors) <= set(got)
    for name in factors:
        np.testing.assert_array_equal(got[name], expected[name], err_msg=name)


def test_only_the_network_of_a_combined_model_is_preconditioned():
    estimator = combined(optimizer=adam_like())
    with tf.Graph().as_default():
        v1.train.create_global_step()
        estimator.model_fn(dict(FEATURES), CLASSES, "train", estimator.config)
        names = [each.op.name for each in v1.global_variables()]
    assert any("linear" in name and "Ftrl" in name for name in names)
    assert any(name.startswith("kfac") for name in names)
    assert not any(name.startswith("kfac") and "linear" in name for name in names)


def test_batch_normalization_is_registered():
    with tf.Graph().as_default():
        v1.train.create_global_step()
        estimator = replicate.DNNClassifier([4], [X], optimizer=adam_like(), batch_norm=True)
        estimator.model_fn(dict(FEATURES), CLASSES > 0, "train", estimator.config)
        described = kfac.graph_layer_collection().describe()
    name = "dnn/hiddenlayer_0/batchnorm_0"
    assert described[f"{name}/gamma"] == described[f"{name}/beta"]
    assert "generic" not in described[f"{name}/gamma"]


def test_baseline_is_trained_without_known_layers(own_log):
    estimator = replicate.BaselineClassifier(n_classes=3, optimizer=adam_like())
    losses, _ = trained(model_fn_of(estimator), CLASSES)
    assert losses[-1] < losses[0]
    assert "baseline/bias: generic" in own_log.text


class OwnHead:
    """Half the squared error, with what K-FAC needs to know of it."""

    logits_dimension, loss_reduction = 2, "sum_over_batch_size"

    def create_estimator_spec(self, *, logits, labels, mode, optimizer, trainable_variables, **_):
        loss = tf.reduce_mean((logits - labels) ** 2) / 2
        step = v1.train.get_global_step()
        train_op = optimizer.minimize(loss, step, var_list=trainable_variables)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def curvature_losses(self, logits, features):
        (loss,) = replicate.RegressionHead(2).curvature_losses(logits, features)
        return [loss.scaled(0.5)]


def test_head_of_ones_own_may_tell_its_losses():
    estimator = replicate.LinearEstimator(OwnHead(), [X], optimizer=adam_like())
    with tf.Graph().as_default():
        v1.train.create_global_step()
        spec = estimator.model_fn(dict(FEATURES), NUMBERS, "train", estimator.config)
        assert spec.train_op is not None
        assert list(kfac.graph_layer_collection().loss_coeffs.values()) == [0.25]


def cross(labels, logits):
    return logits[:, :1] ** 2


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (replicate.PoissonRegressionHead(), "loss of PoissonRegressionHead"),
        (replicate.MultiClassHead(3, loss_fn=cross), "loss of MultiClassHead"),
        (
            replicate.MultiClassHead(3, loss_reduction=tf.losses.Reduction.SUM),
            "MultiClassHead with K-FAC: its loss_reduction is 'sum'",
        ),
    ],
)
def test_heads_without_a_known_mean_loss_are_refused(head, message):
    estimator = replicate.LinearEstimator(head, [X], optimizer=adam_like())
    with pytest.raises(ValueError, match=message):
        trained(model_fn_of(estimator), CLASSES)


def test_both_parts_of_a_combined_model_are_refused():
    optimizer = adam_like()
    estimator = combined(optimizer=optimizer, linear_optimizer=optimizer)
    with pytest.raises(ValueError, match="linear_optimizer='Ftrl'"):
        trained(model_fn_of(estimator), CLASSES)


def input_fn():
    return tf.data.Dataset.from_tensors((FEATURES, CLASSES)).repeat()


def test_estimator_trains_on_evaluates_predicts_and_exports(tmp_path, plain_sessions):
    """Each call is made by an estimator of its own, from the checkpoint of the one before."""

    def make():
        config = replicate.RunConfig(tf_random_seed=1)
        folder = str(tmp_path / "model")
        return replicate.LinearClassifier([X], folder, 3, optimizer=adam_like(), config=config)

    make().train(input_fn, max_steps=3)
    make().train(input_fn, max_steps=6)
    metrics = make().evaluate(input_fn, steps=1)
    assert metrics["global_step"] == 6
    assert metrics["loss"] < 0.95 * np.log(3)
    probabilities = next(make().predict(input_fn))["probabilities"]
    spec = fc.make_parse_example_spec([X])
    receiver = replicate.export.build_parsing_serving_input_receiver_fn(spec)
    exported = make().export_saved_model(str(tmp_path / "exported"), receiver)
    x = tf.train.Feature(float_list=tf.train.FloatList(value=FEATURES["x"][0]))
    example = tf.train.Example(features=tf.train.Features(feature={"x": x}))
    with tf.Graph().as_default(), v1.Session() as session:
        loaded = v1.saved_model.load(session, ["serve"], exported)
        assert not [each.name for each in loaded.graph_def.node if "kfac" in each.name]
        signature = loaded.signature_def["predict"]
        found = session.run(
            signature.outputs["probabilities"].name,
            {signature.inputs["examples"].name: [example.SerializeToString()]},
        )
    np.testing.assert_allclose(found[0], probabilities, rtol=1e-5)


@pytest.mark.slow
def test_kfac_learns_digits_in_fewer_steps_than_adagrad():
    datasets = pytest.importorskip("sklearn.datasets")
    images, labels = datasets.load_digits(return_X_y=True)
    images = (images / 16).astype("float32")[:600]
    columns = [fc.numeric_column("pixels", [64])]

    def last_loss(optimizer):
        estimator = replicate.DNNClassifier([32], columns, n_classes=10, optimizer=optimizer)
        losses, _ = trained(model_fn_of(estimator), labels[:600], 40, {"pixels": images})
        return losses[-1]

    adagrad = last_loss("Adagrad")
    assert last_loss(kfac.for_canned()) < 0.5 * adagrad
    assert last_loss(kfac.for_canned(adaptive=True)) < 0.2 * adagrad
