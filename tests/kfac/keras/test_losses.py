"""The losses that are found in the graph of a training step, with the weights of examples."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.keras.losses import register_losses
from kfac.variables import CapturedVariable

v1 = tf.compat.v1
LABELS = np.array([0, 2, 1, 2], np.int64)
ONE_HOT = np.eye(3, dtype=np.float32)[LABELS]


def registered(compute, outputs=1, losses=1, shape=(4, 5), batch_size=None):
    """Registers the loss of a linear model, and returns what the collection then has.

    Args:
      compute: Returns the loss of the model's outputs.
      outputs: Outputs of the model, each [4, 3].
      losses: Terms that the loss is to have.
      shape: Shape of the inputs.
      batch_size: As in `register_losses`.
    """
    random = np.random.RandomState(0)
    weights = [tf.Variable(random.randn(5, 3).astype(np.float32)) for _ in range(outputs)]
    x = tf.constant(random.randn(*shape).astype(np.float32))
    values = {}

    @tf.function
    def step(x):
        loss = compute(*[tf.tensordot(x, weight, 1) for weight in weights])
        graph = v1.get_default_graph()
        views = [CapturedVariable([w], graph, f"w{i}") for i, w in enumerate(weights)]
        layers = kfac.LayerCollection()
        register_losses(layers, [loss], views, batch_size)
        kinds = [type(found).__name__ for found in layers.losses]
        assert len(kinds) == losses
        values["kinds"] = kinds
        rows = shape[0] if batch_size is None else batch_size
        return loss, layers.total_loss() / rows

    passed, total = step(x)
    return values["kinds"], float(passed), float(total)


def check(compute, kind, constant=0.0, **options):
    kinds, passed, total = registered(compute, **options)
    assert set(kinds) == {f"{kind}NegativeLogProbLoss"}
    np.testing.assert_allclose(total, passed + constant, rtol=1e-5)


def sparse(logits):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=logits)


NORMAL = 3 * 0.5 * np.log(np.pi)
"""−log p has this constant beside the squared error, for three outputs."""


@pytest.mark.parametrize(
    ("name", "kind", "targets", "constant"),
    [
        ("SparseCategoricalCrossentropy", "CategoricalLogits", LABELS, 0.0),
        ("CategoricalCrossentropy", "OnehotCategoricalLogits", ONE_HOT, 0.0),
        ("BinaryCrossentropy", "MultiBernoulli", ONE_HOT, 0.0),
        ("MeanSquaredError", "NormalMean", ONE_HOT, NORMAL / 3),
    ],
)
def test_losses_of_keras_are_found(both, name, kind, targets, constant):
    make = getattr(both.keras.losses, name)
    loss = make() if name == "MeanSquaredError" else make(from_logits=True)
    check(lambda outputs: loss(targets, outputs), kind, constant)


@pytest.mark.parametrize(
    ("name", "kind", "targets", "activation"),
    [
        ("SparseCategoricalCrossentropy", "CategoricalLogits", LABELS, "softmax"),
        ("CategoricalCrossentropy", "OnehotCategoricalLogits", ONE_HOT, "softmax"),
        ("BinaryCrossentropy", "MultiBernoulli", ONE_HOT, "sigmoid"),
    ],
)
@pytest.mark.parametrize("is_hidden", [False, True], ids=["activation", "probabilities"])
def test_losses_of_probabilities_are_found(either, name, kind, targets, activation, is_hidden):
    loss = getattr(either.keras.losses, name)()
    activate = getattr(either.keras.activations, activation)

    def compute(outputs):
        probabilities = activate(outputs)
        # Keras finds the logits of its own activations; not those of a product.
        return loss(targets, probabilities * 1.0 if is_hidden else probabilities)

    check(compute, kind)


def test_weights_of_examples_and_of_terms_are_found():
    weights = tf.constant([1.0, 0.0, 2.0, 0.5])

    def compute(first, second):
        cross = tf.reduce_mean(weights * sparse(first))
        other = tf.reduce_sum(tf.where(LABELS > 1, sparse(second), 0.0))
        return 0.25 * cross + other / 8.0

    check(compute, "CategoricalLogits", outputs=2, losses=2)


def test_steps_of_sequences_are_rows_of_their_examples():
    labels = np.arange(8).reshape(4, 2) % 3

    def compute(logits):
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        )

    check(compute, "CategoricalLogits", shape=(4, 2, 5))


def test_given_batch_size_counts_examples():
    check(lambda logits: tf.reduce_mean(sparse(logits)), "CategoricalLogits", batch_size=2)


def test_penalty_of_weights_is_no_loss_of_the_curvature():
    variable = tf.Variable(1.0)

    def compute(logits):
        return tf.reduce_mean(sparse(logits)) + 0.0 * tf.square(variable)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check(compute, "CategoricalLogits")


def test_unknown_term_is_left_out_with_a_warning():
    with pytest.warns(UserWarning, match=r"leaves out .* that end at .*Abs") as caught:
        registered(lambda logits: tf.reduce_mean(sparse(logits)) + tf.reduce_mean(tf.abs(logits)))
    assert caught[0].filename == __file__


def test_unknown_loss_is_an_error_that_names_the_op():
    with pytest.raises(ValueError, match=r"finds no loss .* ends at .*\(Abs\).*Accepted are"):
        registered(lambda outputs: tf.reduce_mean(tf.abs(outputs)))


def test_loss_that_uses_a_prediction_twice_is_not_taken_for_a_known_one():
    with pytest.raises(ValueError, match="finds no loss"):
        registered(lambda logits: tf.reduce_mean(sparse(logits) * tf.reduce_sum(logits, 1)))
