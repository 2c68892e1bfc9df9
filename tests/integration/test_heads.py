"""Models with heads through the Estimator, on towers: train, evaluate, predict, export, serve."""

import numpy as np
import pytest
import tensorflow as tf

from replicate import (
    BinaryClassHead,
    Estimator,
    MultiHead,
    MultiLabelHead,
    RegressionHead,
    RunConfig,
    TowerOptimizer,
    add_metrics,
    export,
    replicate_model_fn,
)

pytestmark = pytest.mark.broad

v1 = tf.compat.v1

BATCH = 8
_random = np.random.default_rng(0)
X = _random.normal(size=[BATCH, 3]).astype(np.float32)
WEIGHTS = _random.integers(1, 4, BATCH).astype(np.float32)
LABELS = {
    "sign": np.array(["no", "yes"])[(X[:, 0] > 0).astype(int)],
    "tags": (X > 0.5).astype(np.int64),
    "size": X[:, :1] + X[:, 1:2],
}


def make_head():
    return MultiHead(
        [
            BinaryClassHead("w", label_vocabulary=["no", "yes"], name="sign"),
            MultiLabelHead(3, classes_for_class_based_metrics=[1], name="tags"),
            RegressionHead(name="size"),
        ]
    )


def model_fn(features, labels, mode):
    head = make_head()
    kernel = v1.get_variable(
        "kernel", [3, head.logits_dimension], initializer=v1.zeros_initializer()
    )
    return head.create_estimator_spec(
        features,
        mode,
        features["x"] @ kernel,
        labels,
        optimizer=TowerOptimizer(lambda: v1.train.AdamOptimizer(0.1)),
        trainable_variables=[kernel],
    )


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": X, "w": WEIGHTS}, LABELS)).repeat()


def predict_input_fn():
    return tf.data.Dataset.from_tensors({"x": X})


@pytest.fixture(scope="module")
def estimators(tmp_path_factory):
    """The model on one tower and on two, after 20 steps."""
    made = []
    for towers in (1, 2):
        devices = [f"/cpu:{index}" for index in range(towers)]
        config = RunConfig(progress="off", save_summary_steps=None, log_step_count_steps=None)
        folder = str(tmp_path_factory.mktemp("model"))
        estimator = Estimator(replicate_model_fn(model_fn, devices=devices), folder, config)
        made.append(estimator.train(input_fn, steps=20))
    return made


def test_two_towers_train_evaluate_and_predict_as_one(estimators):
    one, two = (estimator.evaluate(input_fn, steps=2) for estimator in estimators)
    assert one == pytest.approx(two, rel=1e-5)
    names = [estimator.get_variable_names() for estimator in estimators]
    assert names[0] == names[1]
    assert "training/beta1_power" in names[0]
    assert one["loss"] < 0.8 * (2 * np.log(2) + np.mean(LABELS["size"] ** 2))
    assert {"accuracy/sign", "auc/class1/tags", "average_loss/size", "loss/tags"} < set(one)
    one, two = (list(estimator.predict(predict_input_fn)) for estimator in estimators)
    assert len(one) == BATCH
    assert one[0].keys() == two[0].keys()
    for key in (("sign", "probabilities"), ("tags", "probabilities"), ("size", "predictions")):
        np.testing.assert_allclose(
            [each[key] for each in one], [each[key] for each in two], rtol=1e-5, atol=1e-6
        )
    classes = [each["sign", "classes"][0].decode() for each in one]
    assert np.mean(np.array(classes) == LABELS["sign"]) >= 0.75


def test_metric_objects_of_a_head_are_added(estimators):
    def metric_fn(labels, predictions, features):
        head = RegressionHead(name="again")
        return head.update_metrics(
            head.metrics(), features, predictions["size", "predictions"], labels["size"]
        )

    found = add_metrics(estimators[0], metric_fn).evaluate(input_fn, steps=1)
    assert found["average_loss/again"] == pytest.approx(found["average_loss/size"])


def test_exported_signatures_serve_examples(estimators, tmp_path):
    receiver = export.build_parsing_serving_input_receiver_fn(
        {"x": tf.io.FixedLenFeature([3], tf.float32)}
    )
    folder = estimators[1].export_saved_model(str(tmp_path), receiver)
    signatures = tf.saved_model.load(folder.decode()).signatures
    requests = tf.constant([serialized(row) for row in X])
    expected = list(estimators[1].predict(predict_input_fn))

    answer = signatures["sign/classification"](inputs=requests)
    assert answer["classes"].numpy().tolist() == [[b"no", b"yes"]] * BATCH
    served = [answer["scores"]]
    served += [signatures["size/regression"](inputs=requests)["outputs"]]
    served += [signatures["predict"](examples=requests)["tags/probabilities"]]
    keys = [("sign", "probabilities"), ("size", "predictions"), ("tags", "probabilities")]
    for got, key in zip(served, keys, strict=True):
        np.testing.assert_allclose(got, [each[key] for each in expected], rtol=1e-5, atol=1e-6)
    default = signatures["serving_default"](inputs=requests)
    np.testing.assert_array_equal(default["scores"], answer["scores"])


def serialized(row):
    value = tf.train.Feature(float_list=tf.train.FloatList(value=row))
    features = tf.train.Features(feature={"x": value})
    return tf.train.Example(features=features).SerializeToString()
