"""Graphs of the workers: same variables, and an optimizer with its hook."""

import pytest
import tensorflow as tf

import kfac
import replicate
from examples.convnet_modes import sync_replicas
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1
JOBS = {"ps": ("127.0.0.1:1",), "chief": ("127.0.0.1:2",), "worker": ("127.0.0.1:3", "127.0.0.1:4")}
PARAMS = {"learning_rate": 0.01, "momentum": 0.9, "damping": 0.1}


def built(task_type, task_id, **params):
    config = replicate.RunConfig(cluster=ClusterConfig(JOBS, task_type, task_id))
    v1.train.get_or_create_global_step()
    return sync_replicas.model_fn(
        tf.zeros([4, 8, 8, 1]),
        tf.zeros([4], tf.int32),
        replicate.ModeKeys.TRAIN,
        {**PARAMS, **params},
        config,
    )


@pytest.mark.slow
def test_workers_of_different_roles_make_the_same_variables():
    def names(task_type, task_id):
        with tf.Graph().as_default():
            spec = built(task_type, task_id, optimizer="kfac", op_strategy="chief_worker")
            assert len(spec.training_hooks) == 1
            return sorted(variable.op.name for variable in v1.global_variables())

    assert names("chief", 0) == names("worker", 1)


def test_other_optimizers_wait_for_all_workers(graph):
    spec = built("worker", 0, optimizer="adam")
    (hook,) = spec.training_hooks
    assert "SyncReplicas" in type(hook).__name__


def test_evaluation_is_that_of_the_model(graph):
    config = replicate.RunConfig()
    images, labels = tf.zeros([4, 8, 8, 1]), tf.zeros([4], tf.int32)
    spec = sync_replicas.model_fn(images, labels, replicate.ModeKeys.EVAL, {}, config)
    assert set(spec.eval_metric_ops) == {"accuracy"}
    assert kfac.graph_layer_collection().registered_variables == ()
