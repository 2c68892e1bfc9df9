"""StopConditions: conditions outside of the training loop that end it.

Owns the answers to two questions: shall the loop end, and shall a process stop waiting for others.
The causes are signals, a cluster that is lost, and, for a worker, the end of the chief's training.
`training.py` asks before and after each step, the session creators ask while they wait.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from replicate.estimator.cluster.recovery import Restarts
from replicate.estimator.cluster.servers import absent_tasks
from replicate.estimator.cluster.sync_replicas import SyncReplicasHook, with_orderly_ends
from replicate.estimator.cluster.watchdog import Watchdog
from replicate.estimator.end_marker import TrainingEnd, has_ended
from replicate.estimator.hooks.finite import require_finite_loss
from replicate.estimator.hooks.readings import StepReadings
from replicate.estimator.hooks.step_loop import StopAgreement
from replicate.estimator.run_config import RunConfig
from replicate.estimator.signals import Interruption
from replicate.roles import CHIEFS, TaskType


class StopConditions:
    """Conditions that end one training run: signals, a lost cluster, the end of the chief."""

    def __init__(
        self,
        interruption: Interruption,
        readings: StepReadings,
        config: RunConfig,
        training_end: TrainingEnd | None = None,
        check_writer: Callable[[], Any] = bool,
        agreement: StopAgreement | None = None,
    ):
        """Stores the sources of the conditions.

        The chief has no `training_end`. `check_writer`, called after each step and in each wait,
        raises ModelDirInUseError if another process writes the checkpoints now.
        """
        self.readings = readings
        self.config = config
        self.has_input_ended = False
        self.watchdog = Watchdog(config, self.is_interrupted, self._release_workers)
        self.restarts = Restarts(config, readings)
        self._interruption = interruption
        self._training_end = training_end
        self._check_writer = check_writer
        self.agreement = agreement
        self._user_hooks: list[Any] = []

    def wrap_user_hooks(self, hooks: Sequence[Any]) -> list[Any]:
        """Returns the user's hooks as the loop calls them, and keeps them for the watchdog."""
        config = self.config
        self._user_hooks = with_orderly_ends(
            hooks, config.is_chief, self.is_interrupted, config.global_id_in_cluster or 0
        )
        return self._user_hooks

    def is_interrupted(self) -> bool:
        """Returns True if a signal asks for the end."""
        return self._interruption.signum is not None

    def should_cancel_wait(self) -> bool:
        """Returns True if a session should no longer wait for other processes.

        Raises:
          ModelDirInUseError: Another process has taken over the model directory.
        """
        self.watchdog.beat()
        self._check_writer()
        return self.is_interrupted() or self.watchdog.error is not None or self._has_chief_ended()

    def continues_input(self) -> bool:
        """Returns True if the next run shall read on at the position that this run has reached."""
        is_interrupted = self.is_interrupted() or (self.agreement and self.agreement.is_by_signal)
        return bool(is_interrupted or (self.config.continue_input and not self.has_input_ended))

    @contextlib.contextmanager
    def record_end_of_input(self) -> Iterator[None]:
        """Records that the input ended inside the context, and passes on its error."""
        try:
            yield
        except (tf.errors.OutOfRangeError, StopIteration):
            self.has_input_ended = True
            raise

    def check_step(self) -> None:
        """Tells the watchdog about a step, and checks its loss.

        Raises:
          NonFiniteError: The loss is NaN or infinite.
          ModelDirInUseError: Another process has taken over the model directory.
        """
        self.watchdog.beat()
        self._check_writer()
        require_finite_loss(self.readings)

    def _release_workers(self) -> None:
        """Ends the wait of a synchronous step for other workers."""
        for hook in self._user_hooks:
            if isinstance(hook, SyncReplicasHook):
                hook.release()

    def _has_chief_ended(self) -> bool:
        if self._training_end is None:
            return False
        config = self.config
        has_made_step = self.readings.loss is not None
        if self._training_end.is_new() or (has_made_step and has_ended(str(config.model_dir))):
            return True
        if config.all_reduce is not None:
            return self._training_end.is_final() and bool(absent_tasks(config, CHIEFS))
        is_final = config.num_ps_replicas > 0 and self._training_end.is_final()
        return is_final and len(absent_tasks(config, [TaskType.PS])) == config.num_ps_replicas
