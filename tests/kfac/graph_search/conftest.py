"""One model, registered by hand or by the scanner, and the averages of its statistics."""

import zlib

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac.estimator import FisherEstimator

v1 = tf.compat.v1
BATCH = 8


class Model:
    """Makes weights and data with values that depend on names only, and registers by hand."""

    def __init__(self):
        self._layers = []

    def weight(self, name, *shape, **kwargs):
        return v1.get_variable(name, initializer=self.data(name, *shape) / 2, **kwargs)

    def data(self, name, *shape):
        values = np.random.RandomState(zlib.crc32(name.encode())).randn(*shape)
        return tf.constant(values.astype(np.float32))

    def register(self, method, *args, **kwargs):
        self._layers.append((method, args, kwargs))

    def register_in(self, collection):
        """Registers in the order of names: factors that layers share are named after the first."""
        for method, args, kwargs in sorted(self._layers, key=lambda layer: names(layer[1][0])):
            getattr(collection, f"register_{method}")(*args, **kwargs)


def names(params):
    return tuple(param.op.name for param in tf.nest.flatten(params))


def _averages(build, automatic):
    """Returns what the blocks are, by their parameters, and the values of all averages."""
    with tf.Graph().as_default(), v1.Session() as session:
        collection = kfac.LayerCollection()
        model = Model()
        outputs = build(model)
        outputs = tf.concat([tf.reshape(y, [BATCH, -1]) for y in outputs], axis=1)
        collection.register_squared_error_loss(outputs, name="outputs")
        if automatic:
            collection.auto_register_layers()
        else:
            model.register_in(collection)
        estimator = FisherEstimator(None, 0.9, 0.1, collection)
        update = estimator.make_cov_update_op()
        session.run(v1.global_variables_initializer())
        for _ in range(2):
            session.run(update)
        blocks = {
            names(key): (type(b), b.settings, b.describe())
            for key, b in collection.fisher_blocks.items()
        }
        return blocks, session.run({v.op.name: v for v in estimator.cov_variables})


@pytest.fixture
def assert_same_as_by_hand():
    """A function that averages statistics with both registrations and compares all bits.

    It takes a function of a `Model` that returns outputs, and registers layers on the way.
    """

    def check(build):
        by_hand, expected = _averages(build, automatic=False)
        found, values = _averages(build, automatic=True)
        assert found == by_hand
        assert sorted(values) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_array_equal(values[name], value, err_msg=name)
        factors = [name for name in values if name.endswith("/cov")]
        assert len(factors) >= len(by_hand)
        assert all(values[name].any() for name in factors)

    return check


@pytest.fixture
def scan(graph):
    """A function that registers layers for some outputs; returns the collection."""

    def scan(*outputs, **kwargs):
        collection = kfac.LayerCollection()
        for number, output in enumerate(outputs):
            collection.register_squared_error_loss(output, name=f"loss{number}")
        collection.auto_register_layers(**kwargs)
        return collection

    return scan


@pytest.fixture
def reason_of():
    """A function that returns what was decided about a parameter in a collection."""

    def find(collection, name):
        (text,) = [d.text for d in collection.decisions if name in names(d.params)]
        return text

    return find
