"""Seeds of random operations that go on after a restart as if there had been none.

TensorFlow's stateful random operations (`tf.nn.dropout`, `tf.random.uniform`) keep their state in
the session and offer no way to save it: a resumed run draws their first numbers once more, whatever
its seeds. Stateless operations draw what their seed says; with a seed made of the global step, as
here, a resumed run and an uninterrupted one draw the same.
"""

import tensorflow as tf

from replicate._types import Tensor
from replicate.towers import current_tower

v1 = tf.compat.v1


def step_seed(op_seed: int) -> Tensor:
    """Returns a seed that differs between steps, towers and operations, for use in a model_fn.

    For example, dropout that resumes exactly:
    `tf.nn.experimental.stateless_dropout(x, rate=0.5, seed=replicate.step_seed(1))`.

    Args:
      op_seed: Tells the random operations of a model apart; from 0 to 2³¹ - 1.

    Returns:
      int64 Tensor [2].

    Raises:
      ValueError: op_seed is out of range, or the graph has no global step.
    """
    if not isinstance(op_seed, int) or not 0 <= op_seed < 2**31:
        raise ValueError(
            f"step_seed: op_seed must be a whole number from 0 to 2**31 - 1, got {op_seed!r}. Give "
            "each random operation of the model its own."
        )
    step = v1.train.get_global_step()
    if step is None:
        raise ValueError(
            "step_seed: the graph has no global step. Call it in a model_fn, or after "
            "tf.compat.v1.train.create_global_step()."
        )
    tower = current_tower()
    place = op_seed * 2**16 + (tower.index if tower else 0)
    return tf.stack([tf.constant(place, tf.int64), tf.cast(step.read_value(), tf.int64)])
