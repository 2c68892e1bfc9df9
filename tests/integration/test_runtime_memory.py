"""Repeated runs leave no graph behind in the process."""

import gc
import weakref

import numpy as np
import tensorflow as tf

import replicate

v1 = tf.compat.v1


def input_fn():
    inputs = np.ones([8, 4], np.float32)
    return tf.data.Dataset.from_tensors((inputs, inputs[:, :1])).repeat(4)


def make_estimator(model_dir, graphs, **settings):
    """An Estimator whose model_fn notes the graphs that it is called in."""

    def model_fn(features, labels, mode):
        graphs.append(weakref.ref(v1.get_default_graph()))
        outputs = tf.matmul(features, v1.get_variable("w", [4, 1]))
        if mode == replicate.ModeKeys.PREDICT:
            return replicate.EstimatorSpec(mode, outputs)
        loss = tf.reduce_mean(tf.square(outputs - labels))
        optimizer = replicate.TowerOptimizer(v1.train.MomentumOptimizer(0.01, 0.9))
        train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
        return replicate.EstimatorSpec(mode, outputs, loss, train_op)

    replicated = replicate.replicate_model_fn(model_fn, devices=["/cpu:0", "/cpu:1"])
    config = replicate.RunConfig(progress="off", keep_checkpoint_max=2, **settings)
    return replicate.Estimator(replicated, str(model_dir), config)


def test_no_graph_outlives_its_run(tmp_path):
    graphs = []
    estimator = make_estimator(tmp_path, graphs)
    for _ in range(3):
        estimator.train(input_fn, steps=1)
        estimator.evaluate(input_fn)
        list(estimator.predict(input_fn))
    gc.collect()
    assert len(graphs) > 9
    assert [graph for graph in graphs if graph() is not None] == []
