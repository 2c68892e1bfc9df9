"""Products against matrices that NumPy builds from Jacobians by finite differences."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
from kfac import CurvatureMatrixVectorProductComputer

v1 = tf.compat.v1

RANDOM = np.random.RandomState(0)
X = RANDOM.randn(5, 2)
W, TO_CLASSES, TO_NORMAL = RANDOM.randn(2, 3), RANDOM.randn(3, 3), RANDOM.randn(3, 2)
LABELS, VALUES, WEIGHTS = RANDOM.randint(0, 3, 5), RANDOM.randn(5, 1), RANDOM.rand(5)
CLASSES_COEFF, NORMAL_COEFF = 2.0, 3.0
SHAPES = [(2, 3), (3, 3), (3, 2)]
V = [RANDOM.randn(*shape) for shape in SHAPES]


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def unflatten(theta):
    ends = np.cumsum([np.prod(shape) for shape in SHAPES])
    parts = np.split(theta, ends[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, SHAPES, strict=True)]


def flatten(parts):
    return np.concatenate([np.ravel(part) for part in parts])


THETA = flatten([W, TO_CLASSES, TO_NORMAL])


def outputs(theta):
    """Logits, mean and variance, each by example."""
    w, to_classes, to_normal = unflatten(theta)
    h = np.tanh(X @ w)
    normal = h @ to_normal
    return h @ to_classes, normal[:, :1], np.exp(normal[:, 1:])


def numerical_jacobian(function, theta, step):
    columns = []
    for i in range(len(theta)):
        e = step * np.eye(len(theta))[i]
        columns.append((flatten(function(theta + e)) - flatten(function(theta - e))) / (2 * step))
    return np.stack(columns, axis=-1)


def total_loss(theta):
    logits, mean, variance = outputs(theta)
    classes = -np.log(softmax(logits))[np.arange(5), LABELS]
    normal = (VALUES - mean) ** 2 / (2 * variance) + np.log(2 * np.pi * variance) / 2
    return CLASSES_COEFF * classes @ WEIGHTS + NORMAL_COEFF * normal[:, 0] @ WEIGHTS


def numerical_hessian(theta, step=1e-3):
    """Of the total loss, to about step⁴."""

    def gradient(t):
        def first(h):
            return numerical_jacobian(lambda u: [total_loss(u)], t, h)[0]

        return (4 * first(step / 2) - first(step)) / 3

    return numerical_jacobian(lambda t: [gradient(t)], theta, step)


def true_fisher(heads):
    """Jᵀ c w F J from a numerical Jacobian."""
    logits, _mean, variance = outputs(THETA)
    jacobian = (
        4 * numerical_jacobian(outputs, THETA, 5e-4) - numerical_jacobian(outputs, THETA, 1e-3)
    ) / 3
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


def build(towers=1, heads=("classes", "normal")):
    """Returns a computer for the network `outputs`, with shares of the batch on towers."""
    collection = kfac.LayerCollection()
    initial = zip(("w", "to_classes", "to_normal"), (W, TO_CLASSES, TO_NORMAL), strict=True)
    variables = [v1.get_variable(name, initializer=tf.constant(value)) for name, value in initial]
    cuts = {1: [], 2: [2]}[towers]
    for tower, rows in enumerate(np.split(np.arange(5), cuts)):
        with v1.device(f"/cpu:{tower}"):
            h = tf.tanh(tf.matmul(tf.constant(X[rows]), variables[0]))
            logits, normal = tf.matmul(h, variables[1]), tf.matmul(h, variables[2])
            common = {"reuse": tower > 0, "weights": tf.constant(WEIGHTS[rows])}
            if "classes" in heads:
                targets = tf.constant(LABELS[rows])
                collection.register_categorical_predictive_distribution(
                    logits, targets=targets, name="classes", coeff=CLASSES_COEFF, **common
                )
            if "normal" in heads:
                mean, variance, targets = normal[:, :1], tf.exp(normal[:, 1:]), VALUES[rows]
                collection.register_normal_mean_variance_predictive_distribution(
                    mean,
                    variance,
                    targets=tf.constant(targets),
                    name="normal",
                    coeff=NORMAL_COEFF,
                    **common,
                )
    return CurvatureMatrixVectorProductComputer(collection, variables)


def run(session, tensors):
    session.run(v1.global_variables_initializer())
    return session.run(tensors)


def constants(arrays):
    return [tf.constant(array) for array in arrays]


@pytest.mark.parametrize(
    ("kind", "heads"), [("fisher", ("classes", "normal")), ("ggn", ("classes",))]
)
def test_products_and_factors(graph, session, kind, heads):
    computer = build(towers=2, heads=heads)
    product = getattr(computer, f"multiply_{kind}")(constants(V))
    inner = getattr(computer, f"multiply_{kind}_factor_transpose")(constants(V))
    twice = getattr(computer, f"multiply_{kind}_factor")(inner)
    expected = true_fisher(heads) @ flatten(V)
    for found in run(session, [product, twice]):
        np.testing.assert_allclose(flatten(found), expected, rtol=1e-8, atol=1e-9)


def test_hessian(graph, session):
    product = run(session, build(towers=2).multiply_hessian(constants(V)))
    expected = numerical_hessian(THETA) @ flatten(V)
    np.testing.assert_allclose(flatten(product), expected, rtol=1e-5, atol=1e-5)


def test_factor_and_its_transpose_are_adjoint(graph, session):
    computer = build(2)
    inner = constants([RANDOM.randn(*s) for s in computer.fisher_factor_inner_static_shapes])
    forward = computer.multiply_fisher_factor(inner)
    backward = computer.multiply_fisher_factor_transpose(constants(V))
    forward, backward, inner = run(session, [forward, backward, inner])
    np.testing.assert_allclose(flatten(forward) @ flatten(V), flatten(inner) @ flatten(backward))


def test_inner_shapes(graph, session):
    computer = build(2)
    static = [shape.as_list() for shape in computer.fisher_factor_inner_static_shapes]
    assert static == [[2, 3], [3, 3], [2, 2], [3, 2]]
    found = run(session, computer.fisher_factor_inner_shapes)
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
