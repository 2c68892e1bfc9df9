"""Images of Inception and MobileNet: a stretched part, with other colours, from -1 to 1."""

import numpy as np


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


def test_gray_images_change_in_brightness_only(prepared):
    image = np.full((16, 16, 1), 128, np.uint8)
    values = prepared("inception", [image] * 20, 8, 8, is_training=True)[:, 0, 0, 0]
    assert np.ptp(values) > 0.1
    np.testing.assert_allclose(values, 0, atol=2 * 32 / 255 + 0.01)
