"""Products of matrices, embeddings and biases that the scanner finds."""

import numpy as np
import pytest
import tensorflow as tf

from kfac.graph_search.bias import find_bias
from kfac.graph_search.tower import Tower

v1 = tf.compat.v1


def dense_layers(model):
    """Products in all forms, each with another side or kind of bias."""
    x = model.data("x", 8, 6)
    w, b = model.weight("plain/w", 6, 4), model.weight("plain/b", 4)
    plain = tf.matmul(x, w) + b
    model.register("fully_connected", (w, b), x, plain)
    w, b = model.weight("left/w", 6, 4, use_resource=False), model.weight("left/b", 1, 4)
    left = b + tf.matmul(x, w)
    model.register("fully_connected", (w, b), x, left)
    w = model.weight("alone/w", 6, 3)
    alone = tf.matmul(tf.transpose(x), w, transpose_a=True)
    model.register("fully_connected", w, x, alone)
    w, b = model.weight("cast/w", 6, 3), model.weight("cast/b", 3)
    half = tf.cast(x, tf.bfloat16)
    cast = tf.nn.bias_add(tf.matmul(half, tf.cast(w, half.dtype)), tf.cast(b, half.dtype))
    model.register("fully_connected", (w, b), half, cast)
    w, b = model.weight("einsum/w", 6, 3), model.weight("einsum/b", 3)
    einsum = tf.einsum("ni, io -> no", x, tf.identity(w)) + b
    model.register("fully_connected", (w, b), x, einsum)
    w, b = model.weight("sum/w", 6, 4), model.weight("sum/b", 4)
    product = tf.matmul(x, w)
    summed = (product + alone[:, :1] * plain) + b
    model.register("fully_connected", (w, b), x, product)
    return plain, left, alone, tf.cast(cast, tf.float32), einsum, summed


def dense_layers_with_steps(model):
    """Products with [8, 5, 6] and [8, 5, 2, 3], in all forms."""
    x = model.data("x", 8, 5, 6)
    rows, outputs = tf.reshape(x, [-1, 6]), []

    def register(params, inputs, output):
        kwargs = {"num_uses": 5, "unordered": True}
        model.register("fully_connected_multi", params, inputs, output, **kwargs)
        outputs.append(output)

    w, b = model.weight("tensordot/w", 6, 3), model.weight("tensordot/b", 3)
    outputs.append(tf.tensordot(x, w, 1) + b)
    product = outputs[-1].op.inputs[0].op.inputs[0]
    model.register("fully_connected_multi", (w, b), rows, product, num_uses=5, unordered=True)
    w, b = model.weight("matmul/w", 6, 3), model.weight("matmul/b", 3)
    register((w, b), rows, tf.matmul(x, w) + b)
    w = model.weight("einsum/w", 6, 3)
    register(w, rows, tf.einsum("...i,io->...o", x, w))
    w, b = model.weight("heads/w", 6, 2, 3), model.weight("heads/b", 2, 3)
    heads = tf.matmul(x, tf.reshape(w, [6, 6]))
    model.register("fully_connected_multi", (w, b), rows, heads, num_uses=5, unordered=True)
    y = tf.reshape(heads, [8, 5, 2, 3]) + b
    outputs.append(y)
    w, b = model.weight("join/w", 2, 3, 4), model.weight("join/b", 4)
    register((w, b), tf.reshape(y, [-1, 6]), tf.einsum("bthd,hdo->bto", y, w) + b)
    return outputs


def weight(name):
    return v1.get_variable(name, [6, 6])


@pytest.mark.parametrize(
    ("product", "reason"),
    [
        (lambda x, w: tf.matmul(x, w, transpose_b=True), "is transposed in 'MatMul'"),
        (lambda x, w: tf.matmul(w, x, transpose_b=True), "is the left factor of 'MatMul'"),
        (lambda x, w: tf.matmul(x, tf.transpose(w)), "is transposed in 'MatMul'"),
        (lambda x, w: tf.einsum("ni,oi->no", x, w), "'ni,oi->no'; a dense layer is like"),
        (lambda x, w: tf.matmul(x, tf.reshape(w, [6, 6])), "has 2 axes and is reshaped"),
        (lambda x, w: tf.matmul(x[None], w[None]), "is more than one matrix"),
        (lambda x, w: x @ (tf.tanh(weight("v")) @ w), "with other parameters only"),
        (lambda x, w: x @ tf.einsum("ij,jk->ik", weight("v"), w), "with other parameters only"),
    ],
)
def test_products_that_are_no_dense_layer(scan, reason_of, product, reason):
    w = v1.get_variable("w", [6, 6] if "has 2" not in reason else [4, 9])
    collection = scan(product(tf.ones([6, 6]), w), batch_size=6)
    assert reason in reason_of(collection, "w")


def test_inputs_of_unknown_shape(scan, reason_of):
    x, w = v1.placeholder(tf.float32), v1.get_variable("w", [3, 2])
    table = v1.get_variable("table", [4, 2])
    for product in (tf.matmul(x, w), tf.einsum("ni,io->no", x, w)):
        assert "of unknown shape" in reason_of(scan(tf.reshape(product, [-1, 2])), "w")
    rows = tf.gather(table, v1.placeholder(tf.int32, None))
    assert "by ids of unknown shape" in reason_of(scan(tf.reshape(rows, [-1, 2])), "table")


def test_number_of_steps_that_is_not_static(scan, session):
    x = v1.placeholder(tf.float32, [None, None, 3])
    params = v1.get_variable("w", [3, 2]), v1.get_variable("b", [2])
    table = v1.get_variable("table", [5, 2])
    ids = tf.cast(tf.abs(x[:, :, 0]), tf.int32)
    steps = tf.tensordot(x, params[0], 1) + params[1] + tf.gather(table, ids)
    blocks = scan(steps).fisher_blocks
    uses = [blocks[params].replications(), blocks[table].replications()]
    session.run(v1.global_variables_initializer())
    assert session.run(uses, {x: [[[0.0] * 3] * 7] * 4}) == [7, 7]
    assert {block.settings[0] for block in blocks.values()} == {None}


def test_number_of_steps_and_of_examples_unknown(scan, reason_of):
    x, w = v1.placeholder(tf.float32, [None, None, 3]), v1.get_variable("w", [3, 2])
    outputs = tf.reduce_sum(tf.matmul(x, w)), tf.ones([4, 2])
    with pytest.raises(
        ValueError, match=r"w is to be registered as generic.*several unknown sizes"
    ):
        scan(*outputs)


def embeddings(model):
    """Tables that are looked up once, five times per example, and at two places."""
    once = tf.constant(np.arange(8) % 5)
    steps = tf.constant(np.arange(40).reshape(8, 5) % 7)
    outputs = []
    for name, use_resource in (("resource", True), ("reference", False)):
        table = model.weight(f"{name}/table", 5, 3, use_resource=use_resource)
        outputs.append(tf.nn.embedding_lookup(table, once))
        # What `embedding_lookup` returns is a copy of the rows.
        rows = outputs[-1].op.inputs[0]
        model.register("fully_connected", table, once, rows, dense_inputs=False)
    table = model.weight("gather/table", 5, 3)
    outputs.append(tf.gather(table, tf.cast(once, tf.int32)))
    model.register(
        "fully_connected", table, tf.cast(once, tf.int32), outputs[-1], dense_inputs=False
    )
    table = model.weight("steps/table", 7, 3)
    outputs.append(tf.gather(table, steps))
    model.register(
        "fully_connected_multi", table, tf.reshape(steps, [-1]), outputs[-1], 5,
        dense_inputs=False, unordered=True,
    )  # fmt: skip
    table = model.weight("shared/table", 5, 3)
    pair = [tf.gather(table, once), tf.gather(table, 4 - once)]
    model.register(
        "fully_connected_multi", table, [once, pair[1].op.inputs[1]], pair, dense_inputs=False
    )
    return [*outputs, pair[0] * pair[1]]


@pytest.mark.parametrize("build", [dense_layers, dense_layers_with_steps, embeddings])
def test_layers_are_those_registered_by_hand(assert_same_as_by_hand, build):
    assert_same_as_by_hand(build)


@pytest.mark.parametrize(
    ("look_up", "reason"),
    [
        (lambda t, ids: tf.gather(t, ids, axis=1), "is not looked up by row of a matrix"),
        (lambda t, ids: tf.gather(tf.reshape(t, [-1]), ids), "is not looked up by row"),
        (lambda t, ids: tf.gather(t, ids, batch_dims=1), "is not looked up by row"),
        (lambda t, ids: tf.gather(t, tf.unique(ids[0])[0]), "by ids that were reordered before"),
        (lambda t, ids: tf.gather_nd(t, ids[:, :1]), "ResourceGatherNd is no known layer"),
    ],
)
def test_lookups_that_are_no_embedding(scan, reason_of, look_up, reason):
    table = v1.get_variable("table", [4, 4])
    collection = scan(look_up(table, tf.constant([[0, 1, 2, 3]] * 4)))
    assert reason in reason_of(collection, "table")


@pytest.fixture
def used_product(graph):
    return tf.identity(tf.ones([8, 5, 4]), name="product")


@pytest.fixture
def bias(graph):
    return v1.get_variable("b", [4])


def find(used_product, bias, output, *others, **kwargs):
    tower = Tower([output, *others], [bias])
    return find_bias(tower, used_product, 4, **kwargs)


@pytest.mark.parametrize(
    "add",
    [
        lambda x, b: tf.reshape(x, [40, 4]) + b,
        lambda x, b: tf.nn.bias_add(tf.expand_dims(x, 0), b),
        lambda x, b: (x + tf.ones([8, 5, 4])) + b,
        lambda x, b: tf.reshape(x, [40, 2, 2]) + tf.reshape(b, [2, 2]),
    ],
)
def test_gradients_are_taken_before_other_terms_and_shapes(used_product, bias, add):
    found = find(used_product, bias, add(used_product, bias))
    assert found.bias is bias
    assert found.outputs is used_product


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
        lambda x, b: (tf.reshape(x, v1.placeholder(tf.int32, None)) + 1.0) + b,
        lambda x, b: tf.ones([8, 4, 4]) + tf.reshape(b, [4, 1]),
    ],
)
def test_what_is_no_bias(used_product, bias, add):
    assert find(used_product, bias, add(used_product, bias)) is None


def test_product_that_a_loss_takes(used_product, bias):
    assert find(used_product, bias, used_product + bias, used_product) is None
