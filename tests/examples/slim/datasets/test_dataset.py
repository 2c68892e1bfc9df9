"""Datasets: by name, in splits, each image once, small arrays in the graph."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets import arrays, factory, splits
from examples.slim.datasets.dataset import Reading

v1 = tf.compat.v1
TRAINING = Reading(training=True, seed=3, num_readers=2, shuffle_buffer=4)


def by_label(images, labels):
    return dict(zip(labels, images, strict=True))


def test_reads_every_image_once_with_its_label(known, write):
    dataset, images, labels = known
    found, found_labels = write.read(dataset, Reading(training=False))
    assert sorted(found_labels) == sorted(labels.tolist())
    assert (dataset.num_samples, dataset.num_classes) == (9, 10)
    wanted, got = by_label(images, labels), by_label(found, found_labels)
    for label, image in got.items():
        np.testing.assert_array_equal(image, wanted[label])
        assert image.dtype == np.uint8
    assert set(dataset.items_to_descriptions) == {"image", "label"}


def test_training_is_endless_shuffled_and_follows_from_the_seed(known, write):
    dataset, _, _ = known
    _, first = write.read(dataset, TRAINING, 18)
    assert sorted(first[:9]) == sorted(first[9:]) == list(range(9))
    assert first[:9] != first[9:]
    assert write.read(dataset, TRAINING, 18)[1] == first
    assert write.read(dataset, dataclasses.replace(TRAINING, seed=4), 18)[1] != first


def test_processes_have_shares_of_their_own(known, write):
    dataset, _, _ = known
    readings = [Reading(training=False, num_shards=3, shard_index=shard) for shard in range(3)]
    shares = [write.read(dataset, reading)[1] for reading in readings]
    assert sorted(np.concatenate(shares)) == list(range(9))
    seen = []
    for shard in range(2):
        share = dataclasses.replace(TRAINING, num_shards=2, shard_index=shard)
        seen.append(set(write.read(dataset, share, 20)[1]))
    assert seen[0] | seen[1] == set(range(9))
    assert not seen[0] & seen[1]


def dataset(images, labels):
    return arrays.array_dataset("mine", "train", images, labels, 5, {"image": "", "label": ""})


@pytest.mark.parametrize("is_large", [False, True])
def test_small_arrays_are_in_the_graph_and_large_ones_are_not(write, monkeypatch, is_large):
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8, 1)
    monkeypatch.setattr(arrays, "IN_GRAPH_BYTES", 127 if is_large else 128)
    made = dataset(images, np.array([4, 2]))
    assert made.runs_python == is_large
    found, labels = write.read(made, Reading(training=False))
    np.testing.assert_array_equal(found, images)
    assert labels == [4, 2]
    with tf.Graph().as_default():
        image, label = made.decode(tf.constant(1, tf.int64))
        assert (image.shape, image.dtype, label.dtype) == ((8, 8, 1), tf.uint8, tf.int64)


def test_a_folder_must_be_given_and_exist(tmp_path):
    for nothing in (None, ""):
        with pytest.raises(ValueError, match="mine needs the folder of its files: set --dataset_d"):
            splits.required_folder("mine", nothing)
    with pytest.raises(ValueError, match=r"there is no folder '.*none'"):
        splits.required_folder("mine", str(tmp_path / "none"))
    for name in set(factory.DATASETS) - {"digits"}:
        with pytest.raises(ValueError, match=f"{name} needs the folder of its files"):
            factory.get_dataset(name, "train", None)
    with pytest.raises(ValueError, match="'flowers'; known are cifar10, digits, imagenet, mnist, "):
        factory.get_dataset("flowers", "train", None)


def test_pattern_is_handed_on(tmp_path, rows, write):
    write.write_tfrecords(tmp_path, *rows, split="mine")
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path), "mine-*")
    assert dataset.num_samples == 9
