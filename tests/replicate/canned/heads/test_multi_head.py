import numpy as np
import pytest
import tensorflow as tf

from replicate import (
    BinaryClassHead,
    ModeKeys,
    MultiClassHead,
    MultiHead,
    PoissonRegressionHead,
    RegressionHead,
)

v1 = tf.compat.v1

_random = np.random.default_rng(0)
LOGITS = _random.normal(size=[4, 4]).astype(np.float32)
SPLIT = {"kind": LOGITS[:, :3], "size": LOGITS[:, 3:]}
LABELS = {"kind": np.array([0, 2, 1, 0]), "size": np.array([1.0, -1.0, 0.5, 2.0], np.float32)}


def make_head(weights=(2.0, 0.5), reduction="sum_over_batch_size"):
    return MultiHead(
        [
            MultiClassHead(3, loss_reduction=reduction, name="kind"),
            RegressionHead(loss_reduction=reduction, name="size"),
        ],
        weights,
    )


@pytest.fixture(scope="module")
def losses():
    """Losses of the single heads, and their weighted sum as "merged"."""
    found = {
        name: float(head.loss(LABELS[name], SPLIT[name]))
        for name, head in {"kind": MultiClassHead(3), "size": RegressionHead()}.items()
    }
    return {**found, "merged": 2.0 * found["kind"] + 0.5 * found["size"]}


def test_loss_is_the_weighted_sum(losses):
    assert float(make_head().loss(LABELS, LOGITS)) == pytest.approx(losses["merged"])
    extra = [tf.constant(0.5), tf.constant(1.0)]
    got = make_head(None).loss(LABELS, SPLIT, regularization_losses=extra)
    assert float(got) == pytest.approx(losses["kind"] + losses["size"] + 1.5)


def test_predictions_have_pairs_as_keys():
    head = make_head()
    assert (head.name, head.logits_dimension) == ("kind_size", 4)
    found = head.predictions(LOGITS)
    expected = MultiClassHead(3).predictions(SPLIT["kind"])
    assert list(found) == [*(("kind", key) for key in expected), ("size", "predictions")]
    np.testing.assert_array_equal(found["kind", "class_ids"], expected["class_ids"])
    np.testing.assert_array_equal(found["size", "predictions"], SPLIT["size"])
    assert list(head.predictions(LOGITS, [("kind", "classes")])) == [("kind", "classes")]
    with pytest.raises(ValueError, match=r"\['classes'\] of MultiHead 'kind_size': its"):
        head.predictions(LOGITS, ["classes"])
    sequences = head.predictions(np.stack([LOGITS, LOGITS]))
    assert sequences["size", "predictions"].shape == [2, 4, 1]


def test_metrics_are_those_of_the_heads_and_their_losses(evaluated, losses):
    found = evaluated(
        make_head(),
        (LABELS, LOGITS, {}),
        (LABELS, SPLIT, {}),
        regularization_losses=[tf.constant(2.0)],
    )
    classes = MultiClassHead(3, name="kind")
    regression = RegressionHead(name="size")
    assert found == pytest.approx(
        {
            **evaluated(classes, (LABELS["kind"], SPLIT["kind"], {})),
            **evaluated(regression, (LABELS["size"], SPLIT["size"], {})),
            "loss/kind": losses["kind"],
            "loss/size": losses["size"],
            "regularization_loss/kind_size": 2.0,
        }
    )


@pytest.mark.parametrize(
    ("reduction", "towers"),
    [("sum_over_batch_size", 3), pytest.param("sum", 2, marks=pytest.mark.broad)],
)
def test_several_towers_equal_one(check_towers, reduction, towers):
    old = {"sum": v1.losses.Reduction.SUM}.get(reduction, v1.losses.Reduction.MEAN)
    check_towers(make_head(reduction=reduction), {"x": LOGITS}, LABELS, old, towers)


def test_train_spec(graph, losses):
    spec = make_head().create_estimator_spec(
        {},
        ModeKeys.TRAIN,
        tf.constant(LOGITS),
        LABELS,
        train_op_fn=tf.identity,
        regularization_losses=[tf.constant(3.0)],
    )
    with v1.Session() as session:
        assert session.run(spec.train_op) == pytest.approx(losses["merged"] + 3)
        written = v1.Summary.FromString(session.run(v1.summary.merge_all()))
    assert {value.tag: value.simple_value for value in written.value} == pytest.approx(
        {
            "loss": losses["merged"] + 3,
            "regularization_loss": 3.0,
            "loss/kind": losses["kind"],
            "loss/size": losses["size"],
        }
    )


def test_predict_spec_has_the_signatures_of_all_heads(graph):
    spec = make_head().create_estimator_spec(None, ModeKeys.PREDICT, tf.constant(LOGITS))
    outputs = spec.export_outputs
    own = {"kind/classification", "kind/predict", "size/predict", "size/regression"}
    assert set(outputs) == {"kind", "predict", "serving_default", "size"} | own
    assert outputs["serving_default"] is outputs["kind"]
    assert "kind/probabilities" in outputs["predict"].outputs
    assert outputs["size"].value is spec.predictions["size", "predictions"]


def test_curvature_of_the_losses():
    first, second = make_head().curvature_losses(LOGITS)
    assert (first.kind, first.coefficient, first.name) == ("categorical", 2.0, "kind")
    assert (second.kind, second.coefficient, second.name) == ("squared_error", 0.5, "size")
    unknown = MultiHead([PoissonRegressionHead(name="p"), RegressionHead(name="r")])
    assert unknown.curvature_losses(LOGITS[:, :2]) is None


@pytest.mark.parametrize(
    ("heads", "weights", "text"),
    [
        ([], None, r"it needs one or more heads, .* got heads \[\]"),
        ([BinaryClassHead()], None, r"with the names \[None\]\. Pass name="),
        ([BinaryClassHead(name="a"), RegressionHead(name="a")], None, r"the names \['a', 'a'\]"),
        ([BinaryClassHead(name="a")], [1, 2], "2 weights, but there are 1 heads"),
        ([BinaryClassHead(name="a"), RegressionHead(name="b", loss_reduction="sum")], None,
         r"differ in loss_reduction, \{'a': 'sum_over_batch_size', 'b': 'sum'\}"),
    ],
)  # fmt: skip
def test_wrong_heads_are_refused(heads, weights, text):
    with pytest.raises(ValueError, match=f"Cannot make MultiHead: .*{text}"):
        MultiHead(heads, weights)


def test_wrong_logits_and_labels_are_refused():
    head = make_head()
    with pytest.raises(ValueError, match=r"in MultiHead 'kind_size': .* DN, 4\]"):
        head.predictions(LOGITS[:, :3])
    with pytest.raises(ValueError, match=r"the logits in MultiHead .* lack the heads \['size'\]"):
        head.predictions({"kind": SPLIT["kind"]})
    with pytest.raises(ValueError, match=r"the labels in MultiHead .* lack the heads \['kind'\]"):
        head.loss({"size": LABELS["size"]}, LOGITS)
    with pytest.raises(ValueError, match=r"labels must be a dict with .*\['kind', 'size'\], got"):
        head.loss(LABELS["kind"], LOGITS)
