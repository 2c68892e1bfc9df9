"""Images of VGG and residual networks: windows that keep the ratio of sides, less the mean."""

import numpy as np
import pytest

from examples.slim.preprocessing import vgg


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
