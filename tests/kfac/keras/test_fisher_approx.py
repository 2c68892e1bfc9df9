"""The layers of Keras that are found in the graph of a training step."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.keras.fisher_approx import register_layers
from kfac.keras.training import captured_variables

v1 = tf.compat.v1


def blocks(model, x, approximations=None, unknown="error", known_model=True):
    """Returns the kinds of blocks of a model with logits, by the first parameter's name."""
    found = {}

    @tf.function
    def step(x):
        logits = model(x, training=True)
        graph = v1.get_default_graph()
        strategy = tf.distribute.get_strategy()
        variables = captured_variables(strategy, model.trainable_variables, graph)
        layers = kfac.LayerCollection()
        layers.register_categorical_predictive_distribution(logits)
        inner = model if known_model else None
        register_layers(layers, variables, approximations, unknown, None, inner)
        for block in layers.get_blocks():
            found[block.name] = type(block).__name__.removesuffix("FB")

    step(x)
    return found


def model_of(either, layers, shape, outputs=3):
    k = either.keras.layers
    return either.keras.Sequential([k.Input(shape), *layers, k.Flatten(), k.Dense(outputs)])


def broad(*row):
    return pytest.param(*row, marks=pytest.mark.broad)


@pytest.mark.parametrize(
    ("make", "shape", "expected"),
    [
        (lambda k: [k.Conv2D(4, 3, dilation_rate=2)], (8, 8, 2), {"ConvKFCBasic"}),
        (
            lambda k: [k.SeparableConv2D(4, 3)],
            (8, 8, 2),
            {"DepthwiseConvDiagonal", "ConvKFCBasic"},
        ),
        (lambda k: [k.Dense(4), k.BatchNormalization()], (6,), {"ScaleAndShiftFull"}),
        (lambda k: [k.Dense(4), k.LayerNormalization()], (5, 6), {"ScaleAndShiftFull"}),
        (
            lambda k: [k.EinsumDense("bti,io->bto", output_shape=(5, 4), bias_axes="o")],
            (5, 6),
            {"FullyConnectedMultiIndep"},
        ),
        (lambda k: [k.Dense(6)] * 2, (6,), {"FullyConnectedMultiIndep"}),
        broad(lambda k: [k.Conv1D(4, 3)], (8, 2), {"ConvKFCBasic"}),
        broad(lambda k: [k.Conv3D(4, 2)], (4, 4, 4, 2), {"ConvKFCBasic"}),
        broad(lambda k: [k.Conv2D(4, 3), k.BatchNormalization()], (6, 6, 1), {"ScaleAndShiftFull"}),
        broad(lambda k: [k.Conv2D(4, 3), k.GroupNormalization(2)], (6, 6, 1), {"NaiveDiagonal"}),
    ],
    ids=[
        "conv2d",
        "separable",
        "batch norm",
        "layer norm",
        "einsum",
        "shared",
        "conv1d",
        "conv3d",
        "batch norm of images",
        "group norm",
    ],
)
def test_layer_is_known(either, make, shape, expected):
    model = model_of(either, make(either.keras.layers), shape)
    x = np.ones((2, *shape), np.float32)
    assert expected <= set(blocks(model, x).values())


def test_embedding_and_the_layer_after_it_are_known(either):
    k = either.keras.layers
    inputs = k.Input((5,), dtype="int32")
    outputs = k.Dense(3)(k.Flatten()(k.Embedding(10, 4)(inputs)))
    model = either.keras.Model(inputs, outputs)
    kinds = blocks(model, np.zeros((2, 5), np.int32)).values()
    assert set(kinds) == {"FullyConnectedMultiIndep", "FullyConnectedKFACBasic"}


def test_attention_is_four_dense_layers(keras3):
    k = keras3.keras.layers
    inputs = k.Input((5, 6))
    attended = k.MultiHeadAttention(2, 3)(inputs, inputs)
    model = keras3.keras.Model(inputs, k.Dense(3)(k.Flatten()(attended)))
    kinds = list(blocks(model, np.ones((2, 5, 6), np.float32)).values())
    assert kinds.count("FullyConnectedMultiIndep") == 4
    assert kinds.count("FullyConnectedKFACBasic") == 1


def test_attention_without_biases_is_known_by_expand_and_reduce(either):
    k = either.keras.layers
    inputs = k.Input((5, 6))
    attended = k.MultiHeadAttention(2, 3, use_bias=False)(inputs, inputs)
    model = either.keras.Model(inputs, k.Dense(3)(k.Flatten()(attended)))
    chosen = {k.MultiHeadAttention: "kron_reduce"}
    kinds = list(blocks(model, np.ones((2, 5, 6), np.float32), chosen).values())
    assert kinds.count("WeightSharing") == 4
    assert kinds.count("FullyConnectedKFACBasic") == 1


def test_subclassed_model_with_a_nested_one(either):
    k = either.keras.layers

    class Net(either.keras.Model):
        def __init__(self):
            super().__init__()
            self.inner = either.keras.Sequential([k.Dense(5, "tanh"), k.Dense(4, "tanh")])
            self.outer = k.Dense(3)

        def call(self, x, training=None):
            return self.outer(self.inner(x))

    model, x = Net(), np.ones((2, 6), np.float32)
    model(x)
    assert set(blocks(model, x).values()) == {"FullyConnectedKFACBasic"}
    assert len(blocks(model, x)) == 3


def test_unknown_layer_is_an_error_that_names_the_way_out(either):
    model = model_of(either, [either.keras.layers.LSTM(4)], (5, 6))
    with pytest.raises(ValueError, match=r"knows no layer of these variables: .*kernel"):
        blocks(model, np.ones((2, 5, 6), np.float32))


def test_unknown_layer_has_a_diagonal_where_that_is_wanted(either):
    model = model_of(either, [either.keras.layers.Conv2DTranspose(4, 3)], (4, 4, 2))
    kinds = blocks(model, np.ones((2, 4, 4, 2), np.float32), unknown="diagonal")
    assert sorted(kinds.values()) == ["FullyConnectedKFACBasic", "NaiveDiagonal", "NaiveDiagonal"]


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda k: {"first": "diagonal"}, ["ConvDiagonal", "FullyConnectedKFACBasic"]),
        (
            lambda k: {k.Conv2D: "diagonal", "Dense": "ekfac"},
            ["ConvDiagonal", "FullyConnectedEKFAC"],
        ),
        (lambda k: "ekfac", ["ConvEKFAC", "FullyConnectedEKFAC"]),
    ],
    ids=["name", "classes", "all"],
)
def test_approximation_is_chosen(either, make, expected):
    k = either.keras.layers
    model = model_of(either, [k.Conv2D(4, 3, name="first")], (6, 6, 1))
    found = blocks(model, np.ones((2, 6, 6, 1), np.float32), make(k))
    assert sorted(found.values()) == expected


def test_approximation_of_no_layer_is_an_error(either):
    model = model_of(either, [], (6,))
    with pytest.raises(ValueError, match=r"names 'first', and no layer .* has that name"):
        blocks(model, np.ones((2, 6), np.float32), {"first": "ekfac"})


def test_class_needs_the_model(either):
    model = model_of(either, [], (6,))
    with pytest.raises(ValueError, match=r"the model is not known here\. Pass it as model"):
        blocks(
            model,
            np.ones((2, 6), np.float32),
            {either.keras.layers.Dense: "ekfac"},
            known_model=False,
        )
