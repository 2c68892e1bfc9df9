"""An embedding whose table gives the logits, too, against its partial traces in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.fisher_blocks import TiedEmbeddingFB

v1 = tf.compat.v1

V, D, N, R = 4, 3, 5, 2


def test_partial_traces(laboratory):
    random = np.random.RandomState(0)
    ids, g = random.randint(0, V, [N, R]), random.randn(N, R, D)
    h, delta = random.randn(N * R, D), random.randn(N * R, V)
    lab = laboratory()
    table = lab.variable("table", [V, D])
    gradients = []
    for tower, part in enumerate([slice(2), slice(2, N)]):
        rows = slice(part.start and 2 * part.start, part.stop * R)
        inputs = [tf.constant(ids[part]), tf.constant(h[rows])]
        outputs = [tf.constant(g[part]), tf.constant(delta[rows])]
        lab.collection.register_tied_embedding(table, inputs, outputs, reuse=tower > 0)
        gradients += [g[part], delta[rows]]
    block = lab.instantiate([gradients])
    v, d = np.concatenate([np.eye(V)[ids.ravel()], delta]), np.concatenate([g.reshape(-1, D), h])
    a = np.diag(((d**2).sum(axis=1)[:, np.newaxis] * v**2).sum(axis=0)) / N
    b = np.einsum("r,ri,rj->ij", (v**2).sum(axis=1), d, d) / N
    assert np.trace(a) == pytest.approx(np.trace(b))
    lab.check_kronecker(block, a, b, 1 / np.trace(a))
    lab.session.run(v1.global_variables_initializer())
    assert lab.session.run(block.identity_eigenvalue()) == pytest.approx((1 + 0.3**0.5) ** 2)


def test_errors(graph):
    table, ids, x = v1.get_variable("table", [V, D]), tf.zeros([N, R], tf.int32), tf.ones([N, R, D])
    collection = kfac.LayerCollection()
    with pytest.raises(ValueError, match=r"'table' as a tied embedding: .*\[4, 3\]"):
        collection.register_tied_embedding(table, [ids, x], [x, x])


@pytest.mark.parametrize("transposes", [False, True])
def test_scanner(graph, transposes):
    table, ids = v1.get_variable("table", [V, D]), v1.placeholder(tf.int32, [None, R])
    h = tf.tanh(tf.gather(table, ids))
    flat = tf.reshape(h, [-1, D])
    logits = flat @ tf.transpose(table) if transposes else tf.matmul(flat, table, transpose_b=True)
    logits = tf.reshape(logits, [-1, R, V])
    collection = kfac.LayerCollection()
    collection.define_linked_parameters(table, "kron_expand")
    collection.register_softmax_cross_entropy_loss(logits)
    collection.auto_register_layers()
    (block,) = collection.get_blocks()
    assert isinstance(block, TiedEmbeddingFB)
    assert block.inputs[0][0] is ids
