import numpy as np
import pytest
import tensorflow as tf


@pytest.mark.parametrize("towers", [1, 3])
def test_full(laboratory, towers):
    random = np.random.RandomState(0)
    lab = laboratory()
    params = lab.variable("a", [2, 2]), lab.variable("b", [3])
    for tower in range(towers):
        lab.collection.register_generic(params, 4, approx="full", reuse=tower > 0)
    sources = [[random.randn(2, 2), random.randn(3)] for _ in range(2)]
    block = lab.instantiate(sources, damping=0.2)
    flat = [np.concatenate([g.ravel() for g in source]) for source in sources]
    matrix = sum(np.outer(g, g) for g in flat) / (4 * towers)
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), matrix, rtol=1e-12)
    v = random.randn(7)
    expected = np.linalg.solve(matrix + 0.2 * np.eye(7), v)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-10)
    assert block.tensors_to_compute_grads() == params


def test_diagonal(laboratory):
    lab = laboratory()
    lab.collection.register_generic(lab.variable("a", [3]), tf.constant(2))
    gradient = np.array([1.0, 2.0, -4.0])
    block = lab.instantiate([[gradient]], damping=0.5)
    v = np.array([3.0, -1.0, 2.0])
    expected = v / (gradient**2 / 2 + 0.5)
    np.testing.assert_allclose(lab.product(block.multiply_inverse, v), expected, rtol=1e-12)
    assert block.describe() == "diagonal 3"


def test_batch_sizes_of_towers_known_at_run_time(laboratory):
    lab = laboratory()
    param = lab.variable("a", [1])
    for tower, size in enumerate((2, tf.constant(4))):
        lab.collection.register_generic(param, size, reuse=tower > 0)
    block = lab.instantiate([[np.array([6.0])]])
    np.testing.assert_allclose(lab.session.run(block.full_fisher_block()), [[6.0]])
