"""Datasets of every kind: each image once, in splits and shares, and files that are refused."""

import dataclasses
import struct

import numpy as np
import pytest
import tensorflow as tf

from examples import mnist
from examples.slim.datasets import arrays, digits, factory, splits, tfrecords
from examples.slim.datasets.cifar10 import cifar10
from examples.slim.datasets.cifar10_pickles import read_batch
from examples.slim.datasets.dataset import Reading

v1 = tf.compat.v1
TRAINING = Reading(training=True, seed=3, num_readers=2, shuffle_buffer=4)


def write_idx(path, array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.tobytes())


def write_mnist(folder, images, labels):
    for part in ("train", "t10k"):
        write_idx(folder / f"{part}-images-idx3-ubyte", images[..., 0])
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)


def cifar_records(images, labels):
    """Each a byte for the label and the pixels, channel by channel."""
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.hstack([labels[:, np.newaxis], pixels]).astype(np.uint8)


def write_cifar(folder, images, labels):
    """Five files for training, with different numbers of images, and all of them for testing."""
    bounds = [0, 2, 5, 6, 7, len(labels)]
    for number in range(1, 6):
        rows = slice(bounds[number - 1], bounds[number])
        part = cifar_records(images[rows], labels[rows])
        (folder / f"data_batch_{number}.bin").write_bytes(part.tobytes())
    (folder / "test_batch.bin").write_bytes(cifar_records(images, labels).tobytes())


def example(encoded, label):
    record = tf.train.Example()
    record.features.feature["image/encoded"].bytes_list.value.append(encoded)
    record.features.feature["image/class/label"].int64_list.value.append(label)
    return record.SerializeToString()


def write_tfrecords(folder, images, labels, split="train", shards=3):
    for shard in range(shards):
        name = folder / f"{split}-{shard:05d}-of-{shards:05d}"
        with tf.io.TFRecordWriter(str(name)) as writer:
            for row in range(shard, len(labels), shards):
                encoded = tf.io.encode_png(images[row]).numpy()
                writer.write(example(encoded, int(labels[row])))
    (folder / "labels.txt").write_text("".join(f"{number}:class\n" for number in range(10)))


def read(dataset, reading, count=None):
    """Returns the images and labels of a pass, or of the first `count` elements."""
    with tf.Graph().as_default(), v1.Session() as session:
        elements = dataset.elements(reading).map(dataset.decode)
        following = v1.data.make_one_shot_iterator(elements).get_next()
        found = []
        while count is None or len(found) < count:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                break
    return [image for image, _ in found], [int(label) for _, label in found]


@pytest.fixture
def rows():
    """Images, uint8 [9, 32, 32, 3], and labels 0 to 8 in another order."""
    random = np.random.RandomState(0)
    images = random.randint(0, 256, (9, 32, 32, 3)).astype(np.uint8)
    return images, np.array([3, 1, 4, 8, 5, 2, 6, 0, 7], np.uint8)


@pytest.fixture(params=["mnist", "cifar10", "tfrecords"])
def known(request, rows, tmp_path):
    """A dataset and what is in it: (dataset, images, labels), labels from 0 to 8."""
    images, labels = rows
    if request.param == "mnist":
        images = images[..., :1]
        write_mnist(tmp_path, images, labels)
    elif request.param == "cifar10":
        write_cifar(tmp_path, images, labels)
    else:
        write_tfrecords(tmp_path, images, labels)
    return factory.get_dataset(request.param, "train", str(tmp_path)), images, labels


def pickled(data, labels):
    """A dict with "data" and "labels" as Python writes it; the array as NumPy dumps it."""
    array = data.dumps().removesuffix(b".")
    if array.startswith(b"\x80"):
        array = array[2:]
    numbers = b"".join(b"K" + bytes([label]) for label in labels)
    return b"\x80\x04}(U\x06labels](" + numbers + b"eU\x04data" + array + b"u."


def test_reads_every_image_once_with_its_label(known):
    dataset, images, labels = known
    found, found_labels = read(dataset, Reading(training=False))
    assert sorted(found_labels) == sorted(labels.tolist())
    assert (dataset.num_samples, dataset.num_classes) == (9, 10)
    wanted = dict(zip(labels, images, strict=True))
    for label, image in zip(found_labels, found, strict=True):
        np.testing.assert_array_equal(image, wanted[label])
        assert image.dtype == np.uint8
    assert set(dataset.items_to_descriptions) == {"image", "label"}


def test_training_is_endless_shuffled_and_follows_from_the_seed(known):
    dataset, _, _ = known
    _, first = read(dataset, TRAINING, 18)
    assert sorted(first[:9]) == sorted(first[9:]) == list(range(9))
    assert first[:9] != first[9:]
    assert read(dataset, TRAINING, 18)[1] == first
    assert read(dataset, dataclasses.replace(TRAINING, seed=4), 18)[1] != first


def test_processes_have_shares_of_their_own(known):
    dataset, _, _ = known
    readings = [Reading(training=False, num_shards=3, shard_index=shard) for shard in range(3)]
    shares = [read(dataset, reading)[1] for reading in readings]
    assert sorted(np.concatenate(shares)) == list(range(9))
    seen = []
    for shard in range(2):
        share = dataclasses.replace(TRAINING, num_shards=2, shard_index=shard)
        seen.append(set(read(dataset, share, 20)[1]))
    assert seen[0] | seen[1] == set(range(9))
    assert not seen[0] & seen[1]


@pytest.mark.parametrize("is_large", [False, True])
def test_small_arrays_are_in_the_graph_and_large_ones_are_not(monkeypatch, is_large):
    images = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8, 1)
    monkeypatch.setattr(arrays, "IN_GRAPH_BYTES", 127 if is_large else 128)
    made = arrays.array_dataset("mine", "train", images, np.array([4, 2]), 5, {})
    assert made.runs_python == is_large
    found, labels = read(made, Reading(training=False))
    np.testing.assert_array_equal(found, images)
    assert labels == [4, 2]
    with tf.Graph().as_default():
        image, label = made.decode(tf.constant(1, tf.int64))
        assert (image.shape, image.dtype, label.dtype) == ((8, 8, 1), tf.uint8, tf.int64)


def test_wrong_names_splits_and_folders_are_refused(tmp_path):
    for nothing in (None, ""):
        with pytest.raises(ValueError, match="mine needs the folder of its files: set --dataset_d"):
            splits.required_folder("mine", nothing)
    with pytest.raises(ValueError, match=r"there is no folder '.*none'"):
        splits.required_folder("mine", str(tmp_path / "none"))
    for name in set(factory.DATASETS) - {"digits"}:
        with pytest.raises(ValueError, match=f"{name} needs the folder of its files"):
            factory.get_dataset(name, "train", None)
    for name in ("digits", "mnist"):
        with pytest.raises(ValueError, match="no split 'validation'; it has train, test"):
            factory.get_dataset(name, "validation", str(tmp_path))
        with pytest.raises(ValueError, match="takes no file pattern, got 'x'"):
            factory.get_dataset(name, "train", str(tmp_path), "x")
    with pytest.raises(ValueError, match="no train-images-idx3-ubyte"):
        factory.get_dataset("mnist", "train", str(tmp_path))
    with pytest.raises(ValueError, match="'flowers'; known are cifar10, digits, imagenet, mnist, "):
        factory.get_dataset("flowers", "train", None)


@pytest.mark.parametrize(("split", "count"), [("train", 1437), ("test", 360)])
def test_bundled_digits(split, count):
    pytest.importorskip("sklearn")
    dataset = digits.digits(split)
    assert (dataset.num_samples, dataset.num_classes) == (count, 10)
    images, labels = read(dataset, Reading(training=False), 5)
    part = getattr(mnist.load_digits(), split)
    np.testing.assert_allclose(np.array(images) / 255, part.images[:5], atol=0.002)
    assert labels == part.labels[:5].tolist()


def test_finds_the_files_of_a_split_by_a_word_in_their_names(rows, tmp_path):
    write_tfrecords(tmp_path, *rows, split="flowers_train")
    write_tfrecords(tmp_path, rows[0][:2], rows[1][:2], split="flowers_training")
    write_tfrecords(tmp_path, rows[0][:4], rows[1][:4], split="flowers_test", shards=1)
    (tmp_path / "train.txt").write_text("notes")
    assert tfrecords.tfrecords("train", str(tmp_path)).num_samples == 9
    assert tfrecords.tfrecords("test", str(tmp_path)).num_samples == 4


def test_imagenet_has_a_background_and_a_known_size(rows, tmp_path):
    write_tfrecords(tmp_path, rows[0], rows[1] + 1, split="validation", shards=2)
    dataset = tfrecords.imagenet("validation", str(tmp_path))
    assert (dataset.num_samples, dataset.num_classes) == (50_000, 1001)
    assert sorted(read(dataset, Reading(training=False))[1]) == list(range(1, 10))
    patterned = factory.get_dataset("imagenet", "validation", str(tmp_path), "%s-*")
    assert patterned.num_samples == 9
    with pytest.raises(ValueError, match="no split 'test'; it has train, validation"):
        tfrecords.imagenet("test", str(tmp_path))


def test_decodes_jpeg_and_grey_images_to_three_channels():
    grey = np.full((4, 6, 1), 200, np.uint8)
    colour = np.full((5, 4, 3), 100, np.uint8)
    for encoded, shape, value in (
        (tf.io.encode_png(grey), (4, 6, 3), 200),
        (tf.io.encode_jpeg(colour), (5, 4, 3), 100),
    ):
        image, label = tfrecords.decode_example(example(encoded.numpy(), 7))
        assert image.shape == shape
        assert np.abs(image.numpy().astype(int) - value).max() <= 2
        assert label.numpy() == 7


def test_counts_records_and_refuses_damaged_files(rows, tmp_path):
    write_tfrecords(tmp_path, *rows, shards=1)
    path = tmp_path / "train-00000-of-00001"
    assert tfrecords.count_records(str(path)) == 9
    whole = path.read_bytes()
    for damaged in (whole[:-1], whole[:-5], whole + b"abc", b"", b"junk" * 9):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match="not whole records"):
            tfrecords.count_records(str(path))
    with pytest.raises(ValueError, match="No such file"):
        tfrecords.count_records(str(tmp_path / "none"))


def test_names_the_missing_item(rows, tmp_path):
    with pytest.raises(ValueError, match="no files of split 'train'"):
        tfrecords.tfrecords("train", str(tmp_path))
    write_tfrecords(tmp_path, *rows)
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


def test_order_does_not_depend_on_threads_but_on_readers(rows, tmp_path):
    write_tfrecords(tmp_path, *rows, shards=4)
    dataset = factory.get_dataset("tfrecords", "train", str(tmp_path))

    def order(readers):
        return read(dataset, Reading(training=True, seed=1, num_readers=readers), 27)[1]

    assert order(4) == order(4) != order(1)
    # Evaluation reads file after file.
    in_files = [label for shard in range(4) for label in rows[1].tolist()[shard::4]]
    assert read(dataset, Reading(training=False, num_readers=3))[1] == in_files


def test_both_versions_are_the_same_images(rows, tmp_path):
    records = cifar_records(*rows)
    for number in range(1, 6):
        part = records[2 * (number - 1) : 2 * number]
        (tmp_path / f"data_batch_{number}").write_bytes(pickled(part[:, 1:], part[:, 0].tolist()))
    dataset = cifar10("train", str(tmp_path))
    images, labels = read(dataset, Reading(training=False))
    np.testing.assert_array_equal(images, rows[0])
    assert labels == rows[1].tolist()
    assert dataset.in_memory

    inner = tmp_path / "cifar-10-batches-bin"  # The folder of the archive is found.
    inner.mkdir()
    write_cifar(inner, *rows)
    dataset = cifar10("test", str(tmp_path))
    assert not dataset.in_memory
    np.testing.assert_array_equal(read(dataset, Reading(training=False))[0], images)


def test_missing_and_truncated_files(rows, tmp_path):
    with pytest.raises(ValueError, match=r"not have all of data_batch_1.bin, .*cifar-10-binary"):
        cifar10("train", str(tmp_path))
    write_cifar(tmp_path, *rows)
    path = tmp_path / "data_batch_4.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"data_batch_4.bin: 3072 bytes, expected a multiple of 3"):
        cifar10("train", str(tmp_path))


def test_reads_pickles_of_python_2(tmp_path):
    """Instructions of protocol 2, with byte strings of either length."""
    pixels = bytes(range(250, 256)) * 50
    content = (
        b"\x80\x02}q\x00(U\x0bbatch_labelq\x01U\x15training batch 1 of 5q\x02"
        b"U\x06labelsq\x03]q\x04(K\x06K\x09e"
        b"U\x04dataq\x05cnumpy.core.multiarray\n_reconstruct\nq\x06(K\x00U\x02u1"
        b"T\x2c\x01\x00\x00" + pixels + b"tb"
        b"U\x09filenamesq\x07]q\x08(U\x05a.pngU\x05b.pngeu."
    )
    (tmp_path / "batch").write_bytes(content)
    found = read_batch(str(tmp_path / "batch"), 150)
    assert found.images.tobytes() == pixels
    assert found.labels.tolist() == [6, 9]


def test_runs_nothing(tmp_path):
    """A callable named in a file is read as text and never called."""
    trap = tmp_path / "trap"
    command = f"touch {trap}".encode()
    call = b"cos\nsystem\n(U" + bytes([len(command)]) + command + b"tR0"
    good = pickled(np.zeros([1, 4], np.uint8), [1])
    (tmp_path / "batch").write_bytes(good[:2] + call + good[2:])
    assert read_batch(str(tmp_path / "batch"), 4).labels.tolist() == [1]
    assert not trap.exists()


def test_refuses_other_files_and_wrong_labels(rows, tmp_path):
    for content in (b"", b"no such file", b"\x80\x02}.", b"\x80\x02U\x04dataU\x02ab."):
        (tmp_path / "batch").write_bytes(content)
        with pytest.raises(ValueError, match=r"Cannot read .*batch: "):
            read_batch(str(tmp_path / "batch"), 4)
    pixels = cifar_records(*rows)[:, 1:]
    (tmp_path / "test_batch").write_bytes(pickled(pixels, [10] * 9))
    with pytest.raises(ValueError, match="a label 10, expected 0 to 9"):
        cifar10("test", str(tmp_path))
    (tmp_path / "batch").write_bytes(pickled(np.zeros([3, 4], np.uint8), [1, 2]))
    with pytest.raises(ValueError, match="12 bytes of images and 2 labels, expected 4 bytes"):
        read_batch(str(tmp_path / "batch"), 4)
