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


def test_operations_are_named_split_inputs_and_labels_may_be_absent(graph):
    features = tf.ones([4, 1])
    shards = split.split_batch(features, None, Splitting(2))
    assert shards[0].features.op.type == "Split"
    assert [(shard.features.name, shard.labels) for shard in shards] == [
        ("split_inputs/split:0", None),
        ("split_inputs/split:1", None),
    ]
    assert split.split_batch(features, None, Splitting(1)) == [split.Shard(features, None, 1.0)]


def test_lists_of_numbers_are_data_and_labels_may_differ_in_rows(graph):
    features = [[1, 2], [3, 4], [5, 6], [7, 8]]
    _, second = split.split_batch(features, {"y": [0.5, 0.25]}, Splitting(2))
    found, labels = evaluate([second.features, second.labels["y"]])
    np.testing.assert_array_equal(found, features[2:])
    np.testing.assert_array_equal(labels, [0.25])


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


def test_ragged_tensors_are_split_between_rows(graph):
    ragged = tf.ragged.constant([[1], [], [2, 3], [4]])
    shards = split.split_batch({"r": ragged}, None, WEIGHTED)
    parts = evaluate([shard.features["r"] for shard in shards])
    assert [part.to_list() for part in parts] == [[[1], []], [[2, 3]], [[4]]]


def test_sparse_tensor_of_fewer_rows_than_shards(graph):
    sparse = tf.SparseTensor([[0, 1]], [5.0], [1, 4])
    got = evaluate([shard.features for shard in split.split_batch(sparse, None, WEIGHTED)])
    assert [list(part.dense_shape) for part in got] == [[1, 4], [0, 4], [0, 4]]
    assert [list(part.values) for part in got] == [[5.0], [], []]


@dataclasses.dataclass
class Example:
    image: object
    step: object = None


def test_dataclasses_are_split_by_field_and_unsplit_values_reach_every_tower_whole(graph):
    step = tf.constant(7)
    features = {"a_step": step, "x": Example(tf.range(4), step=step), "y": Example(tf.range(4))}
    splitting = Splitting(2, unsplit=frozenset({"a_step", "step"}))
    shards = split.split_batch(features, {"a_step": step, "y": tf.range(4)}, splitting)
    for shard in shards:
        assert shard.features["a_step"] is step
        assert shard.features["x"].step is step
        assert shard.features["y"].step is None
        assert shard.labels["a_step"] is step
    np.testing.assert_array_equal(evaluate(shards[1].features["x"].image), [2, 3])


INDIVISIBLE = (
    r"Cannot split the batch for 2 towers: features\['x'\] has 3 rows, which 2 does not divide; "
    r"the batch size must be divisible by the number of towers\. Use batches of a multiple of 2"
)


EMPTY = r"features\['x'\] has 0 rows"


@pytest.mark.parametrize(
    ("shape", "uneven", "values", "text"),
    [
        ([3], "error", [1, 2, 3], INDIVISIBLE),
        ([None], "error", [1, 2, 3], INDIVISIBLE),
        (None, "error", [1, 2, 3], INDIVISIBLE),
        ([0], "error", [], EMPTY),
        ([None], "pad", [], EMPTY),
        ([None], "weighted", [], EMPTY),
    ],
)
def test_batch_is_refused_with_one_text_while_building_or_running(
    graph, shape, uneven, values, text
):
    batch, splitting = v1.placeholder(tf.float32, shape), Splitting(2, uneven)
    with pytest.raises(ValueError, match=text):
        evaluate(
            [shard.features for shard in split.split_batch({"x": batch}, None, splitting)],
            {batch: values},
        )


def test_values_without_a_batch_and_unknown_choices_are_refused(graph):
    with pytest.raises(ValueError, match=r"features\[0\] has 3 rows, which 2 does not"):
        split.split_batch({0: tf.zeros([3]), "a": tf.zeros([4])}, None, Splitting(2))
    with pytest.raises(ValueError, match=r"labels\['step'\] is a scalar.*unsplit=\[…\]"):
        split.split_batch(tf.ones([4]), {"step": tf.constant(1)}, Splitting(2))
    splitting = Splitting(2, unsplit=frozenset({"x"}))
    with pytest.raises(ValueError, match=r"nothing that has a batch axis besides unsplit=\['x'\]"):
        split.split_batch({"x": tf.constant(1)}, None, splitting)
    with pytest.raises(ValueError, match=r"uneven must be one of .*got 'drop'"):
        Splitting(2, "drop")
