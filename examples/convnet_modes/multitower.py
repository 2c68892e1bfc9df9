"""`examples.convnet --mode=multitower`: several devices in a plain graph, without `replicate`.

Shows the steps that `replicate` takes for a model_fn: the batch is split, each tower is built on
its device with the variables of the first tower, and the mean of the losses is minimized. All
towers register in one layer collection, so K-FAC averages over the data of all towers and spreads
its work over their devices.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import kfac
import model_deploy
from examples import cli, convnet_model, mnist, plain_training, training
from examples.cli import RunSettings
from examples.convnet_modes import kfac_updates
from examples.training import Params

v1 = tf.compat.v1


def run(data: mnist.Dataset, settings: RunSettings, params: Params) -> None:
    """Trains and evaluates."""
    with cli.bad_input():
        plan = training.plan_towers(settings.num_towers, settings.devices)
        training.check_batch_size(settings.batch_size, plan)
    training.show_plan(plan, data, settings.batch_size, params)
    with tf.Graph().as_default():
        v1.set_random_seed(settings.seed)
        batch = mnist.tensors(*data.train, settings.batch_size, seed=settings.seed)
        loss, accuracy = mean_of_towers(batch, plan, lambda x, y: build_tower(x, y, params))
        train_op = kfac_updates.minimize(loss, params, plan.towers)
        plain_training.run(train_op, loss, accuracy, convnet_model.predict, data, settings, params)


def build_tower(images: Any, labels: Any, params: Params) -> tuple[Any, Any]:
    """Builds one tower, and registers it. Returns its mean loss and its accuracy, both []."""
    model = convnet_model.build_model(images)
    if params["optimizer"] == "kfac":
        convnet_model.register(kfac.graph_layer_collection(), model, params)
    return convnet_model.mean_loss(model, labels), convnet_model.mean_accuracy(model, labels)


def mean_of_towers(
    batch: tuple[Any, Any],
    plan: model_deploy.DevicePlan,
    build: Callable[[Any, Any], tuple[Any, Any]],
) -> tuple[Any, Any]:
    """Builds a tower on each device. Returns the means of losses and accuracies, both []."""
    count = len(plan.towers)
    with v1.device(plan.consolidation):
        shards = zip(*(tf.split(tensor, count) for tensor in batch), strict=True)
    variables = model_deploy.VariablePlacer(plan.parameters)
    losses, accuracies = [], []
    for index, (device, (images, labels)) in enumerate(zip(plan.towers, shards, strict=True)):
        scope = v1.variable_scope(v1.get_variable_scope(), reuse=index > 0)
        with scope, v1.name_scope(f"tower_{index}"), v1.device(variables.on(device)):
            loss, accuracy = build(images, labels)
            losses.append(loss)
            accuracies.append(accuracy)
    with v1.device(plan.consolidation):
        return tf.add_n(losses) / count, tf.add_n(accuracies) / count
