"""A network of its full width, built and counted but never run."""

import numpy as np
import pytest
import tensorflow as tf

from examples.slim.networks import factory

v1 = tf.compat.v1


class Built:
    """Shapes of a network's results, and sizes of its variables by name."""

    def __init__(self, name, size, channels, num_classes, **settings):
        self.network_fn = factory.get_network_fn(name, num_classes)
        images = v1.placeholder(tf.float32, [4, size, size, channels])
        self.logits, self.end_points = self.network_fn(images, **settings)
        self.trainable = {
            v.op.name.removeprefix(f"{name}/"): v.shape.as_list() for v in v1.trainable_variables()
        }
        self.shapes = {
            name: tuple(tensor.shape.as_list()[1:]) for name, tensor in self.end_points.items()
        }

    @property
    def parameters(self):
        return sum(int(np.prod(shape)) for shape in self.trainable.values())


@pytest.fixture
def build(graph):
    """A function that builds a network for images of a size; see `Built`."""
    return Built
