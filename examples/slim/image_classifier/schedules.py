"""Learning rates that follow the epochs: exponential, polynomial or fixed, with a warm-up.

Owns how many steps an epoch has and what the learning rate is at a step. The flags of
`train_image_classifier` fill a Schedule; `training.py` builds the Tensor.
"""

import dataclasses
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
Tensor = Any

DECAY_TYPES = ("exponential", "fixed", "polynomial")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Schedule:
    """Schedule of the learning rate. The fields are flags of the same names.

    Attributes:
      learning_rate: At the beginning, after the warm-up.
      learning_rate_decay_type: One of DECAY_TYPES.
      learning_rate_decay_factor: Exponential: what the rate is multiplied with at each decay.
      num_epochs_per_decay: Exponential: epochs between two decays. Polynomial: epochs in which the
        rate goes down, in a straight line, to the end.
      end_learning_rate: Polynomial: where it stays then.
      warmup_epochs: Epochs in which it rises from 0 in a straight line, if that is lower.
    """

    learning_rate: float
    learning_rate_decay_type: str
    learning_rate_decay_factor: float
    num_epochs_per_decay: float
    end_learning_rate: float
    warmup_epochs: float


def steps_per_epoch(num_samples: int, batch_size: int, batches_per_step: int = 1) -> float:
    """Returns the steps of an epoch.

    Args:
      num_samples: Images in the dataset.
      batch_size: Images in a batch, which is that of one clone.
      batches_per_step: Batches that one step is counted as: the replicas that a synchronous step
        waits for, and the clones if they are to be counted.
    """
    return num_samples / batch_size / batches_per_step


def learning_rate(schedule: Schedule, epoch_steps: float, global_step: Tensor) -> Tensor:
    """Builds the learning rate of a step, float32 [].

    Raises:
      ValueError: As `check`.
    """
    check(schedule, epoch_steps)
    rate = _decayed(schedule, epoch_steps, global_step)
    warmup_steps = schedule.warmup_epochs * epoch_steps
    if warmup_steps:
        risen = schedule.learning_rate * tf.cast(global_step, tf.float32) / warmup_steps
        rate = tf.minimum(rate, risen, name="warm_learning_rate")
    return rate


def check(schedule: Schedule, epoch_steps: float) -> None:
    """Checks that a learning rate can follow a schedule.

    Raises:
      ValueError: The type of decay is unknown, or there is less than a step from one decay to the
        next.
    """
    kind, epochs = schedule.learning_rate_decay_type, schedule.num_epochs_per_decay
    if kind not in DECAY_TYPES:
        raise ValueError(
            f"Unknown learning_rate_decay_type {kind!r}; known are {', '.join(DECAY_TYPES)}."
        )
    if kind != "fixed" and epoch_steps * epochs < 1:
        raise ValueError(
            f"Cannot decay the learning rate every {epochs:g} epochs of {epoch_steps:g} steps: "
            "that is less than a step. Set --num_epochs_per_decay higher, --batch_size lower, or "
            "--learning_rate_decay_type=fixed."
        )


def _decayed(schedule: Schedule, epoch_steps: float, global_step: Tensor) -> Tensor:
    kind = schedule.learning_rate_decay_type
    if kind == "fixed":
        return tf.constant(schedule.learning_rate, name="fixed_learning_rate")
    decay_steps = int(epoch_steps * schedule.num_epochs_per_decay)
    if kind == "exponential":
        return v1.train.exponential_decay(
            schedule.learning_rate,
            global_step,
            decay_steps,
            schedule.learning_rate_decay_factor,
            staircase=True,
            name="exponential_decay_learning_rate",
        )
    return v1.train.polynomial_decay(
        schedule.learning_rate,
        global_step,
        decay_steps,
        schedule.end_learning_rate,
        name="polynomial_decay_learning_rate",
    )
