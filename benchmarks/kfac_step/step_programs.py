"""Training programs for the step benchmark: a model and an optimizer in a session of their own."""

from typing import Any

import tensorflow as tf

import kfac
from benchmarks.kfac_step import INVERT_EVERY, registered_models
from benchmarks.kfac_step.operation_counts import executed_operations
from benchmarks.session_programs import SessionProgram, traced

v1 = tf.compat.v1

ENCODER = (784, 1000, 500, 250, 30)
"""Units of the encoder. The decoder mirrors them."""


class Program(SessionProgram):
    """A model and an optimizer in their own graph and session."""

    def __init__(
        self,
        model: str,
        optimizer: str,
        batch_size: int,
        momentum_type: str = "regular",
        device: str = "",
    ) -> None:
        """Builds the graph of a model for "momentum" or "kfac", and initializes the variables."""

        def build() -> Any:
            loss, layers = BUILDERS[model](_random_images(batch_size))
            chosen = _make_optimizer(optimizer, layers, momentum_type)
            return chosen.minimize(loss, v1.train.get_global_step())

        super().__init__(build, device)

    def executed_operations(self) -> float:
        """Returns the mean operations per step over one interval between inverses.

        Counts them in a copy of the program that starts anew.
        """
        with inlined_session(self.graph) as session:
            session.run(self.initializer.name)
            steps = [traced(session, self.train.name) for _ in range(INVERT_EVERY)]
        return sum(map(executed_operations, steps)) / len(steps)


def inlined_session(graph: tf.Graph) -> v1.Session:
    """Returns a session of a graph's copy in which TensorFlow inlines all functions.

    A trace names the operations of a function that is called as the function's body does, alike in
    all calls, so that their shapes are not known. Inlined operations have names of their own.
    """
    definition = graph.as_graph_def()
    for function in definition.library.function:
        function.attr["_noinline"].b = False
    with tf.Graph().as_default() as copy:
        tf.import_graph_def(definition, name="")
    return v1.Session(graph=copy, config=v1.ConfigProto())


def _random_images(batch_size: int) -> Any:
    """Returns images [batch, 28, 28, 1] from a variable, which prevents constant folding."""
    shape = [batch_size, 28, 28, 1]
    return v1.get_variable(
        "images", shape, initializer=v1.random_uniform_initializer(), trainable=False
    ).read_value()


def build_convnet(images: Any) -> tuple[Any, kfac.LayerCollection]:
    """Returns the loss and the registered layers of the examples' ConvNet."""
    layers = kfac.LayerCollection()
    labels = tf.range(images.shape[0]) % 10
    return registered_models.convnet_loss(images, labels, layers), layers


def build_autoencoder(images: Any) -> tuple[Any, kfac.LayerCollection]:
    """Returns the loss and the registered layers of an autoencoder with sigmoids."""
    layers = kfac.LayerCollection()
    loss = registered_models.autoencoder_loss(images, ENCODER, tf.sigmoid, tf.sigmoid, layers)
    return loss, layers


BUILDERS = {"convnet": build_convnet, "autoencoder": build_autoencoder}
"""Functions by model, from images to the loss and the registered layers."""


def _make_optimizer(name: str, layers: kfac.LayerCollection, momentum_type: str) -> Any:
    if name == "momentum":
        return v1.train.MomentumOptimizer(1e-3, 0.9)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_EVERY,
        learning_rate=1e-4,
        damping=0.1,
        layer_collection=layers,
        momentum_type=momentum_type,
    )
