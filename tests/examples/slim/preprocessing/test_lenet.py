"""LeNet's images."""

import numpy as np


def test_values_go_from_minus_one_to_one(prepared):
    digit = np.random.RandomState(0).randint(0, 256, (8, 8, 1)).astype(np.uint8)
    digit[0, :2, 0] = 0, 255
    (value,) = prepared("lenet", [digit], 8, 8, is_training=True)
    np.testing.assert_allclose(value, digit / 127.5 - 1, atol=1e-5)
    assert (value.min(), value.max()) == (-1, 1)
