import pytest
import tensorflow as tf

from kfac.graph_search.bias import find_bias
from kfac.graph_search.tower import Tower

v1 = tf.compat.v1


@pytest.fixture
def product(graph):
    return tf.identity(tf.ones([8, 5, 4]), name="product")


@pytest.fixture
def bias(graph):
    return v1.get_variable("b", [4])


def find(product, bias, output, *others, **kwargs):
    tower = Tower([output, *others], [bias])
    return find_bias(tower, product, 4, **kwargs)


@pytest.mark.parametrize(
    "add",
    [
        lambda x, b: x + b,
        lambda x, b: b + x,
        tf.nn.bias_add,
        lambda x, b: x + tf.reshape(b, [1, 1, 4]),
        lambda x, b: v1.add(x, tf.identity(b)),
    ],
)
def test_direct_addition(product, bias, add):
    total = add(product, bias)
    found = find(product, bias, tf.nn.relu(total))
    assert found.bias is bias
    assert found.outputs is total
    assert found.tensors[1] is total


@pytest.mark.parametrize(
    "add",
    [
        lambda x, b: tf.reshape(x, [40, 4]) + b,
        lambda x, b: tf.nn.bias_add(tf.expand_dims(x, 0), b),
        lambda x, b: (x + tf.ones([8, 5, 4])) + b,
        lambda x, b: tf.reshape(x, [40, 2, 2]) + tf.reshape(b, [2, 2]),
    ],
)
def test_gradients_are_taken_before_other_terms_and_shapes(product, bias, add):
    found = find(product, bias, add(product, bias))
    assert found.bias is bias
    assert found.outputs is product


@pytest.mark.parametrize(
    "add",
    [
        lambda x, b: tf.nn.relu(x) + b,
        lambda x, b: tf.ones([8, 5, 4]) + x + b,
        lambda x, b: (x[:, :1] + tf.ones([8, 5, 4])) + b,
        lambda x, b: tf.reshape(x, [8, 20]) + tf.tile(b, [5]),
        lambda x, b: x + tf.reshape(b, [4, 1])[:1],
        lambda x, b: x * 2.0 + b,
        lambda x, b: (x + b) * x,
        lambda x, b: b - x,
    ],
)
def test_what_is_no_bias(product, bias, add):
    assert find(product, bias, add(product, bias)) is None


def test_sum_of_unknown_shape(product, bias):
    reshaped = tf.reshape(product, v1.placeholder(tf.int32, None))
    assert find(product, bias, (reshaped + 1.0) + bias) is None


def test_product_that_a_loss_takes(product, bias):
    assert find(product, bias, product + bias, product) is None


@pytest.mark.parametrize("shape", [[4], [4, 1, 1], [1, 4, 1, 1]])
def test_channels_first(graph, shape):
    bias, product = v1.get_variable("b", [4]), tf.ones([8, 4, 5, 5])
    total = (
        tf.nn.bias_add(product, bias, data_format="NCHW")
        if shape == [4]
        else product + tf.reshape(bias, shape)
    )
    assert find(product, bias, total, channels_first=True).outputs is total
    assert find(product, bias, total) is None


def test_one_number_per_row_is_no_bias_of_channels(graph):
    bias, product = v1.get_variable("b", [4]), tf.ones([8, 4, 4])
    total = product + tf.reshape(bias, [4, 1])
    assert find(product, bias, total) is None
