"""StepReadings: step and loss of the last step, and its wait for input, read once for all hooks.

Owns the one fetch that the hooks of a run share. `step_loop.py` makes the fetch; the hooks
(`saving.py`, `events.py`, `finite.py` and others) read its results here.
"""

import numpy as np
import tensorflow as tf

from replicate._types import Nest, Operation, Tensor
from replicate.all_reduce.step import WorkerStep
from replicate.batch.nests import flatten
from replicate.gradients.skipping import SKIPPING, NonFiniteSkipping

v1 = tf.compat.v1


class StepReadings:
    """The step and the loss of the last run.

    Attributes:
      step: The step counter, after the last run.
      loss: The loss of the last run, None before the first.
      loss_tensor: The Tensor of the loss.
      skipped: Description of the value that was not finite, for each optimizer that skipped the
        last run's step.
      input_secs: Seconds that all runs have waited for their batch; 0 if it was not given.
      wishes: Wishes of the workers to stop, by rank, 0 for none; empty for a process alone.
      losses: Each worker's part of the loss, by its name; empty for a process alone.
      fetch: float64 Tensor [3 + optimizers that may skip a step + 2 workers]. A run that fetches it
        makes a step; `take` stores its value.
    """

    def __init__(
        self,
        step_op: Operation,
        loss: Tensor,
        counter: Tensor | None = None,
        batch: Nest = None,
        workers: WorkerStep | None = None,
    ):
        """Stores what the readings are made from.

        Args:
          step_op: Makes a step.
          loss: Scalar.
          counter: Counts the steps; None for the global step.
          batch: Tensors of the input, whose wait is measured.
          workers: Tells the wishes of the workers; None for a process that trains alone.
        """
        self.step = 0
        self.loss: float | None = None
        self.loss_tensor = loss
        self.skipped: list[str] = []
        self.input_secs = 0.0
        self.wishes: list[float] = []
        self.losses: dict[str, float] = {}
        self.fetch: Tensor = None
        self._workers = workers
        self._skipping: list[NonFiniteSkipping] = []
        self._step_op = step_op
        self._counter = counter
        self._batch = batch

    def begin(self) -> None:
        """Adds one Tensor with all readings to the graph, since each fetch costs time."""
        self._skipping = v1.get_collection(SKIPPING)
        if self._counter is None:
            self._counter = v1.train.get_global_step()
        with tf.control_dependencies([self._step_op]), v1.device("/cpu:0"):
            step = tf.cast(self._counter.read_value(), tf.float64)
            read = [
                self.loss_tensor,
                _wait_for(self._batch),
                *(skipping.cause for skipping in self._skipping),
            ]
            numbers = [step, *(tf.cast(tensor, tf.float64) for tensor in read)]
            if self._workers is not None:
                numbers += tf.unstack(self._workers.wishes, self._workers.size)
                losses = self._workers.losses_of_each(self.loss_tensor)
                if losses is not None:
                    numbers += tf.unstack(tf.cast(losses, tf.float64), self._workers.size)
            self.fetch = tf.stack(numbers, name="readings")

    def after_create_session(self, session: v1.Session) -> None:
        """Reads the step that the session starts with."""
        self.step = int(session.run(self._counter))

    def take(self, values: np.ndarray) -> None:
        """Stores the value of `fetch` after a run."""
        step, self.loss, waited, *others = values.tolist()
        causes = others[: len(self._skipping)]
        of_workers = others[len(self._skipping) :]
        names = self._workers.names if self._workers else ()
        self.wishes = of_workers[: len(names)]
        self.losses = dict(zip(names, of_workers[len(names) :], strict=False))
        self.step = int(step)
        self.input_secs += waited
        self.skipped = [
            skipping.descriptions[int(cause) - 1]
            for skipping, cause in zip(self._skipping, causes, strict=True)
            if cause
        ]


def _wait_for(batch: Nest) -> Tensor:
    """Returns the seconds from the start of a step until its batch is there, a float64 scalar.

    Both times are read on the task that reads the input, without a wait for anything else. Reading
    them before the model is built would change the seeds of its operations.
    """
    tensors = [
        leaf for leaf in flatten(batch, expand_composites=True) if isinstance(leaf, tf.Tensor)
    ]
    if not tensors:
        return tf.constant(0.0, tf.float64)
    device = tf.DeviceSpec.from_string(tensors[0].device or "")
    host = device.replace(device_type="CPU", device_index=0).to_string()
    with tf.control_dependencies(None), v1.device(host), v1.name_scope("input_wait"):
        start = tf.timestamp(name="start")
        with tf.control_dependencies([*tensors, start]):
            return tf.timestamp(name="end") - start
