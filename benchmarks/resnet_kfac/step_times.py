"""Training programs of the benchmark: a residual network and an optimizer in their own session."""

import math
from typing import Any

import tensorflow as tf

import kfac
from benchmarks import rivals
from benchmarks.resnet_kfac import AVERAGE_EVERY, INVERT_EVERY
from benchmarks.resnet_kfac.residual_networks import NETWORKS, Network, mean_loss, random_images
from benchmarks.session_programs import SessionProgram

v1 = tf.compat.v1


class Program(SessionProgram):
    """A network and an optimizer in their own graph and session."""

    def __init__(
        self, network: str, optimizer: str, batch_size: int, curvature_share: float = 1.0
    ) -> None:
        """Builds the graph and initializes the variables.

        A batch size of 0 means the usual one. `curvature_share` is the share of the examples that
        K-FAC's averages are made of.
        """
        chosen = NETWORKS[network]

        def build() -> Any:
            images = random_images(chosen, batch_size or chosen.batch_size)
            if optimizer == "momentum":
                loss = mean_loss(chosen.logits(images))
                return v1.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
            layers = kfac.LayerCollection()
            logits = registered_logits(chosen, images, layers, curvature_share)
            return make_kfac(layers, spread_inverses=True).minimize(mean_loss(logits))

        super().__init__(build)


def registered_logits(
    network: Network, images: Any, layers: kfac.LayerCollection, curvature_share: float
) -> Any:
    """Builds a network, registers it, and returns the logits of all images.

    With a `curvature_share` below 1 the network is built twice: for the images of which averages
    are made, and for all.
    """
    if curvature_share == 1:
        logits = network.logits(images)
        register(layers, logits)
        return logits
    register(layers, network.logits(images[: math.ceil(curvature_share * int(images.shape[0]))]))
    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
        return network.logits(images)


def register(layers: kfac.LayerCollection, logits: Any) -> None:
    """Registers the layers and the loss of a network in the default graph."""
    # A full block of n channels has 2n rows: as many as the largest convolutions, for few weights.
    layers.set_default_scale_and_shift_approximation("diagonal")
    layers.register_categorical_predictive_distribution(logits, name="classes")
    if rivals.is_here():
        layers.set_default_generic_approximation("diagonal")  # For batch norms' scale and shift.
        layers.auto_register_layers(batch_size=int(logits.shape[0]))
    else:
        layers.auto_register_layers()


def make_kfac(layers: kfac.LayerCollection, **settings: bool) -> Any:
    """Returns K-FAC as the benchmarks set it for residual networks, with further settings."""
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_EVERY,
        cov_update_every=AVERAGE_EVERY,
        **settings,
        learning_rate=1e-4,
        momentum=0.9,
        damping=0.01,
        norm_constraint=1e-3,
        layer_collection=layers,
    )
