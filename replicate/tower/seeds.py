"""Seeds that give a resumed run the same random numbers as an uninterrupted one.

TensorFlow's stateful random operations (`tf.nn.dropout`, `tf.random.uniform`) keep their state in
the session, where it cannot be saved. A resumed run draws their first numbers again. The numbers of
stateless operations depend on their seed only. With a seed made of the global step, a resumed run
draws the same numbers as an uninterrupted one.
"""

import tensorflow as tf

from model_deploy.devices import CPU
from replicate._types import Tensor
from replicate.tower.build import current_tower

v1 = tf.compat.v1


def step_seed(op_seed: int) -> Tensor:
    """Returns a seed that differs between steps, towers and operations, for use in a model_fn.

    For example, dropout that resumes exactly:
    `tf.nn.experimental.stateless_dropout(x, rate=0.5, seed=replicate.step_seed(1))`.

    Args:
      op_seed: A different number for each random operation of the model, from 0 to 2³¹ - 1.

    Returns:
      int64 Tensor [2].

    Raises:
      ValueError: op_seed is out of range, or the graph has no global step.
    """
    if not isinstance(op_seed, int) or not 0 <= op_seed < 2**31:
        raise ValueError(
            f"step_seed: op_seed must be a whole number from 0 to 2**31 - 1, got {op_seed!r}. Give "
            "each random operation of the model its own number."
        )
    step = v1.train.get_global_step()
    if step is None:
        raise ValueError(
            "step_seed: the graph has no global step. Call it in a model_fn, or after "
            "tf.compat.v1.train.create_global_step()."
        )
    tower = current_tower()
    place = op_seed * 2**16 + (tower.index if tower else 0)
    with v1.device(CPU):  # Stateless operations on GPUs read their seeds in the CPU's memory.
        return tf.stack([tf.constant(place, tf.int64), tf.cast(step.read_value(), tf.int64)])
