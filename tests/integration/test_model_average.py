"""Averaged models in the Estimator: checkpoints, evaluation, export, K-FAC and towers."""

import numpy as np
import pytest
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

_random = np.random.RandomState(0)
X = _random.randn(64, 3).astype(np.float32)
Y = (X @ [[1.0], [-2.0], [0.5]]).astype(np.float32)


def input_fn():
    return tf.data.Dataset.from_tensor_slices((X, Y)).repeat().batch(8)


def once_input_fn():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(8)


def receive():
    features = v1.placeholder(tf.float32, [None, 3])
    return replicate.export.TensorServingInputReceiver(features, features)


def make_optimizer(params, getter):
    if params["optimizer"] == "momentum":
        local = v1.train.MomentumOptimizer(0.05, 0.5)
    else:
        local = kfac.PeriodicInvCovUpdateKfacOpt(
            invert_every=2,
            learning_rate=0.1,
            damping=0.1,
            momentum=0.5,
            estimation_mode="exact",
            layer_collection=kfac.graph_layer_collection(),
        )
    if not params["averaged"]:
        return local
    return replicate.ModelAverageOptimizer(local, 1, True, getter, interval_steps=3)


def model_fn(features, labels, mode, params, config):
    """A linear layer with statistics of its inputs; params say how it is trained."""
    averaged = params["averaged"] and mode == replicate.ModeKeys.TRAIN
    getter = replicate.ModelAverageCustomGetter.of(config)
    with v1.variable_scope("linear", custom_getter=getter if averaged else None):
        weights = v1.get_variable("w", [3, 1], initializer=v1.zeros_initializer())
        bias = v1.get_variable("b", [1], initializer=v1.zeros_initializer())
        largest = v1.get_variable("largest", initializer=0.0, trainable=False)
    outputs = features @ weights + bias
    if mode == replicate.ModeKeys.PREDICT:
        return replicate.EstimatorSpec(mode, predictions={"y": outputs})
    loss = tf.reduce_mean((outputs - labels) ** 2)
    if mode == replicate.ModeKeys.EVAL:
        return replicate.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"largest": v1.metrics.mean(largest)}
        )
    if params["optimizer"] == "kfac":
        layers = kfac.graph_layer_collection()
        layers.register_fully_connected((weights, bias), features, outputs)
        layers.register_normal_predictive_distribution(outputs, name="outputs")
    optimizer = replicate.TowerOptimizer(lambda: make_optimizer(params, getter))
    observed = largest.assign(tf.maximum(largest, tf.reduce_max(features)))
    with v1.control_dependencies([observed]):
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
    hooks = [optimizer.wrapped.make_session_run_hook()] if params["averaged"] else []
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def make(model_dir, optimizer="momentum", averaged=True, towers=1):
    model = model_fn
    if towers > 1:
        devices = [f"/cpu:{tower}" for tower in range(towers)]
        model = replicate.replicate_model_fn(model_fn, v1.losses.Reduction.MEAN, devices)
    config = replicate.RunConfig(progress="off", save_checkpoints_steps=2)
    params = {"optimizer": optimizer, "averaged": averaged}
    return replicate.Estimator(model, str(model_dir), config, params)


def test_one_worker_trains_as_without_averaging(tmp_path):
    ordinary = make(tmp_path / "ordinary", "kfac", averaged=False)
    ordinary.train(input_fn, max_steps=12)
    averaged = make(tmp_path / "averaged", "kfac", towers=2)
    averaged.train(input_fn, max_steps=4)
    found, expected = (each.get_variable_value("linear/w") for each in (averaged, ordinary))
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    names = ["global_step", "linear/b", "linear/largest", "linear/w"]
    assert sorted(averaged.get_variable_names()) == names
    assert averaged.get_variable_value("global_step") == 4


def test_training_goes_on_from_the_averages(tmp_path):
    estimator = make(tmp_path).train(input_fn, max_steps=20)
    before = estimator.get_variable_value("linear/w")
    after = estimator.train(input_fn, max_steps=21).get_variable_value("linear/w")
    assert 0 < np.abs(after - before).max() < 0.1, "three steps from the start would be far away"


def test_everything_but_training_sees_an_ordinary_model(tmp_path):
    estimator = make(tmp_path / "model")
    seen = []

    class Listener(replicate.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            seen.append(global_step_value)

    during = replicate.InMemoryEvaluatorHook(estimator, once_input_fn, every_n_iter=100)
    estimator.train(input_fn, [during], max_steps=5, saving_listeners=[Listener()])
    assert seen == [0, 2, 4, 5]
    results = estimator.evaluate(once_input_fn)
    assert results["global_step"] == 5
    assert results["largest"] == pytest.approx(X.max())
    outputs = np.stack([each["y"] for each in estimator.predict(once_input_fn)])
    weights = estimator.get_variable_value("linear/w")
    np.testing.assert_allclose(outputs, X @ weights, atol=0.2)
    exported = estimator.export_saved_model(str(tmp_path / "export"), receive)
    with tf.Graph().as_default(), v1.Session() as session:
        v1.saved_model.loader.load(session, ["serve"], exported.decode())
        (loaded,) = (v for v in v1.global_variables() if v.op.name == "linear/w")
        np.testing.assert_array_equal(session.run(loaded), weights)


def test_steps_after_the_last_averaging_are_in_the_last_checkpoint(tmp_path):
    estimator = make(tmp_path).train(once_input_fn)  # 8 batches: 3, 3 and 2.
    assert estimator.get_variable_value("global_step") == 3
    ordinary = make(tmp_path / "ordinary", averaged=False).train(once_input_fn)
    np.testing.assert_allclose(
        estimator.get_variable_value("linear/w"), ordinary.get_variable_value("linear/w"), rtol=1e-6
    )
