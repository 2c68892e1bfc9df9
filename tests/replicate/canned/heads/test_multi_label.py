import numpy as np
import pytest
import tensorflow as tf

from replicate import MultiLabelHead

v1 = tf.compat.v1

LOGITS = np.array([[-1.0, 1.0, 0.5], [-1.5, 1.5, -2.0]], np.float32)
LABELS = np.array([[1, 0, 1], [0, 1, 0]])
WEIGHTS = np.array([[1.0], [3.0]])
NAMES = ["a", "b", "c"]


@pytest.fixture
def losses(cross_entropy):
    return cross_entropy(LABELS, LOGITS).mean(axis=-1, keepdims=True)


def test_loss_is_the_mean_over_classes(losses):
    assert float(MultiLabelHead(3).loss(LABELS, LOGITS)) == pytest.approx(losses.mean())
    head = MultiLabelHead(3, "w", loss_reduction="sum")
    got = head.loss(LABELS, LOGITS, {"w": WEIGHTS})
    assert float(got) == pytest.approx(np.sum(WEIGHTS * losses), rel=1e-6)


def test_labels_in_other_forms(losses):
    head = MultiLabelHead(3, label_vocabulary=NAMES)
    sparse_ids = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [2, 0, 1], [2, 2])
    for labels in (LABELS.astype(bool), sparse_ids):
        assert float(head.loss(labels, LOGITS)) == pytest.approx(losses.mean())


def test_sparse_names_in_a_graph(graph, losses):
    names = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], v1.placeholder(tf.string), [2, 2])
    loss = MultiLabelHead(3, label_vocabulary=NAMES).loss(names, LOGITS)
    with v1.Session() as session:
        session.run(v1.tables_initializer())
        got = session.run(loss, {names.values: ["c", "a", "b"]})
        assert got == pytest.approx(losses.mean(), rel=1e-6)
        with pytest.raises(tf.errors.InvalidArgumentError, match="unknown_labels"):
            session.run(loss, {names.values: ["c", "a", "z"]})


def test_metrics(evaluated, losses):
    head = MultiLabelHead(3, "w", thresholds=[0.3], classes_for_class_based_metrics=[2], name="m")
    p = 1 / (1 + np.exp(-LOGITS))
    weights = np.broadcast_to(WEIGHTS, [2, 3])
    positive = p > 0.3
    true_positives = np.sum(weights * positive * LABELS)
    assert (
        evaluated(head, (LABELS, LOGITS, {"w": WEIGHTS}))
        == pytest.approx(
            {
                "average_loss/m": np.average(losses, weights=WEIGHTS),
                "auc/m": 33 / 35,  # of the weights of pairs of a positive and a negative
                "auc_precision_recall/m": 0.918907,  # of the integral over all six thresholds
                "accuracy/positive_threshold_0.3/m": np.average(
                    positive == LABELS, weights=weights
                ),
                "precision/positive_threshold_0.3/m": true_positives / np.sum(weights * positive),
                "recall/positive_threshold_0.3/m": true_positives / np.sum(weights * LABELS),
                "probability_mean/class2/m": np.average(p[:, 2:], weights=WEIGHTS),
                "auc/class2/m": 1,
                "auc_precision_recall/class2/m": 1,
            },
            rel=1e-5,
        )
    )


def test_classes_with_metrics_by_name():
    head = MultiLabelHead(3, label_vocabulary=NAMES, classes_for_class_based_metrics=["c", "a"])
    kinds = ("probability_mean", "auc", "auc_precision_recall")
    wanted = [f"{kind}/{name}" for name in "ca" for kind in kinds]
    assert [key for key in head.metrics() if "/" in key] == wanted


def test_predictions():
    found = MultiLabelHead(3, label_vocabulary=NAMES).predictions(LOGITS)
    assert list(found) == ["logits", "probabilities", "classes"]
    np.testing.assert_allclose(found["probabilities"], 1 / (1 + np.exp(-LOGITS)), rtol=1e-6)
    assert found["classes"].numpy().tolist() == [[b"a", b"b", b"c"]] * 2


def test_wrong_labels_are_refused():
    for labels, text in (
        ([["a", "b", "c"]] * 2, "labels are a dense Tensor of strings"),
        (LABELS * 2, r"labels must be in \[0, 1\]\. Pass 1 for the classes of an example"),
        (LABELS[:, :2], r"must be \[D0, \.\.\., DN, 3\], .* \(2, 2\)"),
        (tf.SparseTensor([[0, 0]], [3], [2, 1]), r"in \[0, 2\]\. They are ids of classes"),
        (tf.SparseTensor([[0, 0]], [0.5], [2, 1]), "a SparseTensor of type float32"),
        (tf.SparseTensor([[0, 0]], ["a"], [2, 1]), "or strings with a label_vocabulary"),
    ):
        with pytest.raises(ValueError, match=text):
            MultiLabelHead(3).loss(labels, LOGITS)


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="MultiLabelHead: n_classes must be an integer ≥ 2, got 1"):
        MultiLabelHead(1)
    for wrong, names in ((3, None), (-1, NAMES), ("a", None), ("z", NAMES)):
        with pytest.raises(ValueError, match=rf"must be ids in \[0, 2\].*, got {wrong!r}\."):
            MultiLabelHead(3, label_vocabulary=names, classes_for_class_based_metrics=[wrong])
