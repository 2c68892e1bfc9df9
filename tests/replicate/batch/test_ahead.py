"""Datasets of batches that come with the next one."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.batch.ahead import batch_and_ahead, prefetch_to_towers

v1 = tf.compat.v1


def numbers(rows, size, drop_remainder=False):
    return tf.data.Dataset.range(rows).batch(size, drop_remainder)


def with_everything(rows):
    """Text, a sparse and a ragged tensor, in a dict and a tuple, beside labels."""

    def row(number):
        sparse = tf.SparseTensor([[number % 3]], [number], [3])
        features = {"text": tf.strings.as_string(number), "two": (number * 2, sparse)}
        return features, tf.RaggedTensor.from_row_lengths(tf.range(number), [number])

    return tf.data.Dataset.range(rows).map(row).batch(2)


def flat(nest):
    return [*tf.nest.flatten(nest, expand_composites=True)]


def drawn(dataset, taken=flat):
    """The part taken of each element of a new iterator."""
    iterator = v1.data.make_initializable_iterator(dataset)
    fetches = taken(iterator.get_next())
    found = []
    with v1.Session() as session:
        session.run(iterator.initializer)
        with contextlib.suppress(tf.errors.OutOfRangeError):
            while True:
                found.append(session.run(fetches))
    return found


def both(element):
    """The parts of the batch of a step and of the one after it, and whether that exists."""
    features, labels = element if isinstance(element, tuple) else (element, None)
    batch, ahead = batch_and_ahead(features, labels)
    parts = [part for part in flat([batch, ahead.batch]) if part is not None]
    return parts, ahead.exists


@pytest.mark.parametrize(
    "dataset",
    [
        lambda: numbers(7, 3).map(lambda x: {"a": x, "b": (x, x)}),
        lambda: with_everything(5),
        lambda: numbers(2, 3),
        lambda: numbers(0, 3),
    ],
)
def test_each_batch_comes_once_with_the_next_one(graph, dataset):
    expected = drawn(dataset())
    found = drawn(prefetch_to_towers(dataset()), both)
    assert len(found) == len(expected)
    assert [exists for _, exists in found] == [*[True] * len(expected[1:]), False][: len(found)]
    for position, (parts, _) in enumerate(found):
        wanted = [*expected[position], *(expected[position + 1 :] or expected[-1:])[0]]
        for got, right in zip(parts, wanted, strict=True):
            np.testing.assert_array_equal(got, right)


def test_other_datasets_are_unchanged(graph):
    batch, ahead = batch_and_ahead({"x": 1, "y": 2}, None)
    assert (batch.features, batch.labels, ahead) == ({"x": 1, "y": 2}, None, None)


def test_unsupported_batches_are_refused(graph):
    with pytest.raises(ValueError, match="whose batches have 3 parts"):
        prefetch_to_towers(numbers(6, 2).map(lambda x: (x, x, x)))
    with pytest.raises(TypeError, match=r"cannot send batches of Dataset.* ahead"):
        prefetch_to_towers(tf.data.Dataset.range(6).window(2))
