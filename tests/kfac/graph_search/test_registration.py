"""Registration of what was found: plans, records, and the texts of decisions."""

import pytest
import tensorflow as tf

import kfac
from kfac import fisher_blocks, graph_search
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.plans import CountedUses, Folded, PlannedTensors
from kfac.graph_search.records import (
    MatchRecord,
    RecordType,
    ensure_sequence,
    group,
    names_of,
    refs,
)
from kfac.graph_search.registration import plan_registration

v1 = tf.compat.v1
CONV = {"strides": (1, 1, 1, 1), "padding": "SAME"}


@pytest.fixture
def collection(graph):
    return kfac.LayerCollection()


def records(kind, params, *pairs, **data):
    """Matches as a program of its own would make them."""
    return {
        params: [
            MatchRecord(kind, params, {x, y}, {"inputs": x, "outputs": y, **data}, order)
            for order, (x, y) in enumerate(pairs)
        ]
    }


def dense(params, *rows, inputs=3):
    pairs = [(tf.ones([n, inputs]), tf.ones([n, 2])) for n in rows]
    return records(RecordType.fully_connected, params, *pairs)


def test_blocks_in_the_order_of_names(collection):
    b, a = v1.get_variable("b", [3, 2]), (v1.get_variable("a", [3, 2]), v1.get_variable("c", [2]))
    blocks = graph_search.register_records(collection, {**dense(b, 4), **dense(a, 4, 4)})
    assert list(blocks) == [a, b] == list(collection.fisher_blocks)
    assert isinstance(blocks[b], fisher_blocks.FullyConnectedKFACBasicFB)
    assert isinstance(blocks[a], fisher_blocks.FullyConnectedMultiIndepFB)
    assert blocks[a].replications() == 2


def test_reuse_adds_a_tower(collection):
    w = v1.get_variable("w", [3, 2])
    graph_search.register_records(collection, dense(w, 4))
    graph_search.register_records(collection, dense(w, 4), reuse=True)
    assert collection.fisher_blocks[w].num_registered_towers == 2


def test_steps_folded_into_the_examples(collection):
    w, kernel = v1.get_variable("w", [3, 2]), v1.get_variable("kernel", [3, 3, 1, 2])
    images = tf.ones([12, 5, 5, 1]), tf.ones([12, 5, 5, 2])
    geometry = {"strides": (1, 1, 1, 1), "padding": "SAME"}
    conv = records(RecordType.conv2d, kernel, images, **geometry)
    blocks = graph_search.register_records(collection, {**dense(w, 12), **conv}, batch_size=4)
    assert blocks[w].replications() == 3
    assert blocks[kernel].replications() == 3 * 25


def test_embeddings_get_a_diagonal_input_factor(collection):
    table, ids = v1.get_variable("table", [5, 2]), tf.zeros([4], tf.int32)
    once = records(RecordType.embedding, table, (ids, tf.ones([4, 2])))
    (block,) = graph_search.register_records(collection, once).values()
    assert block.settings[0].diagonal_input
    twice = kfac.LayerCollection()
    pairs = [(ids, tf.ones([4, 2]))] * 2
    graph_search.register_records(twice, records(RecordType.embedding, table, *pairs))
    assert twice.fisher_blocks[table].settings[1].diagonal_input


def test_mixed_kinds(collection):
    w = v1.get_variable("w", [3, 2])
    other = records(RecordType.embedding, w, (tf.zeros([4], tf.int32), tf.ones([4, 2])))
    mixed = {w: dense(w, 4)[w] + other[w]}
    with pytest.raises(ValueError, match=r"\(w\) .*mixed record types, namely dense.*, embedding"):
        graph_search.register_records(collection, mixed)
    assert not collection.fisher_blocks


@pytest.mark.parametrize(
    ("kind", "shape", "data", "message"),
    [
        (
            RecordType.scale_and_shift,
            [4, 2],
            [{}, {}],
            r"\(w\) automatically: it scales and shifts 2",
        ),
        (RecordType.batch_norm, [4, 2], [{}, {}], "and shifts 2 tensors"),
        (RecordType.depthwise_conv2d, [4, 5, 5, 2], [{}, {}], "depthwise convolution, 2 times"),
        (RecordType.convolution, [4, 5, 2], [{}, {}], "filter of 2 convolutions, which are not"),
        (
            RecordType.conv2d,
            [4, 5, 5, 2],
            [{"padding": "SAME"}, {"padding": "VALID"}],
            "filter of 2 convolutions, which are not two-dimensional with the same",
        ),
    ],
)
def test_layers_that_can_be_used_only_once(collection, kind, shape, data, message):
    w, x = v1.get_variable("w", [3, 3, 2, 2]), tf.ones(shape)
    matches = {w: [records(kind, w, (x, x), **entry)[w][0] for entry in data]}
    with pytest.raises(ValueError, match=message) as raised:
        graph_search.register_records(collection, matches)
    is_layer = kind is RecordType.scale_and_shift
    assert raised.type is (ValueError if is_layer else graph_search.records.NotRegistrableError)


def images(rows, size=5):
    return (v1.placeholder(tf.float32, [rows, size, size, 2]),) * 2


def test_several_uses_of_images_with_steps(collection):
    w = v1.get_variable("w", [3, 3, 2, 2])
    matches = records(RecordType.conv2d, w, images(8), images(4), **CONV)
    blocks = graph_search.register_records(collection, matches, batch_size=4)
    assert isinstance(blocks[w], fisher_blocks.ConvKFCBasicMultiIndepFB)
    assert blocks[w].replications() == 3 * 25


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(4, 5), (4, 6)], "filter of 2 convolutions of images of several sizes"),
        ([(8, 5), (None, 5)], "2 convolutions with 3 uses, some of them of an unknown number"),
    ],
)
def test_images_whose_uses_cannot_be_joined(collection, pairs, message):
    w = v1.get_variable("w", [3, 3, 2, 2])
    matches = records(RecordType.conv2d, w, *(images(*pair) for pair in pairs), **CONV)
    with pytest.raises(ValueError, match=message):
        graph_search.register_records(collection, matches, batch_size=4)


@pytest.mark.parametrize(("rows", "unordered"), [((32, 64), False), ((None, 64), True)])
def test_places_of_several_uses(collection, rows, unordered):
    w = v1.get_variable("w", [3, 2])
    pairs = [tuple(v1.placeholder(tf.float32, [n, size]) for size in (3, 2)) for n in rows]
    dense_records = records(RecordType.fully_connected, w, *pairs)
    plan = plan_registration(w, dense_records[w], Batch(32, True))
    assert (plan.num_uses, plan.settings["unordered"]) == (3, unordered)
    (block,) = graph_search.register_records(collection, dense_records, batch_size=32).values()
    assert block.replications() == 3


def test_equal_tensors_are_made_once(graph, session):
    tensors, x = PlannedTensors(), v1.placeholder_with_default(tf.ones([4, 6, 3]), [None, None, 3])
    folded = tensors.fold(Folded(x, 3))
    assert folded.shape.as_list() == [None, 3]
    assert tensors.fold(Folded(x, 3)) is folded
    assert tensors.count(2) == 2
    assert session.run(tensors.count(CountedUses((Folded(x, 3), Folded(x, 3)), 4))) == 12


def test_ensure_sequence():
    assert [ensure_sequence(value) for value in (1, (1, 2), [1, 2], "ab")] == [
        (1,),
        (1, 2),
        [1, 2],
        ("ab",),
    ]


def test_groups_are_in_the_order_of_names_and_places(graph):
    b, a = v1.get_variable("b", [1]), v1.get_variable("a", [1])
    records = [
        MatchRecord(RecordType.fully_connected, params, set(), order=order)
        for params, order in ((b, 2), ((a, b), 3), (b, 1))
    ]
    grouped = group(records)
    assert list(grouped) == [(a, b), b]
    assert [record.order for record in grouped[b]] == [1, 2]
    assert names_of((a, b)) == ("a", "b")
    assert refs((a, b)) == {a.ref(), b.ref()}
