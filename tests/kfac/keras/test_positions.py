"""Position embeddings: the same table for every example, looked up or added."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1

STEPS, SIZE, WORDS, LONGEST = 5, 4, 7, 6


def positions_layer(keras, kind):
    """Returns a layer that adds a table [STEPS, SIZE] to [batch, STEPS, SIZE]."""
    layers = keras.keras.layers

    class Positions(layers.Layer):
        def build(self, shape):
            rows = LONGEST if kind in {"slice", "dynamic", "long"} else STEPS
            if kind in {"weight", "one of one", "slice", "broadcast"}:
                sizes = (1, rows, SIZE) if kind == "one of one" else (rows, SIZE)
                self.table = self.add_weight(shape=sizes, initializer="ones", name="embeddings")
            elif kind != "sinus":
                self.embedding = layers.Embedding(rows, SIZE)
                self.embedding.build((None, STEPS))
            super().build(shape)

        def call(self, x):
            ids = tf.range(tf.shape(x)[1] if kind == "dynamic" else STEPS)
            if kind in {"plain", "long"}:
                return x + self.embedding(tf.broadcast_to(ids, tf.shape(x)[:2]))
            if kind == "sinus":
                return x + np.sin(np.arange(STEPS * SIZE, dtype=np.float32).reshape(STEPS, SIZE))
            if kind in {"lookup", "dynamic"}:
                return x + self.embedding(ids)
            table = tf.convert_to_tensor(self.table)
            table = table[:STEPS] if kind == "slice" else table
            return x + (tf.broadcast_to(table, tf.shape(x)) if kind == "broadcast" else table)

        def compute_output_shape(self, shape):
            return shape

    return Positions()


def transformer(keras, kind):
    """Returns a model of tokens and positions, with weights that depend on shapes only."""
    layers = keras.keras.layers
    tokens = layers.Input((STEPS,), dtype="int32")
    x = positions_layer(keras, kind)(layers.Embedding(WORDS, SIZE)(tokens))
    model = keras.keras.Model(tokens, layers.Dense(3)(layers.Activation("tanh")(x)))
    random = np.random.RandomState(1)
    for variable in model.trainable_variables:
        is_table = "positions" in getattr(variable, "path", variable.name)
        drawn = np.abs(random.randn(*((LONGEST, SIZE) if is_table else variable.shape))) * 0.5
        drawn = drawn[: variable.shape[-2]] if is_table else drawn
        variable.assign(drawn.reshape(variable.shape))
    return model


def losses_of(keras, kind):
    model = transformer(keras, kind)
    optimizer = keras.Kfac(0.1, 0.02, invert_every=3)
    model.compile(optimizer=optimizer, loss=keras.cross_entropy())
    random = np.random.RandomState(0)
    tokens = random.randint(0, WORDS, [96, STEPS]).astype(np.int32)
    # Odd positions say the remainder of the token, even ones its opposite.
    return keras.fit(model, tokens, (tokens + np.arange(STEPS) % 2) % 3)


def check_that_positions_train_as_an_embedding(keras, plain, *kinds):
    """Compares with an embedding that has the same ids for each example."""
    expected = losses_of(keras, plain)
    assert np.std(expected) > 0.01
    for kind in kinds:
        np.testing.assert_allclose(losses_of(keras, kind), expected, rtol=0, atol=1e-5)


def test_positions_that_are_looked_up_train_as_an_embedding(both):
    check_that_positions_train_as_an_embedding(both, "plain", "lookup")


@pytest.mark.broad
def test_tables_that_are_added_train_as_an_embedding(either):
    check_that_positions_train_as_an_embedding(either, "plain", "weight", "one of one", "broadcast")
    check_that_positions_train_as_an_embedding(either, "long", "slice", "dynamic")


def test_sinusoids_have_nothing_to_train(either):
    assert np.isfinite(losses_of(either, "sinus")).all()


def test_step_of_positions_is_that_of_numpy():
    """F = I [T, T] ⊗ the mean of g gᵀ over examples and positions, with √λ·π and √λ/π added."""
    random, (steps, size), damping = np.random.RandomState(0), (3, 2), 0.1
    x, labels = random.randn(8, steps, size), random.randint(0, size, [8, steps])
    first = random.randn(steps, size)
    with tf.Graph().as_default(), v1.Session() as session:
        table = v1.get_variable("p", initializer=tf.constant(first), use_resource=True)
        logits = x + table
        layers = kfac.LayerCollection()
        layers.register_categorical_predictive_distribution(logits, targets=labels, name="loss")
        layers.auto_register_layers([table], finds_positions=True)
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        step = kfac.PeriodicInvCovUpdateKfacOpt(
            layer_collection=layers,
            learning_rate=1.0,
            damping=damping,
            momentum=None,
            estimation_mode="empirical",
        ).minimize(tf.reduce_sum(loss) / len(x), var_list=[table])
        session.run(v1.global_variables_initializer())
        session.run(step)
        changed = first - session.run(table)
    exponentials = np.exp(x + first)
    g = exponentials / exponentials.sum(-1, keepdims=True) - np.eye(size)[labels]
    moment = np.einsum("ntd,nte->de", g, g) / (len(x) * steps)
    pi = np.sqrt(1.0 / (np.trace(moment) / size))
    inverse = np.linalg.inv(moment + np.sqrt(damping) / pi * np.eye(size))
    expected = g.mean(0) @ inverse / (1.0 + np.sqrt(damping) * pi)
    np.testing.assert_allclose(changed, expected, rtol=1e-6)
