import numpy as np
import pytest
import tensorflow as tf

from replicate import BinaryClassHead

LOGITS = np.array([[45.0], [-41.0], [44.0]], np.float32)
LABELS = np.array([1, 1, 0])
FEATURES = {"w": np.array([1.0, 0.1, 1.5])}


def test_loss_is_cross_entropy(cross_entropy):
    labels, logits = [[1.0], [0.0], [0.3]], np.array([[2.0], [1.0], [-0.5]])
    losses, weights = cross_entropy(labels, logits), np.array([[2.0], [0.0], [1.0]])
    features = {"w": weights}
    assert float(BinaryClassHead().loss(labels, logits)) == pytest.approx(losses.mean())
    got = BinaryClassHead("w").loss(labels, logits, features)
    assert float(got) == pytest.approx(np.sum(weights * losses) / 3)
    got = BinaryClassHead("w", loss_reduction="sum").loss(
        labels, logits, features, regularization_losses=[tf.constant(1.5), tf.constant(2.0)]
    )
    assert float(got) == pytest.approx(np.sum(weights * losses) + 3.5)


def test_predictions():
    found = BinaryClassHead(label_vocabulary=["no", "yes"]).predictions([[1.0], [-2.0]])
    logistic = 1 / (1 + np.exp([[-1.0], [2.0]]))
    np.testing.assert_allclose(found["logistic"], logistic, rtol=1e-6)
    np.testing.assert_allclose(
        found["probabilities"], np.hstack([1 - logistic, logistic]), rtol=1e-6
    )
    of_classes = ["class_ids", "classes", "all_class_ids", "all_classes"]
    assert list(found) == ["logits", "logistic", "probabilities", *of_classes]
    assert found["classes"].numpy().tolist() == [[b"yes"], [b"no"]]
    assert found["all_classes"].numpy().tolist() == [[b"no", b"yes"]] * 2


def test_chosen_predictions():
    head = BinaryClassHead(name="age")
    assert list(head.predictions([[1.0]], ["classes", "logits"])) == ["logits", "classes"]
    with pytest.raises(ValueError, match=r"\['mean'\] of BinaryClassHead 'age': its predictions"):
        head.predictions([[1.0]], ["mean", "logits"])


def test_metrics(evaluated):
    head = BinaryClassHead("w", thresholds=[0.25])
    assert evaluated(head, (LABELS, LOGITS, FEATURES)) == pytest.approx(
        {
            "average_loss": (0 + 0.1 * 41 + 1.5 * 44) / 2.6,
            "accuracy": 1 / 2.6,
            "precision": 1 / 2.5,
            "recall": 1 / 1.1,
            "prediction/mean": 2.5 / 2.6,
            "label/mean": 1.1 / 2.6,
            "accuracy_baseline": 1.5 / 2.6,
            "auc": 0.45454565,
            "auc_precision_recall": 0.4010627,
            "accuracy/positive_threshold_0.25": 1 / 2.6,
            "precision/positive_threshold_0.25": 1 / 2.5,
            "recall/positive_threshold_0.25": 1 / 1.1,
        },
        rel=1e-5,
    )


def test_metrics_add_up_over_batches(evaluated):
    head = BinaryClassHead("w", name="age")
    whole = (LABELS, LOGITS, FEATURES)
    parts = [
        (LABELS[part], LOGITS[part], {"w": FEATURES["w"][part]})
        for part in (slice(0, 1), slice(1, 3))
    ]
    found = evaluated(head, *parts, regularization_losses=[tf.constant(3.0)])
    assert found.pop("regularization_loss/age") == 3
    assert found == pytest.approx(evaluated(head, whole))
    assert all(key.endswith("/age") for key in found)


def test_strings_are_looked_up():
    head = BinaryClassHead(label_vocabulary=["no", "yes"])
    strings = head.loss(["yes", "yes", "no"], LOGITS)
    assert float(strings) == pytest.approx(float(BinaryClassHead().loss(LABELS, LOGITS)))
    own = BinaryClassHead(
        label_vocabulary=["no", "yes"], loss_fn=lambda labels, logits: labels * 10 + logits
    )
    assert float(own.loss(["yes", "no"], [[1.0], [2.0]])) == 6.5


@pytest.mark.parametrize(
    ("head", "labels", "text"),
    [
        (BinaryClassHead(), ["yes", "no", "no"], r"type string, but must be numbers in \[0, 1\]"),
        (BinaryClassHead(label_vocabulary=["a", "b"]), LABELS, "int64, but must be strings"),
        (BinaryClassHead(), [0, 1, 2], "more than two classes, use MultiClassHead, or set n_cl"),
    ],
)
def test_wrong_labels_are_refused(head, labels, text):
    with pytest.raises(ValueError, match=text):
        head.loss(labels, LOGITS)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="make BinaryClassHead 'age': thresholds"):
        BinaryClassHead(thresholds=[2], name="age")
    with pytest.raises(ValueError, match=r"must be one of \['careful_.*, got 'trapezoids'\. Leave"):
        BinaryClassHead(auc_summation_method="trapezoids")
