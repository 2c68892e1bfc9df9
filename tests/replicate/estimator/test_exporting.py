import functools
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator import Estimator, RunConfig
from replicate.estimator.exporting import remove_unfinished, signatures
from replicate.export import (
    ClassificationOutput,
    PredictOutput,
    RegressionOutput,
    ServingInputReceiver,
    TensorServingInputReceiver,
    build_raw_serving_input_receiver_fn,
    build_supervised_input_receiver_fn_from_input_fn,
)
from replicate.gradients.tower_optimizer import TowerOptimizer
from replicate.model_fn import replicate_model_fn
from replicate.spec import EstimatorSpec, ModeKeys

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1

DEFAULT = "serving_default"
X = np.random.RandomState(0).randn(8, 3).astype(np.float32)
ONE, THREE = ["/cpu:0"], ["/cpu:1", "/cpu:2", "/cpu:3"]
receive = build_raw_serving_input_receiver_fn({"x": tf.TensorSpec([None, 3])})


def model_fn(features, labels, mode):
    """A linear layer with a branch, whose devices hide in functions of the graph."""
    weights = v1.get_variable("w", [3, 2], initializer=v1.random_normal_initializer(seed=1))
    outputs = tf.matmul(features["x"], weights)
    outputs = tf.cond(tf.reduce_sum(outputs) > 1e9, lambda: 2 * outputs, lambda: outputs + 1)
    predictions = {"y": outputs, "best": tf.argmax(outputs, axis=1)}
    if mode == ModeKeys.PREDICT:
        return EstimatorSpec(mode, predictions)
    loss = tf.reduce_mean(tf.square(outputs - labels))
    optimizer = TowerOptimizer(v1.train.MomentumOptimizer(0.1, 0.9))
    train_op = None
    if mode == ModeKeys.TRAIN:
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
    metrics = {"mae": v1.metrics.mean_absolute_error(labels, outputs)}
    return EstimatorSpec(mode, predictions, loss, train_op, metrics)


def input_fn():
    return tf.data.Dataset.from_tensors(({"x": X}, X[:, :2])).repeat(3)


def trained(model_dir, devices):
    replicated = replicate_model_fn(model_fn, devices=devices, uneven="weighted")
    return Estimator(replicated, str(model_dir), RunConfig(progress="off")).train(input_fn)


@pytest.fixture(scope="module")
def estimators(plain_sessions, tmp_path_factory):
    """The same model, trained on one tower and on three."""
    return [trained(tmp_path_factory.mktemp("model"), devices) for devices in (ONE, THREE)]


@pytest.fixture(scope="module")
def exports(estimators, tmp_path_factory):
    return [
        each.export_saved_model(tmp_path_factory.mktemp("export"), receive) for each in estimators
    ]


@pytest.fixture(scope="module")
def loaded(exports):
    return [tf.saved_model.load(path.decode()) for path in exports]


@functools.cache
def predicted(estimator):
    first = next(estimator.predict(input_fn, yield_single_examples=False))
    return first["y"], first["best"]


def test_loaded_model_predicts_as_the_estimator(estimators, loaded):
    for estimator, model in zip(estimators, loaded, strict=True):
        assert list(model.signatures) == [DEFAULT]
        wanted, best = predicted(estimator)
        for rows in (1, 2, 8):
            outputs = model.signatures[DEFAULT](x=tf.constant(X[:rows]))
            np.testing.assert_allclose(outputs["y"], wanted[:rows], rtol=1e-6, atol=1e-6)
            np.testing.assert_array_equal(outputs["best"], best[:rows])


@pytest.fixture
def load():
    """Loads the graph with a tag as old programs do, where no other device is accepted."""
    with tf.Graph().as_default() as graph:
        options = v1.ConfigProto(device_count={"CPU": 1}, allow_soft_placement=False)
        with v1.Session(config=options) as session:
            yield lambda path, tag: (
                session,
                v1.saved_model.load(session, [tag], path.decode()),
                graph,
            )


def test_export_of_three_devices_loads_strictly_on_one(exports, estimators, load):
    session, model, graph = load(exports[1], "serve")
    definition = graph.as_graph_def()
    inside = [node for each in definition.library.function for node in each.node_def]
    assert inside
    assert {node.device for node in [*definition.node, *inside]} == {""}
    signature = model.signature_def[DEFAULT]
    outputs = session.run(signature.outputs["y"].name, {signature.inputs["x"].name: X})
    np.testing.assert_allclose(outputs, predicted(estimators[1])[0], rtol=1e-6, atol=1e-6)


@pytest.fixture(scope="module")
def every_mode(estimators, tmp_path_factory):
    """The export of all modes of the model on three towers."""
    supervised = build_supervised_input_receiver_fn_from_input_fn(input_fn)
    return estimators[1].experimental_export_all_saved_models(
        tmp_path_factory.mktemp("modes"),
        {ModeKeys.PREDICT: receive, ModeKeys.TRAIN: supervised, ModeKeys.EVAL: supervised},
    )


def fed(signature):
    assert sorted(signature.inputs) == ["label", "x"]
    return {signature.inputs["x"].name: X, signature.inputs["label"].name: X[:, :2]}


def test_exported_training_graph_can_be_trained(every_mode, load):
    session, model, graph = load(every_mode, "train")
    signature = model.signature_def["train"]
    (train_op,) = graph.get_collection(v1.GraphKeys.TRAIN_OP)
    fetches = [signature.outputs["loss"].name, train_op]
    losses = [session.run(fetches, fed(signature))[0] for _ in range(20)]
    assert losses[-1] < losses[0] / 2
    assert session.run(v1.train.get_global_step(graph)) == 23


def test_mode_with_variables_of_its_own_is_refused(linear, tmp_path):
    def model_fn(features, mode):
        w = v1.get_variable("w", [3, 1])
        outputs = tf.matmul(features, w)
        if mode == ModeKeys.PREDICT:
            return EstimatorSpec(mode, outputs * v1.get_variable("extra", []))
        loss = tf.reduce_mean(outputs)
        train_op = v1.assign_add(v1.train.get_global_step(), 1)
        return EstimatorSpec(mode, loss=loss, train_op=train_op)

    def receive():
        features = v1.placeholder(tf.float32, [None, 3])
        return TensorServingInputReceiver(features, features)

    estimator = linear.make_estimator(tmp_path / "model", model_fn)
    estimator.train(lambda: linear.input_fn().map(lambda x, _: x), steps=1)
    with pytest.raises(ValueError, match=r"mode 'infer' together .* variables \['extra'\]"):
        estimator.experimental_export_all_saved_models(
            tmp_path / "export", {ModeKeys.EVAL: receive, ModeKeys.PREDICT: receive}
        )
    assert os.listdir(tmp_path / "export") == []


def test_given_checkpoint_text_form_and_assets(linear, tmp_path):
    estimator = linear.make_estimator(tmp_path / "model")
    estimator.train(linear.input_fn, max_steps=7)
    (tmp_path / "words.txt").write_text("a\nb\n")

    def receive():
        features = v1.placeholder(tf.float32, [None, 3])
        return TensorServingInputReceiver(features, {"rows": features})

    path = estimator.export_saved_model(
        str(tmp_path / "export"),
        receive,
        assets_extra={"a/words.txt": str(tmp_path / "words.txt")},
        as_text=True,
        checkpoint_path=f"{tmp_path}/model/model.ckpt-5",
    ).decode()
    assert (pathlib.Path(path) / "saved_model.pbtxt").exists()
    assert (pathlib.Path(path) / "assets.extra/a/words.txt").read_text() == "a\nb\n"
    weights, bias = linear.trained(5)
    outputs = tf.saved_model.load(path).signatures[DEFAULT](rows=tf.constant(linear.X))
    np.testing.assert_allclose(outputs["y"], linear.X @ weights + bias, rtol=1e-5, atol=1e-6)


def test_export_contains_the_vocabulary_file(linear, tmp_path):
    words = tmp_path / "words.txt"
    words.write_text("zero\none\n")

    def model_fn(features, mode):
        table = tf.lookup.StaticVocabularyTable(
            tf.lookup.TextFileInitializer(
                str(words),
                tf.string,
                tf.lookup.TextFileIndex.WHOLE_LINE,
                tf.int64,
                tf.lookup.TextFileIndex.LINE_NUMBER,
            ),
            num_oov_buckets=1,
        )
        ids = table.lookup(features["word"])
        step = v1.assign_add(v1.train.get_global_step(), 1)
        return EstimatorSpec(mode, {"id": ids}, loss=tf.constant(0.0), train_op=step)

    estimator = linear.make_estimator(tmp_path / "model", model_fn)
    estimator.train(lambda: {"word": tf.constant(["one"])}, steps=1)
    spec = {"word": tf.TensorSpec([None], tf.string)}
    path = estimator.export_saved_model(tmp_path, build_raw_serving_input_receiver_fn(spec))
    words.unlink()
    serve = tf.saved_model.load(path.decode()).signatures[DEFAULT]
    np.testing.assert_array_equal(serve(word=tf.constant(["one", "two"]))["id"], [1, 2])


def test_export_savedmodel_is_the_old_name_and_paths_may_be_bytes(estimators, tmp_path):
    base, checkpoint = str(tmp_path).encode(), estimators[0].latest_checkpoint().encode()
    path = estimators[0].export_savedmodel(
        base, receive, checkpoint_path=checkpoint, strip_default_attrs=False
    )
    assert path.startswith(base + b"/")
    assert tf.saved_model.contains_saved_model(path.decode())


def test_versions_count_up_and_old_files_of_killed_exports_are_removed(
    estimators, tmp_path, monkeypatch
):
    now = 1_700_000_000
    monkeypatch.setattr("time.time", lambda: now + 0.5)
    old, newer, clash = (f"temp-{now + secs}" for secs in (-90_000, -80_000, 1))
    others = [clash, "temp-mine", f"{now - 9}"]
    for name in (old, newer, *others):
        (tmp_path / name / "variables").mkdir(parents=True)
    paths = [estimators[0].export_saved_model(tmp_path, receive) for _ in range(2)]
    versions = [str(now), str(now + 2)]
    assert paths == [f"{tmp_path}/{version}".encode() for version in versions]
    assert sorted(os.listdir(tmp_path)) == sorted([newer, *others, *versions])
    assert remove_unfinished(str(tmp_path), now) == [newer]
    assert sorted(os.listdir(tmp_path)) == sorted([*others, *versions])
    assert remove_unfinished(f"{tmp_path}/absent", now) == []


def exported_signatures(outputs, receiver):
    spec = EstimatorSpec(ModeKeys.PREDICT, tf.zeros([2]), export_outputs=outputs)
    return signatures(ModeKeys.PREDICT, receiver, spec)


def test_each_way_to_feed_has_its_signatures(graph, caplog):
    text, raw = tf.constant(["a"], name="text"), tf.ones([1], name="raw")
    made = exported_signatures(
        {DEFAULT: PredictOutput(tf.zeros([2])), "regress": RegressionOutput(tf.zeros([2]))},
        ServingInputReceiver({"x": raw}, text, {"other": raw}),
    )
    assert sorted(made) == ["other:serving_default", "regress", DEFAULT]
    assert made["other:serving_default"].inputs["input"].name == "raw:0"
    assert made["regress"].inputs["inputs"].name == "text:0"
    assert "no signature 'other:regress': The signature of a RegressionOutput" in caplog.text


def test_missing_default_signature_gives_a_warning_and_no_signature_an_error(graph, caplog):
    outputs = {
        "probable": PredictOutput(tf.zeros([2])),
        DEFAULT: ClassificationOutput(tf.ones([2])),
    }
    made = exported_signatures(outputs, ServingInputReceiver(tf.ones([1]), tf.ones([1])))
    assert list(made) == ["probable"]
    assert "no default signature, only ['probable']" in caplog.text
    with pytest.raises(ValueError, match=r"no signature that its inputs can feed\. The sig"):
        exported_signatures(
            {DEFAULT: RegressionOutput(tf.zeros([2]))},
            ServingInputReceiver(tf.ones([1]), tf.ones([1])),
        )


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"serving_input_receiver_fn": 3}, TypeError, "must be callable without arguments, got 3"),
        ({"serving_input_receiver_fn": lambda: None}, TypeError, "must return a receiver of"),
        ({"experimental_mode": "serve"}, ValueError, r"modes to export are \['serve'\]"),
        ({"assets_extra": {"../a": "b"}}, ValueError, "must be a path inside assets.extra"),
        ({"assets_extra": {"a": "/nowhere"}}, ValueError, "its file '/nowhere' does not exist"),
    ],
)
def test_wrong_arguments(estimators, tmp_path, arguments, error, text):
    given = {"serving_input_receiver_fn": receive, **arguments}
    with pytest.raises(error, match=text):
        estimators[0].export_saved_model(tmp_path, **given)
    assert os.listdir(tmp_path) == []


def test_nothing_to_export_and_no_place_for_it(linear, estimators, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(CheckpointError, match=r"Cannot export the model to .*/file/a: .*directory"):
        estimators[0].export_saved_model(str(tmp_path / "file" / "a"), receive)
    with pytest.raises(ValueError, match="the modes to export are none"):
        estimators[0].experimental_export_all_saved_models(tmp_path, {})
    with pytest.raises(ValueError, match="There is no trained model"):
        linear.make_estimator(tmp_path).export_saved_model(tmp_path, receive)
