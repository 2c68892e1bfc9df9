"""tf.contrib.staging, stateless, tfprof, distributions, predictor and image, by their old names."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.compat.absent import OldNameError, is_absent
from replicate.compat.old_modules import old_module

v1 = tf.compat.v1
CONTRIB = old_module("tf.contrib", "replicate.v1")
DRAWS = np.random.default_rng(0)


def test_staging_area_keeps_elements_in_order(plain_session):
    with tf.Graph().as_default(), plain_session() as session:
        fed = v1.placeholder(tf.float32, [2])
        area = CONTRIB.staging.StagingArea([tf.float32, tf.int32], [[2], []], capacity=3)
        put = area.put([fed, tf.cast(fed[0], tf.int32)])
        for start in (1.0, 2.0):
            session.run(put, {fed: [start, 0.0]})
        peeked = session.run(area.peek(1))  # After a get, it would wait for another element.
        first, number = session.run((area.get(), area.size()))
        assert (peeked[1], first[1]) == (2, 1)
        assert number in (1, 2)
        assert session.run(area.get()[0]).tolist() == [2.0, 0.0]
        assert area.get()[0].shape == [2]
        session.run(put, {fed: [3.0, 0.0]})
        session.run(area.clear())
        assert session.run(area.size()) == 0
        named = CONTRIB.staging.StagingArea([tf.int32], names=["a"])
        session.run(named.put({"a": 7}))
        assert session.run(named.get()) == {"a": 7}
        alone = CONTRIB.staging.StagingArea([tf.int32])
        session.run(alone.put(5))
        assert session.run(alone.get()) == 5
        for wrong, message in (([fed], "1 tensors"), ([fed[:1], 0], r"shape must be \(2,\)")):
            with pytest.raises(ValueError, match=message):
                area.put(wrong)
        with pytest.raises(ValueError, match="2 dtypes and 1 names"):
            CONTRIB.staging.StagingArea([tf.int32, tf.int32], names=["a"])


def test_small_packages_have_their_public_counterparts(graph):
    assert CONTRIB.stateless.stateless_random_uniform is v1.random.stateless_uniform
    assert CONTRIB.distributions.Normal(0.0, 1.0).log_prob(0.0).shape == []
    assert CONTRIB.lite.TFLiteConverter is v1.lite.TFLiteConverter
    v1.get_variable("w", [2, 3])
    analyzer = CONTRIB.tfprof.model_analyzer
    options = analyzer.TRAINABLE_VARS_PARAMS_STAT_OPTIONS.copy()
    options["output"] = "none"
    counted = analyzer.print_model_analysis(graph, tfprof_options=options)
    assert counted.total_parameters == 6


@pytest.mark.parametrize(
    ("name", "advice"),
    [
        ("distributions.NoSuchDistribution", "It needs TensorFlow Probability"),
        ("gan.gan_model", "It needs TF-GAN"),
        ("quantize.create_training_graph", "tf.lite.TFLiteConverter"),
        ("learn.no_such_name", "It has no counterpart here"),
        ("opt.no_such_name", "It has no counterpart here"),
    ],
)
def test_absent_names_have_advice_of_their_own(name, advice):
    package, _, last = name.partition(".")
    value = getattr(getattr(CONTRIB, package), last)
    assert is_absent(value)
    with pytest.raises(OldNameError, match=advice):
        value()


def model_fn(features, labels, mode):
    weight = v1.get_variable("w", [], initializer=v1.constant_initializer(3.0))
    outputs = {"tripled": weight * features["x"]}
    if mode == replicate.ModeKeys.PREDICT:
        exported = replicate.export.PredictOutput(outputs)
        return replicate.EstimatorSpec(mode, outputs, export_outputs={"other": exported})
    train_op = v1.train.get_global_step().assign_add(1)
    return replicate.EstimatorSpec(mode, outputs, weight, train_op)


def receiver_fn():
    x = v1.placeholder(tf.float32, [None], "x")
    return replicate.export.ServingInputReceiver({"x": x}, {"given": x})


def test_predictors_of_estimators_and_saved_models(tmp_path):
    estimator = replicate.Estimator(model_fn, str(tmp_path / "model"))
    with pytest.raises(ValueError, match="model"):
        CONTRIB.predictor.from_estimator(estimator, receiver_fn)
    estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": [1.0]}, 0.0)), steps=1)
    predict = CONTRIB.predictor.from_estimator(estimator, receiver_fn)
    assert predict({"given": [1.0, 2.0]})["tripled"].tolist() == [3.0, 6.0]
    exported = estimator.export_saved_model(str(tmp_path / "export"), receiver_fn).decode()
    load = CONTRIB.predictor.from_saved_model
    by_key = load(exported, signature_def_key="other", tags="serve")
    assert by_key({"given": [2.0]})["tripled"].tolist() == [6.0]
    names = {"a": by_key.feed_tensors["given"].name}, {"b": by_key.fetch_tensors["tripled"].name}
    by_names = load(exported, input_names=names[0], output_names=names[1])
    assert by_names({"a": [3.0]})["b"].tolist() == [9.0]
    with pytest.raises(ValueError, match=r"got \['x'\], its inputs are \['given'\]"):
        predict({"x": [1.0]})
    with pytest.raises(ValueError, match=r"no signature 'none', it has \['other"):
        load(exported, "none")
    with pytest.raises(ValueError, match="Give from_saved_model one of"):
        load(exported, "other", input_names=names[0], output_names=names[1])
    for each in (predict, by_key, by_names):
        each.session.close()


def test_images_are_rotated_moved_and_projected(graph, evaluate):
    image = CONTRIB.image
    square = DRAWS.normal(size=[5, 5]).astype("f4")
    batch = DRAWS.normal(size=[2, 4, 4, 3]).astype("f4")
    quarter = np.pi / 2
    rotated, both, moved, flat = evaluate(
        (
            image.rotate(square, quarter),
            image.rotate(batch, [quarter, -quarter], "BILINEAR"),
            image.translate(batch, [1.0, -2.0]),
            image.translate(square[..., None], [[1.0, 0.0]]),
        )
    )
    np.testing.assert_allclose(rotated, np.rot90(square))
    np.testing.assert_allclose(both[0], np.rot90(batch[0]), atol=1e-5)
    np.testing.assert_allclose(both[1], np.rot90(batch[1], -1), atol=1e-5)
    expected = np.zeros_like(batch)
    expected[:, :2, 1:] = batch[:, 2:, :3]
    np.testing.assert_allclose(moved, expected)
    np.testing.assert_allclose(flat[:, 1:, 0], square[:, :4])
    assert image.transform(batch, [1.0, 0, 0, 0, 1, 0, 0, 0], output_shape=[2, 3]).shape == [
        2, 2, 3, 3,
    ]  # fmt: skip
    there = image.angles_to_projective_transforms(0.3, 5.0, 5.0)
    back = image.angles_to_projective_transforms(-0.3, 5.0, 5.0)
    same = image.compose_transforms(there, back)
    np.testing.assert_allclose(evaluate(same), [[1, 0, 0, 0, 1, 0, 0, 0]], atol=1e-5)
    with pytest.raises(ValueError, match="interpolation must be one of"):
        image.rotate(square, 0.0, "CUBIC")
    with pytest.raises(ValueError, match="2 to 4 axes"):
        image.rotate(square[0], 0.0)
