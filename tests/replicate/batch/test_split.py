"""Batches split into shards."""

import collections
import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch import split
from replicate.batch.split import Splitting
from replicate.graph_ops import checks as step_checks

v1 = tf.compat.v1

Pair = collections.namedtuple("Pair", "left right")


def evaluate(nest, feed=None):
    with v1.Session() as session, step_checks.user_errors():
        return session.run(nest, feed)


def test_rows_keep_their_order_in_every_part_of_a_nest(graph):
    features = {
        "image": tf.range(6),
        "more": Pair(np.arange(12).reshape(6, 2), (tf.range(6) * 10,)),
    }
    shards = split.split_batch(features, tf.range(6) + 100, Splitting(3))
    assert [shard.weight for shard in shards] == [1 / 3] * 3
    second = evaluate([shards[1].features, shards[1].labels])
    np.testing.assert_array_equal(second[0]["image"], [2, 3])
    np.testing.assert_array_equal(second[0]["more"].left, [[4, 5], [6, 7]])
    np.testing.assert_array_equal(second[0]["more"].right[0], [20, 30])
    np.testing.assert_array_equal(second[1], [102, 103])


def test_keys_may_be_numbers_and_strings_at_once(graph):
    features = {"a": tf.range(4), 0: tf.range(4) * 10}
    shards = split.split_batch(features, {1: tf.range(4), "b": [7, 8, 9, 6]}, Splitting(2))
    last, labels = evaluate([shards[1].features, shards[1].labels])
    np.testing.assert_array_equal([last["a"], last[0]], [[2, 3], [20, 30]])
    np.testing.assert_array_equal([labels[1], labels["b"]], [[2, 3], [9, 6]])
    with pytest.raises(ValueError, match=r"features\[0\] has 3 rows, which 2 does not"):
        split.split_batch({0: tf.zeros([3]), "a": tf.zeros([4])}, None, Splitting(2))


def test_operations_are_named_split_inputs(graph):
    shards = split.split_batch(tf.ones([4, 1]), None, Splitting(2))
    assert [shard.features.name for shard in shards] == [
        "split_inputs/split:0",
        "split_inputs/split:1",
    ]


def test_labels_may_be_absent(graph):
    assert [shard.labels for shard in split.split_batch(tf.ones([4]), None, Splitting(2))] == [
        None
    ] * 2


def test_one_shard_is_the_batch_itself(graph):
    features = tf.ones([3])
    assert split.split_batch(features, None, Splitting(1)) == [split.Shard(features, None, 1.0)]


def test_lists_of_numbers_are_data(graph):
    shards = split.split_batch([[1, 2], [3, 4]], {"y": [0.5, 0.25]}, Splitting(2))
    np.testing.assert_array_equal(evaluate(shards[1].features), [[3, 4]])
    np.testing.assert_array_equal(evaluate(shards[1].labels["y"]), [0.25])


def test_features_and_labels_may_differ_in_rows(graph):
    shards = split.split_batch({"x": tf.range(4)}, {"y": tf.range(2)}, Splitting(2))
    np.testing.assert_array_equal(evaluate(shards[1].features["x"]), [2, 3])
    np.testing.assert_array_equal(evaluate(shards[1].labels["y"]), [1])


def test_sparse_tensor_gives_larger_shards_first(graph):
    sparse = tf.SparseTensor([[0, 1], [2, 0]], [1.0, 2.0], [3, 4])
    shards = split.split_batch({"s": sparse}, None, Splitting(2))
    first, second = evaluate([shard.features["s"] for shard in shards])
    np.testing.assert_array_equal(first.dense_shape, [2, 4])
    np.testing.assert_array_equal(second.indices, [[0, 0]])
    np.testing.assert_array_equal(second.values, [2.0])


WEIGHTED = Splitting(3, "weighted")


@pytest.mark.parametrize(
    ("rows", "sizes"), [(7, [3, 2, 2]), (8, [3, 3, 2]), (9, [3, 3, 3]), (1, [1, 0, 0])]
)
@pytest.mark.parametrize("known", [True, False])
def test_weighted_shards_share_out_the_remainder(graph, rows, sizes, known):
    batch = v1.placeholder(tf.float32, [rows if known else None, 2])
    values = np.arange(2 * rows).reshape(rows, 2)
    shards = split.split_batch(batch, None, WEIGHTED)
    parts, weights = evaluate(
        [[shard.features for shard in shards], [tf.identity(shard.weight) for shard in shards]],
        {batch: values},
    )
    assert [len(part) for part in parts] == sizes
    np.testing.assert_array_equal(np.concatenate(parts), values)
    np.testing.assert_allclose(weights, np.array(sizes) / rows, rtol=1e-6)


@pytest.mark.parametrize("known", [True, False])
def test_padding_repeats_the_last_row(graph, known):
    batch = v1.placeholder(tf.int32, [4 if known else None])
    splitting = Splitting(3, "pad")
    shards = split.split_batch({"x": batch}, None, splitting)
    assert [shard.weight for shard in shards] == [1 / 3] * 3
    parts, rows = evaluate(
        [
            [shard.features["x"] for shard in shards],
            tf.identity(split.batch_rows({"x": batch}, splitting)),
        ],
        {batch: [5, 6, 7, 8]},
    )
    np.testing.assert_array_equal(parts, [[5, 6], [7, 8], [8, 8]])
    assert rows == 4


@pytest.mark.parametrize(
    ("uneven", "expected"),
    [
        ("weighted", [[[1], []], [[2, 3]], [[4]]]),
        ("pad", [[[1], []], [[2, 3], [4]], [[4], [4]]]),
    ],
)
def test_ragged_tensors_are_split_between_rows(graph, uneven, expected):
    ragged = tf.ragged.constant([[1], [], [2, 3], [4]])
    shards = split.split_batch({"r": ragged}, None, Splitting(3, uneven))
    parts = evaluate([shard.features["r"] for shard in shards])
    assert [part.to_list() for part in parts] == expected


@pytest.mark.parametrize("rows", [1, 2])
def test_sparse_tensor_of_fewer_rows_than_shards(graph, rows):
    sparse = tf.SparseTensor([[row, 1] for row in range(rows)], [5.0, 6.0][:rows], [rows, 4])
    shards = split.split_batch(sparse, None, Splitting(3, "weighted"))
    got = evaluate([shard.features for shard in shards])
    assert [list(part.dense_shape) for part in got] == [[row < rows, 4] for row in range(3)]
    assert [list(part.values) for part in got] == [[5.0], [6.0][: rows - 1], []]


@pytest.mark.parametrize("bare", [True, False])
def test_padding_repeats_the_last_row_of_sparse_and_ragged_tensors(graph, bare):
    """Three towers, of which the last gets nothing but copies."""
    sparse = tf.SparseTensor([[0, 1], [3, 0], [3, 3]], [1.0, 2.0, 3.0], [4, 4])
    ragged = tf.ragged.constant([[[1]], [], [[2], [3, 4]], [[5], []]], ragged_rank=2)
    features = [sparse, ragged] if bare else [{"f": sparse}, {"f": ragged}]
    parts = []
    for batch in features:
        for shard in split.split_batch(batch, None, Splitting(3, "pad")):
            parts.append(shard.features if bare else shard.features["f"])
    parts[:3] = [tf.sparse.to_dense(part) for part in parts[:3]]
    got = evaluate(parts)
    last = [2, 0, 0, 3]
    np.testing.assert_array_equal(got[:3], [[[0, 1, 0, 0], [0] * 4], [[0] * 4, last], [last] * 2])
    assert [part.to_list() for part in got[3:]] == [
        [[[1]], []],
        [[[2], [3, 4]], [[5], []]],
        [[[5], []], [[5], []]],
    ]


@dataclasses.dataclass
class Example:
    image: object
    step: object = None


def test_dataclasses_are_split_by_field(graph):
    shards = split.split_batch({"a": Example(tf.range(4))}, None, Splitting(2))
    second = shards[1].features["a"]
    assert isinstance(second, Example)
    assert second.step is None
    np.testing.assert_array_equal(evaluate(second.image), [2, 3])


def test_unsplit_values_reach_every_tower_whole(graph):
    step = tf.constant(7)
    features = {"a_step": step, "x": Example(tf.range(4), step=step)}
    splitting = Splitting(2, unsplit=frozenset({"a_step", "step"}))
    for shard in split.split_batch(features, {"a_step": step, "y": tf.range(4)}, splitting):
        assert shard.features["a_step"] is step
        assert shard.features["x"].step is step
        assert shard.labels["a_step"] is step
        assert shard.labels["y"].shape == [2]


UNEVEN = (
    r"Cannot split the batch for 2 towers: features\['x'\] has 3 rows, which 2 does not divide; "
    r"the batch size must be divisible by the number of towers\. Use batches of a multiple of 2"
)


@pytest.mark.parametrize("shape", [[3], [None], None])
def test_uneven_batch_is_refused_with_one_text_while_building_or_running(graph, shape):
    batch = v1.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match=UNEVEN):
        evaluate(
            [shard.features for shard in split.split_batch({"x": batch}, None, Splitting(2))],
            {batch: [1, 2, 3]},
        )


@pytest.mark.parametrize("uneven", ["error", "pad", "weighted"])
@pytest.mark.parametrize("shape", [[0], [None]])
def test_empty_batch_is_refused(graph, shape, uneven):
    batch = v1.placeholder(tf.float32, shape)
    with pytest.raises(ValueError, match="features has 0 rows"):
        evaluate(
            [shard.features for shard in split.split_batch(batch, None, Splitting(2, uneven))],
            {batch: []},
        )


def test_scalar_is_refused_by_name(graph):
    with pytest.raises(ValueError, match=r"labels\['step'\] is a scalar.*unsplit=\[…\]"):
        split.split_batch(tf.ones([4]), {"step": tf.constant(1)}, Splitting(2))


def test_features_without_a_batch_are_refused(graph):
    splitting = Splitting(2, unsplit=frozenset({"x"}))
    with pytest.raises(ValueError, match=r"nothing that has a batch axis besides unsplit=\['x'\]"):
        split.split_batch({"x": tf.constant(1)}, None, splitting)


def test_unknown_choice_is_refused():
    with pytest.raises(ValueError, match=r"uneven must be one of .*got 'drop'"):
        Splitting(2, "drop")
