import math

import numpy as np
import pytest
import tensorflow as tf

from replicate import LogisticRegressionHead, PoissonRegressionHead, RegressionHead

LOGITS = np.array([[1.0, 0.5], [2.0, -1.0]], np.float32)
LABELS = np.array([[3, 0], [1, 5]])
WEIGHTS = np.array([[1.0], [3.0]])


def test_loss_is_the_squared_error():
    head = RegressionHead(2, "w", loss_reduction="sum")
    expected = np.sum(WEIGHTS * (LOGITS - LABELS) ** 2)
    assert float(head.loss(LABELS, LOGITS, {"w": WEIGHTS})) == pytest.approx(expected)
    assert float(RegressionHead().loss([1, 2], [[3.0], [5.0]])) == (4 + 9) / 2
    weights = np.array([[1.0, 2.0], [0.0, 4.0]])  # One for each dimension.
    got = RegressionHead(2, "w").loss(LABELS, LOGITS, {"w": weights})
    assert float(got) == pytest.approx(np.mean(weights * (LOGITS - LABELS) ** 2))
    own = RegressionHead(2, loss_fn=lambda labels, logits: abs(labels - logits))
    assert float(own.loss(LABELS, LOGITS)) == pytest.approx(np.abs(LABELS - LOGITS).mean())


def test_metrics(evaluated):
    head = RegressionHead(2, "w", name="r")
    both = np.broadcast_to(WEIGHTS, [2, 2])
    assert evaluated(head, (LABELS, LOGITS, {"w": WEIGHTS})) == pytest.approx(
        {
            "average_loss/r": np.average((LOGITS - LABELS) ** 2, weights=both),
            "prediction/mean/r": np.average(LOGITS, weights=both),
            "label/mean/r": np.average(LABELS, weights=both),
        }
    )


def test_predictions_are_the_logits_or_their_inverse_link():
    assert list(RegressionHead(2).predictions(LOGITS)) == ["predictions"]
    found = RegressionHead(2, inverse_link_fn=lambda x: x * 2).predictions(LOGITS)
    assert found["predictions"].numpy().tolist() == (2 * LOGITS).tolist()
    assert found["logits"].numpy().tolist() == LOGITS.tolist()


def test_poisson_regression():
    likelihood = np.exp(LOGITS) - LABELS * LOGITS
    head = PoissonRegressionHead(2, compute_full_loss=False)
    assert float(head.loss(LABELS, LOGITS)) == pytest.approx(likelihood.mean(), rel=1e-6)
    stirling = [
        z * math.log(z) - z + math.log(2 * math.pi * z) / 2 if z > 1 else 0 for z in LABELS.ravel()
    ]
    expected = likelihood.mean() + np.mean(stirling)
    head = PoissonRegressionHead(2)
    assert float(head.loss(LABELS, LOGITS)) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(head.predictions(LOGITS)["predictions"], np.exp(LOGITS), rtol=1e-6)


def test_logistic_regression(cross_entropy, evaluated):
    labels, logits = np.array([[0.2], [1.0]]), np.array([[0.5], [-1.0]])
    head = LogisticRegressionHead()
    losses, p = cross_entropy(labels, logits), 1 / (1 + np.exp(-logits))
    assert float(head.loss(labels, logits)) == pytest.approx(losses.mean())
    np.testing.assert_allclose(head.predictions(logits)["predictions"], p, rtol=1e-6)
    assert evaluated(head, (labels, logits, {})) == pytest.approx(
        {"average_loss": losses.mean(), "prediction/mean": p.mean(), "label/mean": 0.6}
    )
    with pytest.raises(ValueError, match=r"LogisticRegressionHead: labels must be in \[0, 1\]"):
        head.loss([0.5, 2.0], logits)


def test_wrong_arguments_and_labels_are_refused():
    for kind in (RegressionHead, PoissonRegressionHead):
        with pytest.raises(ValueError, match=rf"{kind.__name__}: label_dimension must be ≥ 1, got"):
            kind(0)
    with pytest.raises(TypeError, match="RegressionHead: inverse_link_fn must be a function"):
        RegressionHead(inverse_link_fn="exp")
    with pytest.raises(TypeError, match="PoissonRegressionHead 'n': weight_column must be"):
        PoissonRegressionHead(weight_column=3, name="n")
    with pytest.raises(ValueError, match="loss_reduction is 'none'"):
        LogisticRegressionHead(loss_reduction=tf.losses.Reduction.NONE)
    with pytest.raises(ValueError, match="RegressionHead: labels are strings, but must be numbers"):
        RegressionHead().loss(["1", "2"], [[1.0], [2.0]])
    with pytest.raises(ValueError, match=r"must be \[D0, \.\.\., DN, 2\], for .* \(2, 3\)"):
        RegressionHead(2).loss(np.ones([2, 3]), LOGITS)
