"""Agreement of all workers without parameter servers on the step after which they stop."""

from typing import final

import tensorflow as tf

from replicate.all_reduce.step import WorkerStep
from replicate.errors import ClusterError
from replicate.estimator.hooks.readings import StepReadings

v1 = tf.compat.v1

_A_HOOK, _A_SIGNAL = 1, 2
"""Reasons for which a worker wishes to stop."""


@final
class StopAgreement:
    """Lets a worker ask all workers to stop after their next step.

    A worker that stopped by itself would leave the others waiting for its gradients.
    """

    def __init__(self, workers: WorkerStep, readings: StepReadings):
        self._group = workers.group
        self._readings = readings
        self._new_wish = v1.placeholder(tf.int64, [])
        self._set_wish = workers.wish.assign(self._new_wish, read_value=False)
        self._wish = 0

    def ask(self, session: v1.Session, has_signal: bool) -> None:
        """Asks the others to stop after their next step."""
        wish = _A_SIGNAL if has_signal else _A_HOOK
        if wish > self._wish:
            session.run(self._set_wish, {self._new_wish: wish})
            self._wish = wish

    @property
    def is_reached(self) -> bool:
        """True if a worker has asked for the end before the last step."""
        return any(self._readings.wishes)

    @property
    def is_by_signal(self) -> bool:
        """True if a signal has asked one of the workers to end."""
        return any(wish == _A_SIGNAL for wish in self._readings.wishes)

    def raise_if_by_signal(self) -> None:
        """Ends a worker whose peers were asked to end.

        Raises:
          ClusterError: A signal has asked another worker to end.
        """
        asked = [
            name
            for name, wish in zip(self._group.names, self._readings.wishes, strict=False)
            if wish == _A_SIGNAL
        ]
        if asked:
            raise ClusterError(
                f"Training stops at step {self._readings.step} because a signal has asked "
                f"{', '.join(asked)} to end. Start all workers again; training continues from the "
                "newest checkpoint."
            )
