"""Training programs of the benchmark: a residual network and an optimizer in their own session."""

import functools
import math
from typing import Any

import tensorflow as tf

import kfac
from benchmarks import harness
from benchmarks.resnet_kfac import AVERAGE_EVERY, INVERT_EVERY
from benchmarks.resnet_kfac.residual_networks import NETWORKS, mean_loss, random_images

v1 = tf.compat.v1


class Program:
    """A network and an optimizer in their own graph and session."""

    def __init__(
        self, network: str, optimizer: str, batch_size: int, curvature_share: float = 1.0
    ) -> None:
        """Builds the graph and initializes the variables.

        Args:
          network: A key of `NETWORKS`.
          optimizer: One of `benchmarks.resnet_kfac.OPTIMIZERS`.
          batch_size: Examples in a batch; 0 means the usual number.
          curvature_share: Share of the examples that K-FAC's averages are made of.
        """
        graph = tf.Graph()
        with graph.as_default():
            v1.set_random_seed(1)
            chosen = NETWORKS[network]
            images = random_images(chosen, batch_size or chosen.batch_size)
            if optimizer == "momentum":
                loss = mean_loss(chosen.logits(images))
                self._train = v1.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
            else:
                used = images[: math.ceil(curvature_share * images.shape[0])]
                logits = chosen.logits(used)
                layers = _registered(logits)
                if curvature_share < 1:
                    with v1.variable_scope(v1.get_variable_scope(), reuse=True):
                        logits = chosen.logits(images)
                self._train = _make_kfac(layers).minimize(mean_loss(logits))
            initializer = v1.global_variables_initializer()
        self._session = v1.Session(graph=graph)
        self._session.run(initializer)

    def seconds(self, steps: int) -> list[float]:
        """Runs some steps and returns the seconds of each."""
        step = functools.partial(self._session.run, self._train)
        return [harness.mean_seconds(step, 1) for _ in range(steps)]


def _registered(logits: Any) -> kfac.LayerCollection:
    layers = kfac.LayerCollection()
    # A full block of n channels has 2n rows: as many as the largest convolutions, for few weights.
    layers.set_default_scale_and_shift_approximation("diagonal")
    layers.register_categorical_predictive_distribution(logits)
    layers.auto_register_layers()
    return layers


def _make_kfac(layers: kfac.LayerCollection) -> Any:
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=INVERT_EVERY,
        cov_update_every=AVERAGE_EVERY,
        spread_inverses=True,
        learning_rate=1e-4,
        momentum=0.9,
        damping=0.01,
        norm_constraint=1e-3,
        layer_collection=layers,
    )
