"""Distances of made up images, against a count by hand."""

import numpy as np

from examples import gan_samples, mnist


def images(*values):
    return np.array(values, np.float32).reshape(-1, 1, 1, 1)


def test_distances_are_those_to_the_nearest():
    data = mnist.Dataset(
        "numbers",
        mnist.Examples(images(0.0, 10.0), np.zeros(2)),
        mnist.Examples(images(1.0, 6.0), np.zeros(2)),
    )
    found = gan_samples.distances(images(2.0, 9.0, 9.0), data)
    np.testing.assert_allclose(found["sample to image"], (2 + 1 + 1) / 3, rtol=1e-5)
    np.testing.assert_allclose(found["test to image"], (1 + 4) / 2, rtol=1e-5)
    np.testing.assert_allclose(found["test to sample"], (1 + 3) / 2, rtol=1e-5)
