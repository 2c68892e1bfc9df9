"""Linear estimators and their parts: steps against NumPy, rates, training, and errors."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import LinearClassifier, LinearRegressor
from replicate.canned.linear_part import linear_logit_fn_builder, make_linear_part
from replicate.spec import ModeKeys

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column
X = fc.numeric_column("x")
BIAS = "linear/linear_model/bias_weights"


def test_rate_without_an_optimizer_falls_with_the_columns(train_steps, tmp_path):
    keys = [f"x{index}" for index in range(26)]
    numbers = [fc.numeric_column(key) for key in keys]
    estimator = LinearRegressor(numbers, str(tmp_path), optimizer=None)
    done = train_steps(estimator, {key: [1.0] for key in keys}, [1.0])
    np.testing.assert_allclose(done.variables[BIAS], [26**-0.5 * 2 / 4.1**0.5], rtol=1e-5)


def test_optimizers_are_given_in_every_form(train_steps, tmp_path):
    def by_step():
        rate = tf.cast(v1.train.get_or_create_global_step(), tf.float32) + 0.5
        return v1.train.GradientDescentOptimizer(rate)

    for optimizer, expected in [
        (v1.train.GradientDescentOptimizer(0.5), 1.0),
        (by_step, 1.0),
        (tf.keras.optimizers.SGD(0.5), 1.0),
    ]:
        estimator = LinearRegressor([X], str(tmp_path), optimizer=optimizer)
        for _ in range(2):  # Training again is a new graph.
            done = train_steps(estimator, {"x": [1.0]}, [1.0])
            np.testing.assert_allclose(done.variables[BIAS], [expected], rtol=1e-6)


def test_classes_with_weights_and_names(train_steps, tmp_path):
    """A step of rate 0.2. At logits 0 the loss of three classes is log 3: Σ w·l / rows."""
    word = fc.categorical_column_with_vocabulary_list("word", ["a", "b"])
    estimator = LinearClassifier(
        [word],
        str(tmp_path),
        3,
        "w",
        ["cat", "dog", "eel"],
        optimizer="SGD",
        sparse_combiner="mean",
    )
    features = {"word": [["a", "b"], ["b", "b"]], "w": [1.0, 3.0]}
    done = train_steps(estimator, features, ["cat", "eel"])
    np.testing.assert_allclose(done.losses, [4 / 2 * np.log(3)], rtol=1e-6)
    gradients = np.array([[1.0], [3.0]]) / 2 * (np.full([2, 3], 1 / 3) - np.eye(3)[[0, 2]])
    shares = np.array([[0.5, 0.5], [0.0, 1.0]])
    np.testing.assert_allclose(
        done.variables["linear/linear_model/word/weights"],
        -0.2 * shares.T @ gradients,
        rtol=1e-5,
        atol=1e-7,
    )


PAIR = fc.numeric_column("x", shape=[2])
FEATURES = {"x": [[1.0, 2.0], [-3.0, 1.0]]}


def summaries(session):
    summary = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    return {value.tag: value.simple_value for value in summary.value}


def test_part_is_below_its_scope_and_summarized_in_training(graph):
    part = make_linear_part([PAIR], "sum", None).build(FEATURES, 1, ModeKeys.TRAIN, None)
    assert [each.op.name for each in part.variables] == [
        "linear/linear_model/x/weights",
        "linear/linear_model/bias_weights",
    ]
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        part.variables[0].load(np.array([[3.0], [0.0]], np.float32), session)
        part.variables[1].load(np.array([7.0], np.float32), session)
        np.testing.assert_allclose(session.run(part.logits), [[10], [-2]])
        assert summaries(session) == {"bias": 7, "fraction_of_zero_weights": 0.5}


def test_evaluation_of_partitioned_weights_makes_no_summaries(graph):
    part = make_linear_part([PAIR], "sum", v1.fixed_size_partitioner(2))
    names = [each.op.name for each in part.build(FEATURES, 2, ModeKeys.EVAL, None).variables]
    assert names[0] == "linear/linear_model/x/weights/part_0"
    assert v1.get_collection(v1.GraphKeys.SUMMARIES) == []


def test_builder_leaves_the_scope_to_its_caller(graph):
    logit_fn = linear_logit_fn_builder(units=3, feature_columns=[PAIR])
    with v1.variable_scope("mine", partitioner=v1.fixed_size_partitioner(2)):
        logits = logit_fn(FEATURES)
    assert logits.shape.as_list() == [2, 3]
    assert v1.trainable_variables()[0].op.name == "mine/linear_model/x/weights/part_0"
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        assert set(summaries(session)) == {"mine/bias", "mine/fraction_of_zero_weights"}


@pytest.mark.parametrize("units", [{"head": 2}, 2.0, True])
def test_units_must_be_an_int(units):
    with pytest.raises(ValueError, match="units must be an int, the logits per example, got"):
        linear_logit_fn_builder(units, [X])


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"feature_columns": []}, ValueError, "feature_columns must hold at least one"),
        ({"optimizer": "Best"}, ValueError, "LinearClassifier: optimizer is named 'Best'"),
        ({"sparse_combiner": "max"}, ValueError, "sparse_combiner must be one of"),
        ({"partitioner": 3}, TypeError, "partitioner must be a function or None"),
        ({"n_classes": 1}, ValueError, "n_classes"),
        ({"loss_reduction": "none"}, ValueError, "none"),
        ({"devices": "/cpu:0"}, TypeError, "/cpu:0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, kind, text, tmp_path):
    with pytest.raises(kind, match=text):
        LinearClassifier(**{"feature_columns": [X], "model_dir": str(tmp_path), **arguments})
