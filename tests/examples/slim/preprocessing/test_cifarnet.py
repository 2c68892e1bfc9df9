"""CifarNet's images: standardized; in training shifted, mirrored and of other contrast."""

import numpy as np


def standardized(image):
    return (image - image.mean()) / image.std()


def test_evaluation_standardizes(prepared):
    image = np.random.RandomState(0).randint(0, 256, (32, 32, 3)).astype(np.uint8)
    (value,) = prepared("cifarnet", [image], 32, 32)
    np.testing.assert_allclose(value, standardized(image.astype(float)), atol=1e-4)


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


def test_an_even_image_becomes_zeros(prepared):
    (value,) = prepared("cifarnet", [np.full((8, 8, 3), 7, np.uint8)], 8, 8)
    np.testing.assert_allclose(value, 0, atol=1e-5)
