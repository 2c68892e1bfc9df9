"""Products against matrices of Jacobians and second derivatives."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import CurvatureMatrixVectorProductComputer

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(5, 2)
SHAPES = [(2, 3), (3, 3), (3, 2)]
THETA, V = RANDOM.randn(2, 21)
LABELS, VALUES, WEIGHTS = RANDOM.randint(0, 3, 5), RANDOM.randn(5, 1), RANDOM.rand(5)
CLASSES_COEFF, NORMAL_COEFF = 2.0, 3.0


def outputs(theta, x):
    """Logits, mean and variance, each by example."""
    parts = zip(tf.split(theta, [6, 9, 6]), SHAPES, strict=True)
    w, to_classes, to_normal = (tf.reshape(part, shape) for part, shape in parts)
    h = tf.tanh(tf.matmul(tf.constant(x), w))
    normal = tf.matmul(h, to_normal)
    return tf.matmul(h, to_classes), normal[:, :1], tf.exp(normal[:, 1:])


def total_loss(theta):
    logits, mean, variance = outputs(theta, X)
    classes = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=LABELS, logits=logits)
    normal = (VALUES - mean) ** 2 / (2 * variance) + tf.math.log(2 * np.pi * variance) / 2
    return tf.reduce_sum(CLASSES_COEFF * classes * WEIGHTS + NORMAL_COEFF * normal[:, 0] * WEIGHTS)


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def true_fisher(session, theta, heads):
    """Jᵀ c w F J from the Jacobian of all outputs."""
    logits, mean, variance = outputs(theta, X)
    flat = tf.unstack(tf.concat([tf.reshape(x, [-1]) for x in (logits, mean, variance)], 0))
    jacobian = tf.stack([v1.gradients(each, theta)[0] for each in flat])
    jacobian, logits, variance = session.run([jacobian, logits, variance])
    of_outputs = np.zeros([len(jacobian)] * 2)
    for n in range(5):
        p, rows = softmax(logits[n]), slice(3 * n, 3 * n + 3)
        if "classes" in heads:
            fisher = np.diag(p) - np.outer(p, p)
            of_outputs[rows, rows] = CLASSES_COEFF * WEIGHTS[n] * fisher
        if "normal" in heads:
            scale = NORMAL_COEFF * WEIGHTS[n]
            of_outputs[15 + n, 15 + n] = scale / variance[n, 0]
            of_outputs[20 + n, 20 + n] = scale / (2 * variance[n, 0] ** 2)
    return jacobian.T @ of_outputs @ jacobian


@pytest.fixture
def build(session):
    """A function that returns θ and a computer, with shares of the batch on two towers."""

    def build(heads=("classes", "normal")):
        theta, layers = v1.get_variable("theta", initializer=THETA), kfac.LayerCollection()
        for tower, rows in enumerate((slice(2), slice(2, 5))):
            common = {"reuse": tower > 0, "weights": tf.constant(WEIGHTS[rows])}
            with v1.device(f"/cpu:{tower}"):
                logits, mean, variance = outputs(theta, X[rows])
                if "classes" in heads:
                    of_classes = {"targets": tf.constant(LABELS[rows]), "coeff": CLASSES_COEFF}
                    layers.register_categorical_predictive_distribution(
                        logits, name="classes", **of_classes, **common
                    )
                if "normal" in heads:
                    of_normal = {"targets": tf.constant(VALUES[rows]), "coeff": NORMAL_COEFF}
                    layers.register_normal_mean_variance_predictive_distribution(
                        mean, variance, name="normal", **of_normal, **common
                    )
        session.run(theta.initializer)
        return theta, CurvatureMatrixVectorProductComputer(layers, [theta])

    return build


@pytest.mark.parametrize(
    ("kind", "heads"), [("fisher", ("classes", "normal")), ("ggn", ("classes",))]
)
def test_products_and_factors(build, session, kind, heads):
    theta, computer = build(heads)
    product = getattr(computer, f"multiply_{kind}")([tf.constant(V)])
    inner = getattr(computer, f"multiply_{kind}_factor_transpose")([tf.constant(V)])
    twice = getattr(computer, f"multiply_{kind}_factor")(inner)
    expected = true_fisher(session, theta, heads) @ V
    for (found,) in session.run([product, twice]):
        np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_hessian(build, session):
    theta, computer = build()
    (found,), (hessian,) = session.run(
        [computer.multiply_hessian([tf.constant(V)]), v1.hessians(total_loss(theta), theta)]
    )
    np.testing.assert_allclose(found, hessian @ V, rtol=1e-8, atol=1e-9)


def test_inner_shapes(build, session):
    _, computer = build()
    static = [shape.as_list() for shape in computer.fisher_factor_inner_static_shapes]
    assert static == [[2, 3], [3, 3], [2, 2], [3, 2]]
    found = session.run(computer.fisher_factor_inner_shapes)
    assert [list(shape) for shape in found] == static
    computer = CurvatureMatrixVectorProductComputer(one_loss(tf.zeros([4, 3])), [])
    assert [shape.as_list() for shape in computer.ggn_factor_inner_static_shapes] == [[4, 3]]
    assert [list(shape) for shape in session.run(computer.ggn_factor_inner_shapes)] == [[4, 3]]


def one_loss(logits):
    collection = kfac.LayerCollection()
    collection.register_softmax_cross_entropy_loss(logits)
    return collection


def test_tensors_are_taken_as_independent(graph, session):
    a = tf.constant([[1.0, 2.0]])
    b = 3 * a
    collection = kfac.LayerCollection()
    collection.register_squared_error_loss(a + b)
    computer = CurvatureMatrixVectorProductComputer(collection, [a, b])
    found = session.run(computer.multiply_fisher([tf.ones([1, 2]), tf.zeros([1, 2])]))
    np.testing.assert_array_equal(found, np.full([2, 1, 2], 2.0))


def test_tensor_that_no_loss_depends_on(graph, session):
    x, other = tf.constant([[1.0, 2.0]]), tf.constant([5.0])
    computer = CurvatureMatrixVectorProductComputer(one_loss(2 * x), [x, other])
    found = session.run(computer.multiply_fisher([tf.constant([[1.0, 0.0]]), tf.constant([1.0])]))
    p = softmax(np.array([2.0, 4.0]))
    np.testing.assert_allclose(found[0], [4 * p[0] * p[1] * np.array([1, -1])], rtol=1e-5)
    np.testing.assert_array_equal(found[1], [0.0])


def test_hessian_needs_targets(graph):
    x = tf.zeros([1, 2])
    with pytest.raises(ValueError, match=r"it has no targets"):
        CurvatureMatrixVectorProductComputer(one_loss(x), [x]).multiply_hessian([x])
