"""Arguments that the optimizers of both Keras take, and their checks."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from kfac._types import Scalar, Tensor, Variable
from kfac.keras.training import current_graph


def check_needed(adaptive: bool, learning_rate: Scalar | None, damping: Scalar | None) -> None:
    """Checks that the numbers are given that nothing computes.

    Raises:
      ValueError: One is missing, or there is a learning rate that would have no effect.
    """
    missing = [] if adaptive else [("learning_rate", learning_rate), ("damping", damping)]
    names = " and ".join(name for name, value in missing if value is None)
    if names:
        raise ValueError(
            f"Cannot set up K-FAC: {names} is missing. Pass numbers, such as "
            "Kfac(learning_rate=0.01, damping=0.001), or adaptive=True, which computes them."
        )
    if adaptive and learning_rate is not None:
        raise ValueError(
            f"Cannot set up K-FAC: learning_rate={learning_rate!r} does not go with adaptive=True, "
            "which computes it in each step. Leave out one of both."
        )


def loss_and_gradients(
    loss: Callable[[], Tensor] | Tensor, variables: Sequence[Variable], tape: Any
) -> tuple[Tensor, list[Tensor | None]]:
    """Returns a loss and its gradients.

    Args:
      loss: Returns the loss, shape []; or the loss itself, with the tape that recorded it.
      variables: The variables to train.
      tape: A `tf.GradientTape`, if the loss is a Tensor.

    Raises:
      RuntimeError: TensorFlow executes eagerly.
      ValueError: A Tensor was given without a tape.
    """
    current_graph()
    if callable(loss):
        with tf.GradientTape() as own:
            value = loss()
        return value, own.gradient(value, list(variables))
    if tape is None:
        raise ValueError(
            f"Cannot minimize {loss!r}: it is a Tensor, and there is no tape. Pass a function that "
            "returns the loss, or the tf.GradientTape that recorded it as tape."
        )
    return loss, tape.gradient(loss, list(variables))
