"""The names of TensorFlow 1 and their default loss."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import v1

X = tf.feature_column.numeric_column("x")
CLASSES = {
    "BaselineClassifier": {},
    "BaselineRegressor": {},
    "DNNClassifier": {"hidden_units": [2], "feature_columns": [X]},
    "DNNLinearCombinedClassifier": {"linear_feature_columns": [X]},
    "DNNLinearCombinedRegressor": {"linear_feature_columns": [X]},
    "DNNRegressor": {"hidden_units": [2], "feature_columns": [X]},
    "LinearClassifier": {"feature_columns": [X]},
    "LinearRegressor": {"feature_columns": [X]},
}


CORE = ("DNNClassifier", "LinearRegressor")
EQUAL = ([[1.0], [0.0]], [[-2.08], [-2.08]])  # Labels and logits of two equal probabilities.


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[] if n in CORE else pytest.mark.broad) for n in CLASSES]
)
def test_default_loss_is_the_sum_and_classifiers_sum_trapezoids(name, graph, tmp_path):
    tf.compat.v1.train.create_global_step()
    losses, areas = [], []
    for module in (v1, replicate):
        estimator = getattr(module, name)(model_dir=str(tmp_path), **CLASSES[name])
        assert isinstance(estimator, getattr(replicate, name))
        features, labels = {"x": tf.zeros([2, 1])}, tf.constant(EQUAL[0])
        with tf.compat.v1.variable_scope("", reuse=tf.compat.v1.AUTO_REUSE):
            spec = estimator.model_fn(features, labels, "eval", estimator.config)
        losses.append(spec.loss)
        if name.endswith("Classifier"):
            areas.append(spec.eval_metric_ops["auc_precision_recall"])
    with tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        session.run(tf.compat.v1.local_variables_initializer())
        (total, mean), _ = session.run([losses, [update for _, update in areas]])
        found = session.run([value for value, _ in areas])
    np.testing.assert_allclose(total, 2 * mean, rtol=1e-6)
    assert mean > 0
    assert found == (pytest.approx([0.75, 0.5], abs=1e-4) if areas else [])


def area_of(head, key="auc_precision_recall"):
    """The metric of a head after one batch."""
    labels, logits = (tf.constant(each) for each in EQUAL)
    repeated = [tf.repeat(each, 2, axis=1) for each in (labels, logits)]
    labels, logits = repeated if head.logits_dimension == 2 else (labels, logits)
    return float(head.update_metrics(head.metrics(), {}, logits, labels)[key].result())


def test_heads_by_function_sum_trapezoids():
    assert area_of(v1.binary_classification_head()) == pytest.approx(0.75, abs=1e-4)
    assert area_of(replicate.binary_classification_head()) == pytest.approx(0.5, abs=1e-4)
    own = v1.binary_classification_head(auc_summation_method="careful_interpolation")
    assert area_of(own) == pytest.approx(0.5, abs=1e-4)
    assert area_of(v1.BinaryClassHead()) == pytest.approx(0.5, abs=1e-4)
    assert v1.LinearRegressor([X], loss_reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE)
    for key in ("auc_precision_recall", "auc_precision_recall/class1"):
        head = v1.multi_label_head(2, classes_for_class_based_metrics=[1])
        assert area_of(head, key) == pytest.approx(0.75, abs=1e-4)


def test_other_names_are_those_of_the_package():
    assert v1.Estimator is replicate.Estimator
    assert v1.DNNEstimator is replicate.DNNEstimator
    assert set(v1.__all__) == set(replicate.__all__) <= set(dir(v1))
    with pytest.raises(AttributeError, match="_nothing"):
        v1._nothing  # noqa: B018
