"""A network of one layer, with all that the real ones have: two heads, decay, statistics."""

import dataclasses
import functools

import numpy as np
import pytest
import tensorflow as tf

import model_deploy
from examples.slim.image_classifier import clones, optimizers, schedules, training

v1 = tf.compat.v1

CLASSES, SIDE = 6, 2


def get_network_fn(name, num_classes, weight_decay=0.0, is_training=False):
    """Stands for the factory: logits are a linear function of the pixels."""

    def network_fn(images):
        if name == "picky":
            raise ValueError("too small")
        keys = [v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.MODEL_VARIABLES]
        trained = [*keys, v1.GraphKeys.TRAINABLE_VARIABLES]
        pixels = tf.reshape(images, [-1, SIDE * SIDE])
        zeros = functools.partial(v1.get_variable, initializer=v1.zeros_initializer())
        weights = zeros(
            "net/logits/weights",
            [SIDE * SIDE, num_classes],
            regularizer=lambda w: weight_decay * tf.nn.l2_loss(w),
            collections=trained,
        )
        bias = zeros("net/logits/biases", [num_classes], collections=trained)
        mean = zeros("net/mean", [], trainable=False, collections=keys)
        logits = tf.matmul(pixels, weights) + bias
        end_points = {"Logits": logits}
        if is_training:
            v1.add_to_collection(
                v1.GraphKeys.UPDATE_OPS, v1.assign(mean, tf.reduce_mean(images)).op
            )
        if name == "two_heads":
            end_points["AuxLogits"] = 2 * logits
        return logits, end_points

    return network_fn


@pytest.fixture
def fake_network(monkeypatch):
    """Puts the small network in the place of the factory's."""
    monkeypatch.setattr(clones.factory, "get_network_fn", get_network_fn)


@pytest.fixture
def batch():
    """Images, float32 [7, 2, 2, 1], and labels [7]."""
    random = np.random.RandomState(0)
    return random.randn(7, SIDE, SIDE, 1).astype(np.float32), np.array([0, 5, 2, 3, 1, 4, 2])


@pytest.fixture
def optimizer_settings():
    """Makes OptimizerSettings, with 0.9 for numbers of which nothing is said."""
    defaults = {
        **{field.name: 0.9 for field in dataclasses.fields(optimizers.OptimizerSettings)},
        "kfac_norm_constraint": None,
        "kfac_invert_every": 1,
        "kfac_cov_update_every": 1,
    }

    def make(optimizer, **changes):
        return optimizers.OptimizerSettings(**{**defaults, "optimizer": optimizer, **changes})

    return make


@pytest.fixture
def training_settings(optimizer_settings):
    """Makes TrainingSettings of the small network with a fixed learning rate of 0.1."""

    def make(num_clones=1, optimizer="sgd", model_name="net", weight_decay=0.0, **changes):
        settings = {
            "network": clones.Network(
                model_name=model_name, num_classes=CLASSES, weight_decay=weight_decay
            ),
            "deployment": model_deploy.DeploymentConfig(num_clones, clone_on_cpu=True),
            "schedule": schedules.Schedule(
                learning_rate=0.1,
                learning_rate_decay_type="fixed",
                learning_rate_decay_factor=1.0,
                num_epochs_per_decay=1.0,
                end_learning_rate=0.1,
                warmup_epochs=0.0,
            ),
            "epoch_steps": 10.0,
            "optimizer": optimizer_settings(optimizer),
            "trainable_scopes": None,
            "fine_tuning": None,
            "moving_average_decay": None,
            "sync_replicas": False,
            "replicas_to_aggregate": 1,
            "summarize_gradients": False,
            "save_summaries_secs": 0.0,
            "log_every_n_steps": 1000,
            "batch_rows": 7,
        }
        return training.TrainingSettings(**{**settings, **changes})

    return make
