"""Image files written here, good and damaged, and the batches made of the images."""

import gzip
import struct

import numpy as np
import pytest
import tensorflow as tf

import replicate
from examples import mnist

v1 = tf.compat.v1
IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
TEST_IMAGES, TEST_LABELS = "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"


def idx(array):
    head = struct.pack(">BBBB", 0, 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape)
    return head + array.astype(np.uint8).tobytes()


@pytest.fixture
def arrays():
    random = np.random.RandomState(0)
    return {
        IMAGES: random.randint(0, 256, (7, 4, 3)),
        LABELS: np.array([3, 1, 4, 1, 5, 9, 0]),
        TEST_IMAGES: random.randint(0, 256, (2, 4, 3)),
        TEST_LABELS: np.array([2, 7]),
    }


@pytest.fixture
def folder(tmp_path, arrays):
    for name, array in arrays.items():
        (tmp_path / name).write_bytes(idx(array))
    return tmp_path


def test_reads_plain_files_gzipped_ones_and_names_with_a_dot(folder, arrays):
    plain = mnist.load(str(folder))
    for name in (IMAGES, TEST_LABELS):
        (folder / f"{name}.gz").write_bytes(gzip.compress((folder / name).read_bytes()))
        (folder / name).unlink()
    (folder / LABELS).rename(folder / "train-labels.idx1-ubyte")
    (folder / TEST_IMAGES).rename(folder / "t10k-images.idx3-ubyte")
    for data in (plain, mnist.load(str(folder))):
        assert (data.train.images.shape, data.train.images.dtype) == ((7, 4, 3, 1), np.float32)
        np.testing.assert_allclose(data.train.images[..., 0], arrays[IMAGES] / 255.0, rtol=1e-6)
        np.testing.assert_allclose(data.test.images[..., 0], arrays[TEST_IMAGES] / 255.0, rtol=1e-6)
        assert data.train.labels.tolist() == [3, 1, 4, 1, 5, 9, 0]
        assert (data.test.labels.tolist(), data.test.labels.dtype) == ([2, 7], np.int32)


DAMAGED = {
    r"95 bytes, expected 100 for shape \(7, 4, 3\)": lambda b: b[:-5],
    r"9 bytes, expected a 16-byte head": lambda b: b[:9],
    r"starts with 0x, expected 0x00000803": lambda b: b"",
    r"starts with 0x00000d03, expected 0x00000803": lambda b: b"\x00\x00\x0d\x03" + b[4:],
    r"100 bytes, expected \d{20,} for shape": lambda b: b[:4] + b"\xff" * 12 + b[16:],
}
DAMAGED_GZIP = (lambda b: b[:-9], lambda b: b"no gzip", lambda b: b[:30] + b[60:])
MISFITS = {
    f"{LABELS}: it has 6 labels, expected 7": {LABELS: np.zeros(6)},
    f"{TEST_LABELS}: it has a label 10": {TEST_LABELS: np.array([2, 10])},
    r"it has no pixels, its shape is \(0, ": {
        TEST_IMAGES: np.zeros((0, 4, 3)),
        TEST_LABELS: np.zeros(0),
    },
    r"\(4, 4\) pixels, expected \(4, 3\)": {TEST_IMAGES: np.zeros((2, 4, 4))},
}


def test_refuses_damaged_files_and_files_that_do_not_fit(folder, arrays):
    def refused(message, path=folder):
        with pytest.raises(ValueError, match=message) as caught:
            mnist.load(str(folder))
        assert str(path) in str(caught.value)

    for message, changed in MISFITS.items():
        for name, array in {**arrays, **changed}.items():
            (folder / name).write_bytes(idx(array))
        refused(message)
    path, whole = folder / IMAGES, idx(arrays[IMAGES])
    for message, damage in DAMAGED.items():
        path.write_bytes(damage(whole))
        refused(message, path)
    path.unlink()
    for damage in DAMAGED_GZIP:
        (folder / f"{IMAGES}.gz").write_bytes(damage(gzip.compress(whole)))
        refused("Expected a whole IDX file", folder / f"{IMAGES}.gz")
    (folder / LABELS).unlink()
    (folder / TEST_IMAGES).unlink()
    refused(f"no {LABELS}, no {TEST_IMAGES}(?!.*{TEST_LABELS})")


def test_digits_are_split_without_overlap_and_with_every_digit_in_both():
    sklearn_datasets = pytest.importorskip("sklearn.datasets")
    data = mnist.load()
    assert data.train.images.shape == (1437, 8, 8, 1)
    assert data.test.images.shape == (360, 8, 8, 1)
    rows = np.concatenate([data.train.images, data.test.images]).reshape(1797, 64)
    assert rows.min() == 0
    assert rows.max() == 1
    original = sklearn_datasets.load_digits().data / 16.0
    # The same multiset of images: nothing is in both parts that was not there twice to begin with.
    np.testing.assert_array_equal(rows[np.lexsort(rows.T)], original[np.lexsort(original.T)])
    assert set(np.bincount(data.test.labels)) <= {35, 36, 37}
    assert np.bincount(data.train.labels).min() > 135
    np.testing.assert_array_equal(mnist.load().test.images, data.test.images)


def batches(count, **arguments):
    images = np.arange(10, dtype=np.float32).reshape(10, 1, 1, 1)
    labels = np.arange(10, dtype=np.int32)
    with tf.Graph().as_default(), v1.Session() as session:
        dataset = mnist.input_fn(images, labels, **arguments)
        following = v1.data.make_one_shot_iterator(dataset).get_next()
        got = [session.run(following) for _ in range(count)]
        return following, got


def test_training_batches_are_full_and_cover_each_epoch_in_a_new_order():
    (image, label), got = batches(5, batch_size=4, training=True, seed=1)
    assert image.shape.as_list() == [4, 1, 1, 1]
    assert label.shape.as_list() == [4]
    order = np.concatenate([labels for _, labels in got])
    for images, labels in got:
        np.testing.assert_array_equal(images[:, 0, 0, 0], labels)
    assert sorted(order[:10]) == list(range(10))
    assert sorted(order[10:]) == list(range(10))
    assert order[:10].tolist() != order[10:].tolist()
    for seed, is_same in ((1, True), (2, False)):
        _, again = batches(5, batch_size=4, training=True, seed=seed)
        assert np.array_equal(np.concatenate([labels for _, labels in again]), order) == is_same


def test_evaluation_reads_everything_once_in_order():
    _, got = batches(3, batch_size=4, training=False)
    assert [labels.tolist() for _, labels in got] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    with pytest.raises(tf.errors.OutOfRangeError):
        batches(4, batch_size=4, training=False)


def test_position_is_small_and_taken_up_exactly(tmp_path):
    read = []

    class Rows(np.ndarray):
        """Images that remember which of them were read."""

        def __getitem__(self, rows):
            read.append(np.asarray(rows).tolist())
            return np.asarray(self)[rows]

    images = np.zeros((1000, 9, 9, 1), np.float32).view(Rows)
    labels = np.arange(1000, dtype=np.int32)

    def model_fn(features, labels, mode):
        assert len(v1.get_default_graph().as_graph_def().SerializeToString()) < 100_000
        step = v1.assign_add(v1.train.get_global_step(), 1)
        loss = tf.reduce_mean(features) + tf.cast(labels[0], tf.float32)
        return replicate.EstimatorSpec(mode, loss=loss, train_op=step)

    config = replicate.RunConfig(str(tmp_path), continue_input=True, progress="off")
    estimator = replicate.Estimator(model_fn, config=config)
    for step in (20, 30):
        estimator.train(lambda: mnist.input_fn(images, labels, 100, training=True), max_steps=step)
        assert len(read) == step
    epochs = [sorted(np.concatenate(read[start : start + 10])) for start in (0, 10, 20)]
    assert epochs == [list(range(1000))] * 3
    assert (tmp_path / "model.ckpt-30.input_position").stat().st_size < 5_000


@pytest.mark.parametrize(("flatten", "shape"), [(True, [3, 12]), (False, [3, 4, 3, 1])])
def test_load_mnist_reads_each_image_as_often_as_told(folder, arrays, graph, flatten, shape):
    image, label = mnist.load_mnist(str(folder), 2, 3, flatten_images=flatten)
    assert image.shape.as_list() == shape
    with v1.Session() as session:
        got = [session.run([image, label]) for _ in range(4)]
        with pytest.raises(tf.errors.OutOfRangeError):  # 2 x 7 images, of which two are left over
            session.run(image)
    labels = np.concatenate([labels for _, labels in got])[:7]
    images = np.concatenate([images for images, _ in got])[:7].reshape(7, 12)
    expected = arrays[IMAGES].reshape(7, 12) / 255.0
    order, wanted = np.lexsort(images.T), np.lexsort(expected.T)
    np.testing.assert_allclose(images[order], expected[wanted], rtol=1e-6)
    np.testing.assert_array_equal(labels[order], arrays[LABELS][wanted])


def test_load_mnist_makes_up_data_of_mnists_size(graph, evaluate):
    images, labels = evaluate(mnist.load_mnist(None, None, 8, use_fake_data=True))
    assert images.shape == (8, 784)
    assert 0 <= images.min() < images.max() < 1
    assert 1 < len(set(labels)) <= len(set(labels) | set(range(10))) == 10
