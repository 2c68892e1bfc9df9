"""Graphs of the workers: the role of each, and an optimizer with its hook."""

from unittest import mock

import pytest
import tensorflow as tf

import kfac
import replicate
from examples.convnet_modes import sync_replicas
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1
JOBS = {"ps": ("127.0.0.1:1",), "chief": ("127.0.0.1:2",), "worker": ("127.0.0.1:3", "127.0.0.1:4")}
KFAC = {"learning_rate": 0.01, "momentum": 0.9, "damping": 0.1, "optimizer": "kfac"}


def built(mode, **changes):
    config = replicate.RunConfig(cluster=ClusterConfig(JOBS, "worker", 0))
    v1.train.get_or_create_global_step()
    images, labels = tf.zeros([4, 8, 8, 1]), tf.zeros([4], tf.int32)
    return sync_replicas.model_fn(images, labels, mode, {**KFAC, **changes}, config)


def test_op_strategy_gives_a_worker_its_role(graph, monkeypatch):
    make = mock.Mock(side_effect=InterruptedError)
    monkeypatch.setattr(kfac, "ClusterKfacOpt", make)
    with pytest.raises(InterruptedError):
        built("train", op_strategy="dedicated_workers")
    assert make.call_args.args == (kfac.WorkerRole("dedicated_workers", 3, 1),)


def test_other_optimizers_wait_for_all_workers_and_evaluation_needs_none(graph):
    spec = built("train", optimizer="adam")
    (hook,) = spec.training_hooks
    assert "SyncReplicas" in type(hook).__name__
    with v1.variable_scope("", reuse=True):
        spec = built("eval")
    assert set(spec.eval_metric_ops) == {"accuracy"}
    assert kfac.graph_layer_collection().registered_variables == ()
