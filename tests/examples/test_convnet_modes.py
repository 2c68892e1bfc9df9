"""Graphs of the modes of the ConvNet's program: one device, towers by hand, workers."""

import re
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

pytest.importorskip("matplotlib")

import kfac
import model_deploy
import replicate
from examples import convnet_model, mnist
from examples.convnet_modes import multitower, single_machine, sync_replicas
from replicate.estimator.cluster_config import ClusterConfig

v1 = tf.compat.v1
JOBS = {"ps": ("127.0.0.1:1",), "chief": ("127.0.0.1:2",), "worker": ("127.0.0.1:3", "127.0.0.1:4")}
KFAC = {"learning_rate": 0.01, "momentum": 0.9, "damping": 0.1, "optimizer": "kfac"}
MOMENTUM = {"optimizer": "momentum", "learning_rate": 0.05, "momentum": 0.9}


def test_single_machine_makes_the_same_steps_from_one_seed(tmp_path, capsys, make_settings, noise):
    data = mnist.Dataset("noise", noise(16), noise(16))
    losses = []
    for folder in ("first", "second"):
        single_machine.run(data, make_settings(tmp_path / folder, eval_every_steps=1), MOMENTUM)
        printed = capsys.readouterr().out
        assert "1 tower: " in printed
        losses.append([float(loss) for loss in re.findall(r"loss (\S+)", printed)])
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)


def test_two_towers_have_the_loss_and_gradients_of_one_model(graph, noise):
    images, labels = map(tf.constant, noise(8))
    plan = model_deploy.device_plan(["/cpu:0", "/cpu:1"])
    loss, accuracy = multitower.mean_of_towers(
        (images, labels), plan, lambda x, y: multitower.build_tower(x, y, KFAC)
    )
    variables = v1.trainable_variables()
    assert len(variables) == 6
    assert {variable.device for variable in variables} == {"/device:CPU:0"}
    convolutions = [op.device for op in graph.get_operations() if op.type == "Conv2D"]
    assert sorted(convolutions) == ["/device:CPU:0"] * 2 + ["/device:CPU:1"] * 2
    layers = kfac.graph_layer_collection()
    assert set(layers.registered_variables) == set(variables)
    assert [len(towers) for towers in layers.towers_by_loss] == [2]
    with v1.variable_scope("", reuse=True):
        model = convnet_model.build_model(images)
        whole = convnet_model.mean_loss(model, labels)
        share = convnet_model.mean_accuracy(model, labels)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        ours, theirs = session.run(
            [(total, tf.gradients(total, variables)) for total in (loss, whole)]
        )
        assert len(set(session.run([accuracy, share]))) == 1
    np.testing.assert_allclose(ours[0], theirs[0], rtol=1e-5)
    for mine, one in zip(ours[1], theirs[1], strict=True):
        np.testing.assert_allclose(mine, one, rtol=1e-4, atol=1e-6)


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
