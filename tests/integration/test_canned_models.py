"""Model functions of canned models in `replicate_model_fn`."""

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1
X = tf.feature_column.numeric_column("x", [2])
FEATURES = {"x": np.random.default_rng(0).normal(size=[8, 2]).astype(np.float32)}
LABELS = (FEATURES["x"][:, 0] > 0).astype(np.int64)


def train(model_fn, config, steps=3):
    """Losses of some steps of a model_fn, and all variables after them, by name."""
    with tf.Graph().as_default():
        step = v1.train.create_global_step()
        features = {name: tf.constant(value) for name, value in FEATURES.items()}
        spec = model_fn(features, tf.constant(LABELS), "train", config)
        draws = np.random.default_rng(1)
        with v1.Session(config=v1.ConfigProto(device_count={"CPU": 8})) as session:
            session.run([v1.global_variables_initializer(), v1.tables_initializer()])
            for variable in v1.trainable_variables():
                variable.load(draws.normal(size=variable.shape).astype(np.float32), session)
            losses = [session.run([spec.train_op, spec.loss])[1] for _ in range(steps)]
            assert session.run(step) == steps
            return losses, session.run({each.op.name: each for each in v1.global_variables()})


def test_model_fn_is_replicated_by_hand(tmp_path):
    """With any way to name an optimizer."""

    def adagrad():
        return v1.train.AdagradOptimizer(0.05)

    plain = replicate.DNNClassifier([4], [X], str(tmp_path))
    expected_losses, expected = train(plain.model_fn, plain.config)
    assert expected_losses[-1] < expected_losses[0]
    for optimizer in (replicate.TowerOptimizer(adagrad), "Adagrad", adagrad):
        classifier = replicate.DNNClassifier([4], [X], str(tmp_path), optimizer=optimizer)
        model_fn = replicate.replicate_model_fn(classifier.model_fn, devices=["/cpu:0", "/cpu:1"])
        losses, variables = train(model_fn, classifier.config)
        np.testing.assert_allclose(losses, expected_losses, rtol=1e-5)
        assert sorted(variables) == sorted(expected)
        for name, value in expected.items():
            np.testing.assert_allclose(variables[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
