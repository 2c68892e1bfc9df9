"""Folders of TFRecord files: which are read, in which order, what is counted and refused."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.datasets import factory, tfrecords
from examples.slim.datasets.dataset import Reading


def test_finds_the_files_of_a_split_by_a_word_in_their_names(rows, write, tmp_path):
    write.write_tfrecords(tmp_path, *rows, split="flowers_train")
    write.write_tfrecords(tmp_path, rows[0][:2], rows[1][:2], split="flowers_training")
    write.write_tfrecords(tmp_path, rows[0][:4], rows[1][:4], split="flowers_test", shards=1)
    (tmp_path / "train.txt").write_text("notes")
    assert tfrecords.tfrecords("train", str(tmp_path)).num_samples == 9
    assert tfrecords.tfrecords("test", str(tmp_path)).num_samples == 4


def test_imagenet_has_a_background_and_a_known_size(rows, write, tmp_path):
    write.write_tfrecords(tmp_path, rows[0], rows[1] + 1, split="validation", shards=2)
    dataset = tfrecords.imagenet("validation", str(tmp_path))
    assert (dataset.num_samples, dataset.num_classes) == (50_000, 1001)
    assert sorted(write.read(dataset, Reading(training=False))[1]) == list(range(1, 10))
    assert tfrecords.imagenet("validation", str(tmp_path), "%s-*").num_samples == 9
    with pytest.raises(ValueError, match="no split 'test'; it has train, validation"):
        tfrecords.imagenet("test", str(tmp_path))


def test_decodes_jpeg_and_grey_images_to_three_channels(write):
    grey = np.full((4, 6, 1), 200, np.uint8)
    colour = np.full((5, 4, 3), 100, np.uint8)
    for encoded, shape, value in (
        (tf.io.encode_png(grey), (4, 6, 3), 200),
        (tf.io.encode_jpeg(colour), (5, 4, 3), 100),
    ):
        image, label = tfrecords.decode_example(write.example(encoded.numpy(), 7))
        assert image.shape == shape
        assert np.abs(image.numpy().astype(int) - value).max() <= 2
        assert label.numpy() == 7


def test_counts_records_and_refuses_damaged_files(rows, write, tmp_path):
    write.write_tfrecords(tmp_path, *rows, shards=1)
    path = tmp_path / "train-00000-of-00001"
    assert tfrecords.count_records(str(path)) == 9
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-5], whole + b"abc", b"", b"junk" * 9):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not whole records"):
            tfrecords.count_records(str(path))
    with pytest.raises(ValueError, match="No such file"):
        tfrecords.count_records(str(tmp_path / "none"))


def test_names_the_missing_item(rows, write, tmp_path):
    with pytest.raises(ValueError, match="no files of split 'train'"):
        tfrecords.tfrecords("train", str(tmp_path))
    write.write_tfrecords(tmp_path, *rows)
    for text, message in (
        (None, "No such file"),
        ("daisy\n", "0:daisy for each class"),
        ("", "it has none"),
        ("-1:x", "it has none"),
    ):
        (tmp_path / "labels.txt").unlink(missing_ok=True)
        if text is not None:
            (tmp_path / "labels.txt").write_text(text)
        with pytest.raises(ValueError, match=message):
            tfrecords.tfrecords("train", str(tmp_path))


def test_order_does_not_depend_on_threads_but_on_readers(rows, write, tmp_path):
    write.write_tfrecords(tmp_path, *rows, shards=4)
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path))

    def order(readers):
        return write.read(dataset, Reading(training=True, seed=1, num_readers=readers), 27)[1]

    assert order(4) == order(4) != order(1)
    # Evaluation reads file after file.
    in_files = [label for shard in range(4) for label in rows[1].tolist()[shard::4]]
    assert write.read(dataset, Reading(training=False, num_readers=3))[1] == in_files
