"""`examples.convnet --mode=single_machine`: one device, a plain graph, a session and a loop.

Uses nothing of `replicate`. `--kfac_updates` selects automatic updates of K-FAC's curvature or
updates chained by hand.
"""

import tensorflow as tf

import kfac
from examples import cli, convnet_model, mnist, plain_training, training
from examples.cli import RunSettings
from examples.convnet_modes import kfac_updates
from examples.training import Params

v1 = tf.compat.v1


def run(data: mnist.Dataset, settings: RunSettings, params: Params) -> None:
    """Trains and evaluates."""
    with cli.bad_input():
        plan = training.plan_one_device(settings)
    training.show_plan(plan, data, settings.batch_size, params)
    with tf.Graph().as_default():
        v1.set_random_seed(settings.seed)
        images, labels = mnist.tensors(*data.train, settings.batch_size, seed=settings.seed)
        model = convnet_model.build_model(images)
        loss = convnet_model.mean_loss(model, labels)
        if params["optimizer"] == "kfac":
            convnet_model.register(kfac.graph_layer_collection(), model, params)
        accuracy = convnet_model.mean_accuracy(model, labels)
        train_op = kfac_updates.minimize(loss, params)
        plain_training.run(train_op, loss, accuracy, convnet_model.predict, data, settings, params)
