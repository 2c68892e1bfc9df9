"""Time to the first step of tensorflow/kfac 0.2.4 and of momentum SGD. Prints the record as JSON.

Runs in an environment of `benchmarks.rivals.environments`, where `kfac` is that package and not
this project's.

    python -E -s tensorflow_kfac_starts.py resnet20 K-FAC v1
"""

import json
import sys
from typing import Any

import first_step
import resnets
import tensorflow as tf

import kfac

v1 = tf.compat.v1

BATCH_SIZE = 128


def build(network: str, optimizer: str) -> Any:
    """Returns the operation that trains a network, layers registered automatically."""
    logits = resnets.logits(resnets.random_images(BATCH_SIZE), resnets.UNITS[network])
    loss = resnets.mean_loss(logits)
    if optimizer == "momentum":
        return v1.train.MomentumOptimizer(1e-3, 0.9).minimize(loss)
    layers = kfac.LayerCollection()
    layers.set_default_fully_connected_approximation("kron")
    layers.set_default_scale_and_shift_approximation("diagonal")
    layers.register_categorical_predictive_distribution(logits)
    layers.set_default_generic_approximation("diagonal")  # Scales and shifts of batch norms.
    layers.auto_register_layers(batch_size=BATCH_SIZE)
    return kfac.PeriodicInvCovUpdateKfacOpt(
        invert_every=100,
        cov_update_every=10,
        learning_rate=1e-4,
        momentum=0.9,
        damping=0.01,
        norm_constraint=1e-3,
        layer_collection=layers,
    ).minimize(loss, global_step=v1.train.create_global_step())


def main(network: str, optimizer: str, control_flow: str) -> None:
    """Measures one start and prints it."""
    if control_flow == "v1":
        v1.disable_v2_behavior()
    else:
        v1.disable_eager_execution()
    print(json.dumps(first_step.measure(lambda: build(network, optimizer))))


if __name__ == "__main__":
    main(*sys.argv[1:])
