"""Layers that are registered along positions, because they are to have expand or reduce."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import (
    ConvReduceFB,
    FullyConnectedKFACBasicFB,
    FullyConnectedMultiIndepFB,
    WeightSharingFB,
)

v1 = tf.compat.v1

N, R = 4, 3


def collection_of(approx):
    collection = kfac.LayerCollection()
    collection.set_default_fully_connected_multi_approximation(approx)
    collection.set_default_conv2d_approximation(approx)
    return collection


def kinds(collection):
    return {block.name: type(block) for block in collection.get_blocks()}


def sequence_model(rows=N):
    """Logits [rows, R, 6] of an embedding, heads without and with a bias, and a dense layer."""
    make = v1.get_variable
    ids = v1.placeholder(tf.int32, [rows, R])
    x = tf.nn.embedding_lookup(make("embedding", [6, 4]), ids)
    heads = tf.einsum("nri,ihd->nrhd", x, make("query", [4, 2, 3]))
    folded = tf.matmul(tf.reshape(x, [-1, 4]), tf.reshape(make("key", [4, 2, 3]), [4, 6]))
    heads += tf.reshape(folded, tf.shape(heads))
    y = tf.einsum("nrhd,hdo->nro", heads, make("out", [2, 3, 5])) + make("out_bias", [5])
    return tf.matmul(tf.reshape(y, [-1, 5]), make("logits", [5, 6]))


@pytest.mark.parametrize("rows", [N, None])
@pytest.mark.parametrize("approx", ["kron_expand", "kron_reduce"])
def test_sequences_with_a_mask(graph, approx, rows):
    logits = tf.reshape(sequence_model(rows), [-1, R, 6])
    logits.set_shape([rows, R, 6])
    collection = collection_of(approx)
    weights = v1.placeholder(tf.float32, [rows, R])
    collection.register_softmax_cross_entropy_loss(logits, weights=weights)
    collection.auto_register_layers()
    assert set(kinds(collection).values()) == {WeightSharingFB}
    by_name = {block.name: block for block in collection.get_blocks()}
    axes = {"embedding": 1, "query": 2, "key": 2, "out": 1, "logits": 1}
    for name, block in by_name.items():
        ((places, (mask,)),) = block.inputs
        features = [] if name == "embedding" else [block.matrix_shape[0] - block.has_bias]
        assert places[0].shape.as_list() == [rows, R, *features]
        assert mask.op.type == "NotEqual"
        assert block.settings[0][:2] == (approx == "kron_reduce", axes[name])
        block.instantiate_factors([[t + 0 for t in block.tensors_to_compute_grads()]], 0.1)
        block.check_shapes()
    assert by_name["query"].input_factor is by_name["key"].input_factor  # The same inputs.


def test_what_needs_no_positions(graph):
    """One position is "kron", expand without a mask is "kron_indep"."""
    collection = collection_of("kron_expand")
    x, w, v = tf.ones([N, R, 2]), v1.get_variable("w", [2, 3]), v1.get_variable("v", [3, 2])
    collection.register_squared_error_loss(tf.reduce_mean(tf.tensordot(x, w, 1), axis=1) @ v)
    collection.auto_register_layers()
    assert kinds(collection) == {"v": FullyConnectedKFACBasicFB, "w": FullyConnectedMultiIndepFB}


def test_a_mask_that_is_given_and_patches(graph):
    collection = collection_of("kron_reduce")
    kernel, w = v1.get_variable("kernel", [2, 2, 1, 2]), v1.get_variable("w", [2, 3])
    patches = tf.reshape(tf.nn.conv2d(tf.ones([N, 4, 4, 1]), kernel, 2, "VALID"), [N, 4, 2])
    mask = tf.constant(np.eye(N))
    y = tf.tensordot(patches, w, 1)
    collection.register_squared_error_loss(tf.reduce_mean(y, axis=1), name="loss")
    collection.auto_register_layers(mask=mask)
    assert kinds(collection) == {"kernel": ConvReduceFB, "w": WeightSharingFB}
    ((_, (found,)),) = collection.fisher_blocks[w].inputs
    assert found.op.inputs[0] is mask


@pytest.mark.parametrize(
    ("leading", "message"),
    [([R, N], r"axes \[3, 4\] before the features, and there are 4"), ([N * R], "is applied in")],
)
def test_reduce_needs_examples_first(graph, leading, message):
    collection = collection_of("kron_reduce")
    y = tf.tensordot(tf.ones([*leading, 2]), v1.get_variable("w", [2, 3]), 1)
    collection.register_squared_error_loss(tf.reduce_mean(tf.reshape(y, [N, R, 3]), axis=1))
    with pytest.raises(ValueError, match=message):
        collection.auto_register_layers()


def test_loops_are_refused_by_name(behavior, graph):
    params = v1.get_variable("w", [2, 2]), v1.get_variable("b", [2])
    collection = kfac.LayerCollection()
    collection.define_linked_parameters(params, "kron_expand")
    _, y = tf.while_loop(
        lambda i, _: i < 3, lambda i, s: (i + 1, s @ params[0] + params[1]), [0, tf.ones([2, 2])]
    )
    collection.register_squared_error_loss(y)
    with pytest.raises(ValueError, match=r"not matched as one layer: b goes into the loop '.*"):
        collection.auto_register_layers()


def test_masks_are_those_of_one_tower(graph):
    collection = collection_of("kron_expand")
    w = v1.get_variable("w", [2, 3])
    for tower in range(2):
        y = tf.tensordot(tf.ones([N, R, 2]), w, 1)
        collection.register_squared_error_loss(y, name="loss", reuse=tower > 0)
    with pytest.raises(ValueError, match="mask is that of one tower, and 2 are"):
        collection.auto_register_layers(mask=tf.ones([N, R]))
