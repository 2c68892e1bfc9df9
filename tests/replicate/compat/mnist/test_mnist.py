"""The digits of tensorflow.examples.tutorials.mnist, from local files."""

import functools
import gzip

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.mnist import input_data, mnist

v1 = tf.compat.v1
DRAWS = np.random.default_rng(0)
IMAGES = DRAWS.integers(0, 256, size=[12, 28, 28]).astype("u1")
LABELS = np.arange(12, dtype="u1") % 10
ONE_HOT = np.eye(10)[LABELS]


def idx(kind, values):
    numbers = [kind, *values.shape]
    return b"".join(number.to_bytes(4, "big") for number in numbers) + values.tobytes()


@pytest.fixture(params=[True, False])
def folder(tmp_path, request):
    for name, kind, values in (
        ("train-images-idx3-ubyte", 2051, IMAGES),
        ("train-labels-idx1-ubyte", 2049, LABELS),
        ("t10k-images-idx3-ubyte", 2051, IMAGES[:3]),
        ("t10k-labels-idx1-ubyte", 2049, LABELS[:3]),
    ):
        content = idx(kind, values)
        path = tmp_path / (f"{name}.gz" if request.param else name)
        path.write_bytes(gzip.compress(content) if request.param else content)
    return str(tmp_path)


def test_three_parts(folder):
    data = input_data.read_data_sets(folder, one_hot=True, validation_size=4)
    assert [each.num_examples for each in data] == [8, 4, 3]
    np.testing.assert_allclose(data.validation.images, IMAGES[:4].reshape(4, 784) / 255, rtol=1e-6)
    np.testing.assert_array_equal(data.test.labels, ONE_HOT[:3])
    raw = input_data.read_data_sets(folder, dtype=tf.uint8, reshape=False, validation_size=0).train
    np.testing.assert_array_equal(raw.images, IMAGES[..., None])
    np.testing.assert_array_equal(raw.labels, LABELS)


def test_batches_give_each_image_once_an_epoch(folder):
    train = input_data.read_data_sets(folder, validation_size=2, seed=1).train
    given = [train.next_batch(4)[1] for _ in range(5)]
    labels = np.concatenate(given)
    assert sorted(labels[:10]) == sorted(labels[10:]) == sorted(LABELS[2:])
    assert labels[:10].tolist() != labels[10:].tolist()
    assert train.epochs_completed == 1
    plain = input_data.read_data_sets(folder, validation_size=2).train
    assert plain.next_batch(6, shuffle=False)[1].tolist() == LABELS[2:8].tolist()
    images, labels = plain.next_batch(6, shuffle=False)
    assert labels.tolist() == [*LABELS[8:], *LABELS[2:4]]
    np.testing.assert_allclose(images[5], IMAGES[3].reshape(784) / 255, rtol=1e-6)


def test_seeds_of_numpy_and_of_the_graph_give_the_order_of_batches():
    def order(seed=None, graph_seed=None, numpy_seed=None):
        with v1.Graph().as_default():
            v1.set_random_seed(graph_seed)
            data = input_data.DataSet(IMAGES, LABELS, seed=seed)
            if numpy_seed is not None:
                np.random.seed(numpy_seed)
            return data.next_batch(12)[1].tolist()

    expected = LABELS[np.random.RandomState(3).permutation(12)].tolist()
    for seeds in ({"seed": 3}, {"graph_seed": 3}, {"numpy_seed": 3}):
        assert order(**seeds) == expected
    assert order(seed=3, graph_seed=4) == expected
    assert order() != order()


def test_messages(tmp_path, folder):
    def data(labels=LABELS, **settings):
        return input_data.DataSet(IMAGES, labels, **settings)

    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(b"nonsense"))
    read = input_data.read_data_sets
    for call, error, message in (
        (lambda: read(str(tmp_path / "none")), FileNotFoundError, r"no train-.*gz in .*downloaded"),
        (lambda: read(folder, validation_size=13), ValueError, r"must be in \[0, 12\], got 13"),
        (lambda: read(str(tmp_path / "bad")), ValueError, "no IDX file"),
        (lambda: data(fake_data=True), ValueError, "fake_data=True"),
        (lambda: data(dtype=tf.int32), TypeError, "int32"),
        (lambda: data(LABELS[:3]), ValueError, "12 images and 3 labels"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_open_files(tmp_path):
    path = tmp_path / "file.gz"
    for kind, values, read, expected in (
        (2049, LABELS, functools.partial(input_data.extract_labels, one_hot=True), ONE_HOT),
        (2051, IMAGES, input_data.extract_images, IMAGES[..., None]),
    ):
        path.write_bytes(gzip.compress(idx(kind, values)))
        with open(path, "rb") as file:
            np.testing.assert_array_equal(read(file), expected)


def test_network_in_four_steps():
    images = (IMAGES.reshape(12, 784) / 255).astype("f4")
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(1)
        logits = mnist.inference(images, 8, 6)
        loss = mnist.loss(logits, LABELS.astype("i4"))
        correct = mnist.evaluation(logits, LABELS.astype("i4"))
        step = mnist.training(loss, 0.01)
        names = [each.op.name for each in v1.trainable_variables()]
        assert names[:2] == ["hidden1/weights", "hidden1/biases"]
        assert names[4:] == ["softmax_linear/weights", "softmax_linear/biases"]
        session.run(v1.global_variables_initializer())
        values, first, count, w = session.run([logits, loss, correct, v1.trainable_variables()])
        net = np.maximum(images @ w[0] + w[1], 0)
        net = np.maximum(net @ w[2] + w[3], 0) @ w[4] + w[5]
        np.testing.assert_allclose(values, net, atol=1e-4)
        nll = np.log(np.exp(net).sum(1)) - net[range(12), LABELS]
        np.testing.assert_allclose(first, nll.mean(), rtol=1e-4)
        assert count == np.sum(np.argmax(net, 1) == LABELS)
        session.run(step)
        assert session.run(loss) < first
        (count,) = v1.global_variables("global_step")
        assert session.run(count) == 1
