"""Training programs for the step benchmark: a model and an optimizer in a session of their own."""

from typing import Any

import tensorflow as tf

import kfac
from benchmarks.kfac_step import INVERT_EVERY, registered_models
from benchmarks.kfac_step.operation_counts import executed_operations
from benchmarks.kfac_step.residual_networks import (
    NETWORKS,
    make_kfac,
    mean_loss,
    random_images,
    registered_logits,
)
from benchmarks.session_programs import SessionProgram, traced

v1 = tf.compat.v1

BATCH_SIZE = 256
"""Examples in a batch, unless of a residual network."""
ENCODER = (784, 1000, 500, 250, 30)
"""Units of the encoder. The decoder mirrors them."""


class Program(SessionProgram):
    """A model and an optimizer in their own graph and session."""

    def __init__(
        self,
        model: str,
        optimizer: str,
        batch_size: int = 0,
        momentum_type: str = "regular",
        curvature_share: float = 1.0,
        device: str = "",
    ) -> None:
        """Builds the graph and initializes the variables.

        Args:
          model: One of `MODELS`, or a residual network.
          optimizer: One of `OPTIMIZERS`.
          batch_size: Examples in a batch; 0 for the usual number.
          momentum_type: That of K-FAC, unless on a residual network.
          curvature_share: Share of the examples that averages of a residual network are made of.
          device: Device of all operations.
        """

        def build() -> Any:
            layers = kfac.LayerCollection() if optimizer == "K-FAC" else None
            loss = _loss(model, batch_size, layers, curvature_share)
            if layers is None:
                chosen = v1.train.MomentumOptimizer(1e-3, 0.9)
            elif model in NETWORKS:
                chosen = make_kfac(layers, spread_inverses=True)
            else:
                chosen = kfac.PeriodicInvCovUpdateKfacOpt(
                    invert_every=INVERT_EVERY,
                    learning_rate=1e-4,
                    damping=0.1,
                    layer_collection=layers,
                    momentum_type=momentum_type,
                )
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


def _loss(
    model: str, batch_size: int, layers: kfac.LayerCollection | None, curvature_share: float
) -> Any:
    """Returns the loss of a model, whose layers it registers if there is a collection."""
    if model in NETWORKS:
        network = NETWORKS[model]
        images = random_images(network, batch_size or network.batch_size)
        if layers is None:
            return mean_loss(network.logits(images))
        return mean_loss(registered_logits(network, images, layers, curvature_share))
    images = _random_images(batch_size or BATCH_SIZE)
    if model == "convnet":
        return registered_models.convnet_loss(images, tf.range(images.shape[0]) % 10, layers)
    return registered_models.autoencoder_loss(images, ENCODER, tf.sigmoid, tf.sigmoid, layers)
