"""Errors of `register_positionwise`, and of methods that know no positions."""

import re

import pytest
import tensorflow as tf

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("inputs", "outputs", "options", "message"),
    [
        ([[4, 3, 2]], [[4, 3, 5]] * 2, {}, "inputs, outputs and masks are ['(4, 3, 2)'], ["),
        ([[4, 3, 2]], [[4, 3, 5]], {"mask": [3, 4]}, "the examples come first"),
        ([[4, 3, 2], [3, 3, 2]], [[4, 3, 5], [3, 3, 5]], {}, "the same in all places"),
        ([[2]], [[5]], {}, "the shapes of its inputs"),
        ([[4, 3, 3]], [[4, 3, 5]], {}, "its weight has shape [2, 5], and its inputs have 3 feat"),
        ([[4, 3, 2]], [[4, 3, 5]], {"approx": "kron"}, "Accepted are 'kron_expand', 'kron_reduce'"),
    ],
)
def test_errors(collection, inputs, outputs, options, message):
    if "mask" in options:
        options = {"mask": tf.ones(options["mask"])}
    weight = v1.get_variable("w", [2, 5])
    tensors = ([tf.ones(shape) for shape in shapes] for shapes in (inputs, outputs))
    with pytest.raises(ValueError, match=re.escape(message)):
        collection.register_positionwise(weight, *tensors, **options)
    assert not collection.fisher_blocks


def test_reduce_needs_positions(collection):
    weight, x, y = v1.get_variable("w", [2, 5]), tf.ones([3, 4, 2]), tf.ones([3, 4, 5])
    with pytest.raises(
        ValueError, match=r"'w' with approx='kron_reduce' by its uses.*positionwise"
    ):
        collection.register_fully_connected_multi(weight, x, y, approx="kron_reduce")
