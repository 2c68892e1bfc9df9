"""Every dataset reads each image once, in shares, in an order that has a seed."""

import dataclasses

import numpy as np
import pytest

from examples.slim.datasets.dataset import Reading

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


@pytest.mark.parametrize("num_shards", [2, 6])
def test_processes_share_the_images_out(known, write, num_shards):
    dataset, _, _ = known
    shares = []
    for shard in range(num_shards):
        reading = Reading(training=False, num_shards=num_shards, shard_index=shard)
        shares += write.read(dataset, reading)[1]
    assert sorted(shares) == list(range(9))


def test_processes_train_on_shares_of_their_own(known, write):
    dataset, _, _ = known
    seen = []
    for shard in range(2):
        share = dataclasses.replace(TRAINING, num_shards=2, shard_index=shard)
        seen.append(set(write.read(dataset, share, 20)[1]))
    assert seen[0] | seen[1] == set(range(9))
    assert not seen[0] & seen[1]
