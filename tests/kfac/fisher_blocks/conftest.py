"""Blocks with known tensors, their factors made and updated once, and their products in NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import kfac

v1 = tf.compat.v1


def as_tuple(params):
    return params if isinstance(params, tuple) else (params,)


class Laboratory:
    """Registers layers in one collection and runs the updates of all its blocks."""

    def __init__(self, session, update_factors, config=None):
        self.session = session
        self._update_factors = update_factors
        self.collection = kfac.LayerCollection(config=config)

    def variable(self, name, shape, dtype="float64"):
        return v1.get_variable(name, shape, dtype)

    def register(self, method, x, g, towers=1):
        """Registers slices of two arrays, one per tower; returns the slices of the second."""
        cuts = {1: (), 3: (1, 3)}[towers]
        parts = np.split(x, cuts), np.split(g, cuts)
        for tower, (a, b) in enumerate(zip(*parts, strict=True)):
            method(tf.constant(a), tf.constant(b), reuse=tower > 0)
        return parts[1]

    def instantiate(self, sources, damping=0.3, exponents=(-1,), cholesky=False):
        """Makes the only block's factors from gradients, for each source one list of arrays."""
        (block,) = self.collection.get_blocks()
        grads = [[tf.convert_to_tensor(g) for g in source] for source in sources]
        block.instantiate_factors(grads, damping)
        for exponent in exponents:
            block.register_matpower(exponent)
        if cholesky:
            block.register_cholesky()
            block.register_cholesky_inverse()
        block.check_shapes()
        self._update_factors(*block.factors)
        return block

    def products(self, calls, vector):
        """Calls functions with a flat vector, in the shapes of the parameters; returns arrays."""
        (block,) = self.collection.get_blocks()
        params = as_tuple(block.params)
        sizes = np.cumsum([p.shape.num_elements() for p in params])[:-1]
        parts = np.split(vector, sizes)
        parts = [tf.constant(x.reshape(p.shape)) for x, p in zip(parts, params, strict=True)]
        value = tuple(parts) if isinstance(block.params, tuple) else parts[0]
        products = self.session.run([as_tuple(call(value)) for call in calls])
        shapes = [tuple(param.shape) for param in params]
        assert all([part.shape for part in product] == shapes for product in products)
        return [np.concatenate([part.ravel() for part in product]) for product in products]

    def product(self, call, vector):
        """Calls one function with a flat vector; returns a flat array."""
        return self.products([call], vector)[0]

    def check_functions(self, block, damped, exponents=(-1, -0.5, 1)):
        """Compares products with all functions of a block with those of its damped matrix."""
        v = np.random.RandomState(1).randn(len(damped))
        values, basis = np.linalg.eigh(damped)
        root = np.linalg.cholesky(damped)
        inverse = np.linalg.inv(root)
        cases = [
            (block.multiply_inverse, np.linalg.inv(damped)),
            (block.multiply, damped),
            (block.multiply_cholesky, root),
            (lambda v: block.multiply_cholesky(v, transpose=True), root.T),
            (block.multiply_cholesky_inverse, inverse),
            (lambda v: block.multiply_cholesky_inverse(v, transpose=True), inverse.T),
        ]
        for e in exponents:
            power = (basis * values**e) @ basis.T
            cases.append((lambda v, e=e: block.multiply_matpower(v, e), power))
        found = self.products([call for call, _ in cases], v)
        np.testing.assert_allclose(found, [matrix @ v for _, matrix in cases], rtol=1e-9)

    def check_kronecker(self, block, a, g, times=1):
        """Compares a block, and its inverse with damping 0.3, with T·A⊗G."""
        full = self.session.run(block.full_fisher_block())
        np.testing.assert_allclose(full, times * np.kron(a, g), rtol=1e-10, atol=1e-12)
        v = np.random.RandomState(1).randn(len(full))
        expected = damped_solution(a, g, v, times)
        np.testing.assert_allclose(self.product(block.multiply_inverse, v), expected, rtol=1e-8)


def damped_solution(a, g, v, times=1):
    """(T·A⊗G)⁻¹ v, when each factor is damped with its share of 0.3 / T."""
    pi, root = np.sqrt(np.trace(a) / len(a) / (np.trace(g) / len(g))), np.sqrt(0.3 / times)
    a, g = a + pi * root * np.eye(len(a)), g + root / pi * np.eye(len(g))
    return np.linalg.solve(times * np.kron(a, g), v)


@pytest.fixture
def laboratory(session, update_factors):
    """A function that makes a laboratory in the current graph."""
    return lambda config=None: Laboratory(session, update_factors, config)


@pytest.fixture(scope="session")
def moment():
    """A function of rows: their second moment."""
    return lambda rows: rows.T @ rows / len(rows)


@pytest.fixture(scope="session")
def solution():
    """A function of (A, G, v, T): the product with the damped inverse, in NumPy."""
    return damped_solution


@pytest.fixture
def made_ops(graph):
    """Returns what a function makes, and the types of its operations but for numbers."""

    def made(make):
        before = set(graph.get_operations())
        result = make()
        new = [op for op in graph.get_operations() if op not in before]
        types = (op.type for op in new if "kfac/constant/" not in op.name)
        return result, sorted(t for t in types if t != "Const")

    return made
