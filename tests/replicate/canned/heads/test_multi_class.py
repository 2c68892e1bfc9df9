import numpy as np
import pytest

from replicate import MultiClassHead

LOGITS = np.array([[1.0, 3.0, 2.0], [0.0, -1.0, 5.0], [2.0, 2.0, 0.0]], np.float32)
LABELS = np.array([1, 0, 2])
LOSSES = np.log(np.exp(LOGITS).sum(-1)) - LOGITS[range(3), LABELS]
WEIGHTS = np.array([1.0, 3.0, 0.0])


def test_loss_is_cross_entropy():
    assert float(MultiClassHead(3).loss(LABELS, LOGITS)) == pytest.approx(LOSSES.mean(), rel=1e-6)
    got = MultiClassHead(3, "w").loss(LABELS[:, None], LOGITS, {"w": WEIGHTS})
    assert float(got) == pytest.approx(np.sum(WEIGHTS * LOSSES) / 3, rel=1e-6)
    small = MultiClassHead(1000).loss(np.array([3], np.uint8), np.zeros([1, 1000]))
    assert float(small) == pytest.approx(np.log(1000))


def test_sequences_have_a_loss_for_each_step():
    logits, labels = np.stack([LOGITS, LOGITS]), np.stack([LABELS, LABELS])
    head = MultiClassHead(3, "w", loss_reduction="sum")
    got = head.loss(labels, logits, {"w": np.stack([WEIGHTS, 0 * WEIGHTS])})
    assert float(got) == pytest.approx(np.sum(WEIGHTS * LOSSES), rel=1e-6)
    assert head.predictions(logits)["class_ids"].shape == [2, 3, 1]


def test_predictions():
    found = MultiClassHead(3, label_vocabulary=["a", "b", "c"]).predictions(LOGITS)
    expected = np.exp(LOGITS) / np.exp(LOGITS).sum(-1, keepdims=True)
    np.testing.assert_allclose(found["probabilities"], expected, rtol=1e-6)
    assert found["class_ids"].dtype.name == "int64"
    assert found["class_ids"].numpy().tolist() == [[1], [2], [0]]
    assert found["classes"].numpy().tolist() == [[b"b"], [b"c"], [b"a"]]
    assert found["all_class_ids"].numpy().tolist() == [[0, 1, 2]] * 3
    assert found["all_classes"].numpy().tolist() == [[b"a", b"b", b"c"]] * 3
    assert "logistic" not in found


def test_metrics(evaluated):
    head = MultiClassHead(3, "w", name="kind")
    assert evaluated(head, (LABELS, LOGITS, {"w": WEIGHTS})) == pytest.approx(
        {"average_loss/kind": np.average(LOSSES, weights=WEIGHTS), "accuracy/kind": 1 / 4}
    )


@pytest.mark.parametrize(
    ("vocabulary", "labels", "text"),
    [
        (None, [0, 1, 3], r"labels must be in \[0, 2\]\. Raise n_classes"),
        (None, [0.0, 1.0, 2.0], "type float32, but must be integers"),
        (None, ["a", "b", "c"], "pass label_vocabulary for strings"),
        (["a", "b", "c"], LABELS, "must be strings, since there is a label_vocabulary"),
    ],
)
def test_wrong_labels_and_numbers_of_classes_are_refused(vocabulary, labels, text):
    with pytest.raises(ValueError, match=text):
        MultiClassHead(3, label_vocabulary=vocabulary).loss(labels, LOGITS)
    for wrong in (None, 2, 3.0, True):
        with pytest.raises(ValueError, match="MultiClassHead: n_classes must be an integer ≥ 3"):
            MultiClassHead(wrong)
