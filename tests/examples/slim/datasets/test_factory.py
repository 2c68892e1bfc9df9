"""Datasets by name."""

import pytest

from examples.slim.datasets import factory


def test_unknown_name_lists_the_known_ones():
    with pytest.raises(ValueError, match="'flowers'; known are cifar10, digits, imagenet, mnist, "):
        factory.get_dataset("flowers", "train", None)


@pytest.mark.parametrize("name", sorted(set(factory.DATASETS) - {"digits"}))
def test_files_are_needed(name):
    with pytest.raises(ValueError, match=f"{name} needs the folder of its files"):
        factory.get_dataset(name, "train", None)


def test_pattern_is_handed_on(tmp_path, rows, write):
    write.write_tfrecords(tmp_path, *rows, split="mine")
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path), "mine-*")
    assert dataset.num_samples == 9
