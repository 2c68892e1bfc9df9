"""Registration of what was found: plans, records, and the texts of decisions."""

import pytest
import tensorflow as tf

import kfac
from kfac import fisher_blocks, graph_search
from kfac.graph_search.layer_uses import Batch
from kfac.graph_search.plans import CountedUses, Folded, PlannedTensors
from kfac.graph_search.records import MatchRecord, RecordType
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


def images(rows, size=5):
    return (v1.placeholder(tf.float32, [rows, size, size, 2]),) * 2


def test_matches_that_are_no_layer(collection):
    w, x, volume = v1.get_variable("w", [3, 3, 2, 2]), tf.ones([4, 2]), tf.ones([4, 5, 5, 2])
    ids, other = (tf.zeros([4], tf.int32), x), v1.get_variable("other", [3, 2])
    unequal = [records(RecordType.conv2d, w, (volume, volume), padding=p)[w][0] for p in "SV"]
    mixed = {other: dense(other, 4)[other] + records(RecordType.embedding, other, ids)[other]}
    no_layer = graph_search.records.NotRegistrableError
    for matches, error, message in (
        (mixed, ValueError, r"\(other\) .*mixed record types, namely dense.*, embedding"),
        (
            records(RecordType.scale_and_shift, w, (x, x), (x, x)),
            ValueError,
            r"\(w\) automatically: it scales and shifts 2",
        ),
        (records(RecordType.batch_norm, w, (x, x), (x, x)), no_layer, "and shifts 2 tensors"),
        (
            records(RecordType.depthwise_conv2d, w, (volume, volume), (volume, volume)),
            no_layer,
            "depthwise convolution, 2 times",
        ),
        (
            records(RecordType.convolution, w, (volume, volume), (volume, volume)),
            no_layer,
            "filter of 2 convolutions, which are not",
        ),
        ({w: unequal}, no_layer, "which are not two-dimensional with the same"),
        (
            records(RecordType.conv2d, w, images(4, 5), images(4, 6), **CONV),
            no_layer,
            "filter of 2 convolutions of images of several sizes",
        ),
        (
            records(RecordType.conv2d, w, images(8), images(None), **CONV),
            no_layer,
            "2 convolutions with 3 uses, some of them of an unknown number",
        ),
    ):
        with pytest.raises(error, match=message):
            graph_search.register_records(collection, matches, batch_size=4)
    assert not collection.fisher_blocks


def test_blocks_in_the_order_of_names(collection):
    b = v1.get_variable("w_10", [3, 2])  # Numbers go by their size.
    a = (v1.get_variable("w_9", [3, 2]), v1.get_variable("c", [2]))
    blocks = graph_search.register_records(collection, {**dense(b, 4), **dense(a, 4, 4)})
    assert list(blocks) == [a, b] == list(collection.fisher_blocks)
    assert isinstance(blocks[b], fisher_blocks.FullyConnectedKFACBasicFB)
    assert isinstance(blocks[a], fisher_blocks.FullyConnectedMultiIndepFB)
    assert blocks[a].replications() == 2
    graph_search.register_records(collection, dense(b, 4), reuse=True)
    assert blocks[b].num_registered_towers == 2


def test_steps_folded_into_the_examples(collection):
    w, kernel = v1.get_variable("w", [3, 2]), v1.get_variable("kernel", [3, 3, 1, 2])
    images = tf.ones([12, 5, 5, 1]), tf.ones([12, 5, 5, 2])
    geometry = {"strides": (1, 1, 1, 1), "padding": "SAME"}
    conv = records(RecordType.conv2d, kernel, images, **geometry)
    blocks = graph_search.register_records(collection, {**dense(w, 12), **conv}, batch_size=4)
    assert blocks[w].replications() == 3
    assert blocks[kernel].replications() == 3 * 25


def test_several_uses_of_images_with_steps(collection):
    w = v1.get_variable("w", [3, 3, 2, 2])
    matches = records(RecordType.conv2d, w, images(8), images(4), **CONV)
    blocks = graph_search.register_records(collection, matches, batch_size=4)
    assert isinstance(blocks[w], fisher_blocks.ConvKFCBasicMultiIndepFB)
    assert blocks[w].replications() == 3 * 25


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
