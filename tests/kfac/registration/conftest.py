"""A layer collection, and parameters of two layers."""

import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


@pytest.fixture
def collection(graph):
    return kfac.LayerCollection()


@pytest.fixture
def weights(graph):
    return v1.get_variable("fc/w", [3, 2]), v1.get_variable("fc/b", [2])


@pytest.fixture
def kernel(graph):
    return v1.get_variable("conv/w", [5, 5, 1, 4])
