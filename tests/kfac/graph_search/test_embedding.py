import numpy as np
import pytest
import tensorflow as tf

v1 = tf.compat.v1


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


def test_embeddings(assert_same_as_by_hand):
    assert_same_as_by_hand(embeddings)


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


def test_ids_of_unknown_shape(scan, reason_of):
    table, ids = v1.get_variable("table", [4, 4]), v1.placeholder(tf.int32, None)
    collection = scan(tf.reshape(tf.gather(table, ids), [-1, 4]))
    assert "by ids of unknown shape" in reason_of(collection, "table")
