"""Begin of every graph in which a model is built: its seed and its global step.

Called by all that call a model_fn.
"""

import tensorflow as tf

from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1

_SEEDS_OF_WORKERS = 1_000_003
"""Difference of the seeds of workers that sum their gradients; all get the chief's variables."""


def begin_graph(config: RunConfig) -> None:
    """Sets the seed of the default graph, then makes its global step on the CPU.

    On a GPU, TensorFlow's choice, each reading of the global step would be a copy.
    """
    seed = config.tf_random_seed
    if seed is not None and config.all_reduce is not None:  # Workers shuffle and drop by their own.
        seed += _SEEDS_OF_WORKERS * (config.global_id_in_cluster or 0)
    v1.set_random_seed(seed)
    with v1.device("/device:CPU:0"):
        v1.train.create_global_step()
