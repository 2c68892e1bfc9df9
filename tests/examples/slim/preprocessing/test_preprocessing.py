"""Every kind of preprocessing in a pipeline: sizes, windows, colours, ranges and seeds."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks.factory import NETWORKS
from examples.slim.preprocessing import factory, pixels, vgg

v1 = tf.compat.v1
KINDS = ["lenet", "cifarnet", "vgg", "inception"]
RANDOM = KINDS[1:]


def prepared(name, images, height, width, seed=0, **options):
    """Returns what becomes of each image of a list; sizes are unknown to the pipeline."""
    preprocess = factory.get_preprocessing(name, **options)
    channels = images[0].shape[-1]

    def prepare(number, image):
        return preprocess(image, height, width, seed=tf.stack([seed, number]))

    with tf.Graph().as_default(), v1.Session() as session:
        spec = tf.TensorSpec([None, None, channels], images[0].dtype)
        dataset = tf.data.Dataset.from_generator(lambda: iter(images), output_signature=spec)
        dataset = dataset.enumerate().map(prepare)
        made = dataset.element_spec
        assert made.dtype == tf.float32
        assert made.shape.as_list() == [
            height,
            width,
            1 if options.get("use_grayscale") else channels,
        ]
        batch = v1.data.make_one_shot_iterator(dataset.batch(len(images))).get_next()
        return session.run(batch)


@pytest.fixture
def photos():
    """Twelve smooth images of 60 x 80 pixels in colours, one like the other."""
    across, down = np.meshgrid(np.linspace(0, 1, 80), np.linspace(0, 1, 60))
    photo = np.stack([255 * across, 255 * down, 128 * across * down + 40], axis=-1)
    return [photo.astype(np.uint8)] * 12


def test_there_is_preprocessing_for_each_network_and_by_kind():
    kinds = dict(zip(KINDS, KINDS, strict=True)) | {
        name: {"mobilenet": "inception", "resnet": "vgg"}.get(family, family)
        for name in NETWORKS
        for family in [name.partition("_")[0]]
    }
    found = factory.PREPROCESSING
    assert found == {name: found[kind] for name, kind in kinds.items()}
    assert len(set(found.values())) == len(KINDS)
    message = r"no preprocessing 'alexnet'; take one of cifarnet, .*vgg_16\."
    with pytest.raises(ValueError, match=message):
        factory.get_preprocessing("alexnet")


@pytest.mark.parametrize("name", KINDS)
def test_images_of_any_size_and_type_get_the_size(photos, name):
    colours = prepared(name, photos[:3], 24, 32)
    assert (colours.shape, colours.dtype) == ((3, 24, 32, 3), np.float32)
    np.testing.assert_array_equal(colours[1:], colours[:-1], "nothing is random")
    digit = np.arange(64, dtype=np.float32).reshape(8, 8, 1)
    digits = prepared(name, [digit] * 2, 24, 32, is_training=True)
    assert digits.shape == (2, 24, 32, 1)
    for images in (colours, digits):
        assert np.isfinite(images).all()
        assert images.std() > 0


@pytest.mark.parametrize("name", RANDOM)
def test_in_training_each_image_differs_and_the_seed_decides(photos, graph, name):
    values = prepared(name, photos, 24, 32, is_training=True)
    assert len({image.tobytes() for image in values}) == len(photos)
    again = prepared(name, photos[:2], 24, 32, is_training=True)
    np.testing.assert_array_equal(again, values[:2])
    other = prepared(name, photos[:2], 24, 32, is_training=True, seed=1)
    assert not {image.tobytes() for image in other} & {image.tobytes() for image in values}
    with pytest.raises(ValueError, match="without a seed"):
        factory.get_preprocessing(name, is_training=True)(tf.zeros([8, 8, 3]), 8, 8)


def test_colours_become_floats_or_gray(graph, evaluate):
    image = np.random.RandomState(0).randint(0, 256, (4, 5, 3)).astype(np.uint8)
    value = pixels.as_float(tf.constant(image), use_grayscale=False)
    gray = pixels.as_float(tf.constant(image), use_grayscale=True)
    again = pixels.as_float(gray, use_grayscale=True)
    values = evaluate([value, gray, again])
    assert values[0].dtype == np.float32
    np.testing.assert_array_equal(values[0], image)
    np.testing.assert_allclose(values[1][..., 0], image @ [0.299, 0.587, 0.114], rtol=1e-5)
    np.testing.assert_array_equal(values[2], values[1])
    for shape in (None, [4, 4], [4, 4, 4], [4, 4, None], [1, 4, 4, 3]):
        with pytest.raises(ValueError, match=r"must be \[height, width, channels\] with 1 or 3"):
            pixels.as_float(v1.placeholder(tf.uint8, shape), use_grayscale=False)


def test_values_go_from_minus_one_to_one():
    digit = np.random.RandomState(0).randint(0, 256, (8, 8, 1)).astype(np.uint8)
    digit[0, :2, 0] = 0, 255
    (value,) = prepared("lenet", [digit], 8, 8, is_training=True)
    np.testing.assert_allclose(value, digit / 127.5 - 1, atol=1e-5)
    assert (value.min(), value.max()) == (-1, 1)


def standardized(image):
    return (image - image.mean()) / image.std()


def test_evaluation_standardizes():
    image = np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)
    value, even = prepared("cifarnet", [image, np.full_like(image, 7)], 32, 32)
    np.testing.assert_allclose(value, standardized(image.astype(float)), atol=1e-4)
    np.testing.assert_allclose(even, 0, atol=1e-5)


def test_training_shifts_by_an_eighth_at_most_and_mirrors():
    """One bright pixel in the middle: neither brightness nor contrast moves it."""
    image = np.zeros((32, 32, 1), np.uint8)
    image[16, 16] = 255
    values = prepared("cifarnet", [image] * 60, 32, 32, is_training=True)[..., 0]
    np.testing.assert_allclose(values.mean((1, 2)), 0, atol=1e-4)
    np.testing.assert_allclose(values.std((1, 2)), 1, rtol=1e-3)
    rows, columns = zip(
        *(np.unravel_index(value.argmax(), value.shape) for value in values), strict=True
    )
    assert set(rows) == set(range(12, 21))
    assert set(columns) == set(range(11, 21))  # 12 to 20, and mirrored 11 to 19


@pytest.mark.parametrize("is_training", [False, True])
def test_the_mean_is_taken_away_and_nothing_divided(is_training):
    image = np.full((30, 50, 3), (10, 20, 30), np.uint8)
    (value,) = prepared("vgg", [image], 14, 14, is_training=is_training)
    expected = np.broadcast_to(np.subtract((10, 20, 30), vgg.MEAN), (14, 14, 3))
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    (gray,) = prepared("vgg", [image], 14, 14, is_training=is_training, use_grayscale=True)
    weights = np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(gray, np.full((14, 14, 1), expected[0, 0] @ weights), rtol=1e-4)


def test_evaluation_takes_the_middle_of_the_shorter_side_of_256():
    """Of 512 x 320: scaled to 410 x 256, of which the middle 224 x 224 are taken."""
    across, down = np.meshgrid(np.linspace(0, 255, 320), np.linspace(0, 255, 512))
    image = np.stack([across, down, down], axis=-1).astype(np.float32)
    (value,) = prepared("vgg", [image], 224, 224)
    value += vgg.MEAN
    edge = (256 - 224) / 2 / 256 * 255
    np.testing.assert_allclose(value[:, [0, -1], 0], [[edge, 255 - edge]] * 224, atol=1.0)
    edge = (410 - 224) / 2 / 410 * 255
    np.testing.assert_allclose(value[[0, -1], :, 1], [[edge] * 224, [255 - edge] * 224], atol=1.0)


def test_training_takes_windows_of_all_scales_and_mirrors():
    """The slope of a ramp in the window tells the scale; its sign tells if it is mirrored."""
    across = np.tile(np.linspace(0, 255, 64)[None, :, None], (48, 1, 3)).astype(np.float32)
    values = prepared("vgg", [across] * 80, 28, 28, is_training=True)
    rises = values[:, 0, 20, 0] - values[:, 0, 8, 0]
    # The shorter side, 48, becomes 32 to 64 pixels, and the longer one 43 to 85.
    scaled = np.round(12 * 255 / np.abs(rises))
    assert 40 <= scaled.min() < 50
    assert 78 < scaled.max() <= 88
    assert 20 < np.sum(rises < 0) < 60


def test_evaluation_takes_seven_eighths_of_each_side():
    across, down = np.meshgrid(np.linspace(0, 255, 80), np.linspace(0, 255, 160))
    image = np.stack([across, down, across], axis=-1).astype(np.float32)
    (value,) = prepared("inception", [image], 40, 40)
    edge = 2 / 16 - 1
    np.testing.assert_allclose(value[:, [0, -1], 0], [[edge, -edge]] * 40, atol=0.03)
    np.testing.assert_allclose(value[[0, -1], :, 1], [[edge] * 40, [-edge] * 40], atol=0.03)


def test_training_takes_parts_of_all_sizes_and_mirrors():
    """A ramp of gray in one channel: neither hue nor saturation, contrast of a half to 1.5."""
    across = np.tile(np.linspace(0, 255, 64)[None, :, None], (64, 1, 1)).astype(np.uint8)
    values = prepared("inception", [across] * 80, 32, 32, is_training=True)
    assert values.min() >= -1
    assert values.max() <= 1
    rises = values[:, 16, 31, 0] - values[:, 16, 0, 0]
    assert 20 < np.sum(rises < 0) < 60
    # Widths of √(0.08 ⋅ 3/4) = 0.24 to 1 of the image, which rises by 2.
    assert np.abs(rises).min() < 0.9
    assert np.abs(rises).max() > 1.2


def test_training_changes_colours():
    image = np.full((16, 16, 3), (200, 60, 90), np.uint8)
    values = prepared("inception", [image] * 20, 8, 8, is_training=True)
    colours = np.round(values[:, 0, 0], 3)
    for channel in range(3):
        assert len(set(colours[:, channel])) > 10
    np.testing.assert_allclose(values, np.broadcast_to(values[:, :1, :1], values.shape), atol=1e-4)
