"""Begin of every graph in which a model is built: its seed and its global step.

Called by all that call a model_fn.
"""

import tensorflow as tf

from replicate.estimator.run_config import RunConfig

v1 = tf.compat.v1


def begin_graph(config: RunConfig) -> None:
    """Sets the seed of the default graph, then makes its global step on the CPU.

    On a GPU, TensorFlow's choice, each reading of the global step would be a copy.

    Args:
      config: Settings with the seed.
    """
    v1.set_random_seed(config.tf_random_seed)
    with v1.device("/device:CPU:0"):
        v1.train.create_global_step()
