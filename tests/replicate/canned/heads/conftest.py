"""A batch for the heads, and the formulas of their losses in NumPy."""

import numpy as np
import pytest


@pytest.fixture(scope="session")
def cross_entropy():
    """Sigmoid cross entropy of labels and logits of one shape."""

    def loss(labels, logits):
        p = 1 / (1 + np.exp(-np.asarray(logits, np.float64)))
        return -(np.asarray(labels) * np.log(p) + (1 - np.asarray(labels)) * np.log(1 - p))

    return loss


@pytest.fixture(scope="session")
def evaluated():
    """Evaluates a head eagerly on batches of (labels, logits, features): metrics by their keys."""

    def evaluate(head, *batches, regularization_losses=None):
        metrics = head.metrics(regularization_losses)
        for labels, logits, features in batches:
            updated = head.update_metrics(
                metrics, features, logits, labels, regularization_losses=regularization_losses
            )
            assert updated is metrics
        return {key: float(metric.result()) for key, metric in metrics.items()}

    return evaluate
