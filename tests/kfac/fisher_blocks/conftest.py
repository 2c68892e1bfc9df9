"""A block with known tensors, its factors made and updated once."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


class Laboratory:
    """Registers layers in one collection and runs the updates of all its blocks."""

    def __init__(self, session, update_factors, config=None):
        self.session = session
        self._update_factors = update_factors
        self.collection = kfac.LayerCollection(config=config)
        self._feed = {}

    def variable(self, name, shape, dtype="float64"):
        return v1.get_variable(name, shape, dtype)

    def instantiate(self, sources, damping=0.3, exponents=(-1,), cholesky=False):
        """Makes the only block's factors from gradients, for each source one list of arrays."""
        (block,) = self.collection.get_blocks()
        grads = [[tf.constant(g) for g in source] for source in sources]
        block.instantiate_factors(grads, damping)
        for exponent in exponents:
            block.register_matpower(exponent)
        if cholesky:
            block.register_cholesky()
            block.register_cholesky_inverse()
        block.check_shapes()
        self._update_factors(*block.factors)
        return block

    def product(self, multiply, vector, *args, **kwargs):
        """Runs a product; vectors and results are flat arrays."""
        (block,) = self.collection.get_blocks()
        params = block.params if isinstance(block.params, tuple) else (block.params,)
        sizes = np.cumsum([p.shape.num_elements() for p in params])[:-1]
        parts = np.split(vector, sizes)
        parts = [tf.constant(x.reshape(p.shape)) for x, p in zip(parts, params, strict=True)]
        value = tuple(parts) if isinstance(block.params, tuple) else parts[0]
        found = self.session.run(multiply(value, *args, **kwargs))
        found = found if isinstance(block.params, tuple) else (found,)
        for array, param in zip(found, params, strict=True):
            assert array.shape == tuple(param.shape)
        return np.concatenate([x.ravel() for x in found])


@pytest.fixture
def laboratory(session, update_factors):
    """A function that makes a laboratory in the current graph."""
    return lambda config=None: Laboratory(session, update_factors, config)
