"""Images of each kind of preprocessing: sizes, windows, colours and ranges."""

import numpy as np
import pytest

from examples.slim.preprocessing import vgg


def test_values_go_from_minus_one_to_one(prepared):
    digit = np.random.RandomState(0).randint(0, 256, (8, 8, 1)).astype(np.uint8)
    digit[0, :2, 0] = 0, 255
    (value,) = prepared("lenet", [digit], 8, 8, is_training=True)
    np.testing.assert_allclose(value, digit / 127.5 - 1, atol=1e-5)
    assert (value.min(), value.max()) == (-1, 1)


def standardized(image):
    return (image - image.mean()) / image.std()


def test_evaluation_standardizes(prepared):
    image = np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)
    value, even = prepared("cifarnet", [image, np.full_like(image, 7)], 32, 32)
    np.testing.assert_allclose(value, standardized(image.astype(float)), atol=1e-4)
    np.testing.assert_allclose(even, 0, atol=1e-5)


def test_training_shifts_by_an_eighth_at_most_and_mirrors(prepared):
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
def test_the_mean_is_taken_away_and_nothing_divided(prepared, is_training):
    image = np.full((30, 50, 3), (10, 20, 30), np.uint8)
    (value,) = prepared("vgg", [image], 14, 14, is_training=is_training)
    expected = np.broadcast_to(np.subtract((10, 20, 30), vgg.MEAN), (14, 14, 3))
    np.testing.assert_allclose(value, expected, rtol=1e-4)
    (gray,) = prepared("vgg", [image], 14, 14, is_training=is_training, use_grayscale=True)
    weights = np.array([0.299, 0.587, 0.114])
    np.testing.assert_allclose(gray, np.full((14, 14, 1), expected[0, 0] @ weights), rtol=1e-4)


def test_evaluation_takes_the_middle_of_the_shorter_side_of_256(prepared):
    """Of 512 x 320: scaled to 410 x 256, of which the middle 224 x 224 are taken."""
    across, down = np.meshgrid(np.linspace(0, 255, 320), np.linspace(0, 255, 512))
    image = np.stack([across, down, down], axis=-1).astype(np.float32)
    (value,) = prepared("vgg", [image], 224, 224)
    value += vgg.MEAN
    edge = (256 - 224) / 2 / 256 * 255
    np.testing.assert_allclose(value[:, [0, -1], 0], [[edge, 255 - edge]] * 224, atol=1.0)
    edge = (410 - 224) / 2 / 410 * 255
    np.testing.assert_allclose(value[[0, -1], :, 1], [[edge] * 224, [255 - edge] * 224], atol=1.0)


def test_training_takes_windows_of_all_scales_and_mirrors(prepared):
    """The slope of a ramp in the window tells the scale; its sign tells if it is mirrored."""
    across = np.tile(np.linspace(0, 255, 64)[None, :, None], (48, 1, 3)).astype(np.float32)
    values = prepared("vgg", [across] * 80, 28, 28, is_training=True)
    rises = values[:, 0, 20, 0] - values[:, 0, 8, 0]
    # The shorter side, 48, becomes 32 to 64 pixels, and the longer one 43 to 85.
    scaled = np.round(12 * 255 / np.abs(rises))
    assert 40 <= scaled.min() < 50
    assert 78 < scaled.max() <= 88
    assert 20 < np.sum(rises < 0) < 60


def test_evaluation_takes_seven_eighths_of_each_side(prepared):
    across, down = np.meshgrid(np.linspace(0, 255, 80), np.linspace(0, 255, 160))
    image = np.stack([across, down, across], axis=-1).astype(np.float32)
    (value,) = prepared("inception", [image], 40, 40)
    edge = 2 / 16 - 1
    np.testing.assert_allclose(value[:, [0, -1], 0], [[edge, -edge]] * 40, atol=0.03)
    np.testing.assert_allclose(value[[0, -1], :, 1], [[edge] * 40, [-edge] * 40], atol=0.03)


def test_training_takes_parts_of_all_sizes_and_mirrors(prepared):
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


def test_training_changes_colours(prepared):
    image = np.full((16, 16, 3), (200, 60, 90), np.uint8)
    values = prepared("inception", [image] * 20, 8, 8, is_training=True)
    colours = np.round(values[:, 0, 0], 3)
    for channel in range(3):
        assert len(set(colours[:, channel])) > 10
    np.testing.assert_allclose(values, np.broadcast_to(values[:, :1, :1], values.shape), atol=1e-4)
