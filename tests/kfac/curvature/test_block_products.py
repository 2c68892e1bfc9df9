import types

import numpy as np
import pytest
import tensorflow as tf

from kfac.curvature.block_products import (
    ServedFunctions,
    identity_product,
    join_blocks,
    split_into_blocks,
)
from kfac.linalg.damped_functions import INVERSE, ITSELF, Cholesky, CholeskyInverse, Power

v1 = tf.compat.v1


@pytest.fixture
def variables(graph):
    return [v1.get_variable(name, [2]) for name in ("w", "b", "other")]


@pytest.fixture
def blocks(variables):
    w, b, other = variables
    return [types.SimpleNamespace(params=(w, b)), types.SimpleNamespace(params=other)]


def test_vectors_are_sorted_into_blocks_and_back(blocks, variables):
    w, b, other = variables
    pairs = [("for other", other), ("for b", b), ("for w", w)]
    vectors = split_into_blocks(blocks, pairs)
    assert vectors == [("for w", "for b"), "for other"]
    assert join_blocks(blocks, vectors, [other, b, w]) == pairs


def test_sparse_vectors_pass_through(blocks, variables):
    *_, other = variables
    sparse = tf.IndexedSlices(tf.ones([1, 2]), tf.constant([1]))
    (vector,) = split_into_blocks(blocks[1:], [(sparse, other)])
    ((product, _),) = join_blocks(blocks[1:], [vector], [other])
    assert product is sparse


def test_missing_vectors(blocks, variables):
    with pytest.raises(ValueError, match=r"there are no vectors for w, other\. Pass"):
        split_into_blocks(blocks, [(tf.ones([2]), variables[1])])


@pytest.mark.parametrize(
    ("function", "factor"), [(ITSELF, 4.0), (INVERSE, 0.25), (Cholesky(), 2.0)]
)
def test_product_of_a_block_without_inverse(session, function, factor):
    for has_inverse in (False, True):
        block = types.SimpleNamespace(
            has_inverse=lambda known=has_inverse: tf.constant(known),
            identity_eigenvalue=lambda: tf.constant(4.0),
        )
        vector = tf.constant([1.0, 2.0]), tf.constant([3.0])
        start = identity_product(block, function, vector)
        own = tf.zeros([2]), tf.zeros([1])
        w, b = session.run(start.unless_computed(own))
        expected = np.zeros(3) if has_inverse else factor * np.array([1, 2, 3])
        np.testing.assert_allclose(np.hstack([w, b]), expected)


def test_served_functions_keep_their_order():
    served = ServedFunctions((-1, 0.5), True, True, (Power(3),))
    assert served.all == (INVERSE, Power(0.5), Cholesky(), CholeskyInverse(), Power(3))
    served.check(Power(3), "Estimator")
    served.check(ITSELF, "Estimator")


def test_unserved_function_names_the_argument():
    served = ServedFunctions((-1,), False, True, ())
    with pytest.raises(ValueError, match=r"Estimator does not serve products with the power 0.5"):
        served.check(Power(0.5), "Estimator")
    with pytest.raises(ValueError, match=r"exps=\(-1,\).*Make it with compute_cholesky=True\."):
        served.check(Cholesky(), "Estimator")
