import numpy as np
import pytest
import tensorflow as tf

from kfac import utils

v1 = tf.compat.v1


@pytest.fixture
def pairs(graph):
    """Two vectors [2, 3] and [2], as pairs with their variables, and as flat arrays."""
    variables = [v1.get_variable("a", [2, 3]), v1.get_variable("b", [2])]
    random = np.random.RandomState(0)
    arrays = [[random.randn(*v.shape).astype("f") for v in variables] for _ in range(2)]
    made = [[(tf.constant(x), v) for x, v in zip(xs, variables, strict=True)] for xs in arrays]
    return *made, *(np.concatenate([x.ravel() for x in xs]) for xs in arrays)


def flat(session, parts):
    return np.concatenate([x.ravel() for x in session.run(list(parts))])


def test_products_and_sums(pairs, session):
    x, y, flat_x, flat_y = pairs
    products = session.run([utils.ip_p(x, y), utils.ip([p for p, _ in x], [p for p, _ in y])])
    np.testing.assert_allclose(products, [flat_x @ flat_y] * 2, rtol=1e-6)
    scaled = utils.sprod_p(tf.constant(-0.5), x)
    sums = utils.sum_p(scaled, y)
    assert [v for _, v in sums] == [v for _, v in scaled] == [v for _, v in x]
    np.testing.assert_allclose(flat(session, [p for p, _ in scaled]), -0.5 * flat_x)
    np.testing.assert_allclose(
        flat(session, [p for p, _ in sums]), flat_y - 0.5 * flat_x, rtol=1e-5, atol=1e-7
    )
    parts = utils.sum_(utils.sprod(2.0, [p for p, _ in x]), [p for p, _ in y])
    np.testing.assert_allclose(flat(session, parts), 2 * flat_x + flat_y, rtol=1e-5)


def test_generators_and_sparse_parts(pairs, session):
    x, y, flat_x, flat_y = pairs
    weight = x[0][1]
    rows = tf.IndexedSlices(x[0][0][1:], tf.constant([1]), tf.constant([2, 3]))
    product = utils.ip_p(iter([(rows, weight)]), iter(y[:1]))
    total = utils.sum_p([(rows, weight)], y[:1])[0][0]
    found, expected = session.run([product, total]), [[0] * 3, flat_x[3:6]]
    np.testing.assert_allclose(found[0], flat_x[3:6] @ flat_y[3:6], rtol=1e-5)
    np.testing.assert_allclose(found[1], np.add(flat_y[:6].reshape(2, 3), expected))


def test_other_variables(pairs):
    x, y, *_ = pairs
    for combine in (utils.ip_p, utils.sum_p):
        with pytest.raises(ValueError, match=r"different variables: a, b, and b, a. Both must"):
            combine(x, y[::-1])
