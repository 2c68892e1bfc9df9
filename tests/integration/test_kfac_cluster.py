"""K-FAC's optimizer for clusters inside a replicated model function, and in an Estimator."""

import numpy as np
import tensorflow as tf

import kfac
import replicate

v1 = tf.compat.v1

STEPS = 5
RANDOM = np.random.RandomState(0)
X = RANDOM.randn(24, 3).astype("float32")
Y = RANDOM.randint(0, 4, 24)
WORKER = kfac.WorkerRole("shared", num_workers=1, task_index=0)
SETTINGS = {"learning_rate": 0.1, "damping": 0.1, "estimation_mode": "empirical"}


def registered_loss(features, labels):
    """The loss of a tower, registered with the graph's collection."""
    layers = kfac.graph_layer_collection()
    w = v1.get_variable("w", initializer=np.random.RandomState(1).randn(3, 4).astype("float32"))
    logits = tf.matmul(features, w)
    layers.register_fully_connected(w, features, logits)
    layers.register_softmax_cross_entropy_loss(logits, targets=labels, name="loss")
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


def make_optimizer():
    layers = kfac.graph_layer_collection()
    return kfac.ClusterKfacOpt(WORKER, invert_every=2, layer_collection=layers, **SETTINGS)


forward_passes = []


def model_fn(features, labels, mode):
    def count(features):
        forward_passes.append(1)
        return features

    shape = features.shape
    features = tf.numpy_function(count, [features], features.dtype)
    features.set_shape(shape)
    loss = registered_loss(features, labels)
    optimizer = replicate.TowerOptimizer(make_optimizer)
    train_op = optimizer.minimize(loss, v1.train.get_or_create_global_step())
    hooks = [optimizer.wrapped.make_session_run_hook(num_tokens=0)]
    return replicate.EstimatorSpec(mode, loss=loss, train_op=train_op, training_hooks=hooks)


def one_tower():
    """Weights of one tower: but for the first ones, inverses lag a step behind their averages."""
    with tf.Graph().as_default(), v1.Session() as session:
        loss = registered_loss(tf.constant(X), tf.constant(Y))
        optimizer = kfac.KfacOptimizer(layer_collection=kfac.graph_layer_collection(), **SETTINGS)
        ops = optimizer.make_ops_and_vars()
        train = optimizer.minimize(loss)
        session.run(v1.global_variables_initializer())
        for step in range(STEPS):
            due = ops.inv_update if step % 2 == 0 else ()
            for op in (due, ops.cov_update) if step else (ops.cov_update, due):
                session.run(op)
            session.run(train)
        return session.run(v1.trainable_variables()[0])


def test_estimator_on_towers_trains_as_one_tower(tmp_path):
    forward_passes.clear()
    estimator = replicate.Estimator(
        replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"]),
        model_dir=str(tmp_path),
        config=replicate.RunConfig(progress="off"),
    )
    estimator.train(lambda: tf.data.Dataset.from_tensors((X, Y)).repeat(), max_steps=STEPS)
    np.testing.assert_allclose(estimator.get_variable_value("w"), one_tower(), rtol=1e-5)
    assert estimator.get_variable_value("kfac/counter") == STEPS
    # The thread that makes the steps runs no model.
    assert len(forward_passes) == 2 * STEPS
