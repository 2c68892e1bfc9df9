"""Workers: the callback that keeps several processes together in Keras' `fit` and `evaluate`."""

from collections.abc import MutableMapping, Sequence
from typing import Any, TypeAlias, final

import keras
import numpy as np

from replicate.errors import WorkersDifferError
from replicate.estimator.log import log
from replicate.keras import metrics
from replicate.keras.optimizer import sums_gradients
from replicate.keras.process import current
from replicate.keras.sums import Exchange

_Logs: TypeAlias = MutableMapping[str, Any] | None

_CHANGING = (
    keras.callbacks.EarlyStopping,
    keras.callbacks.LearningRateScheduler,
    keras.callbacks.ReduceLROnPlateau,
    keras.callbacks.TerminateOnNaN,
)
"""Callbacks that change training."""


@final
class Workers(keras.callbacks.Callback):
    """Keeps the processes of `DistributedOptimizer` together, in `fit` and in `evaluate`.

    - All begin with the weights and the optimizer's state of the chief, and at the same epoch.
    - Metrics of epochs and evaluations are those of all batches; the numbers beside the progress
      bar within an epoch are of this process.
    - Moving averages of batch normalization are averaged before evaluations and saves.
    - If a process is lost, the others end at once, with the exit code after which schedulers start
      them again.
    """

    def __init__(self, chief: Sequence[Any] = ()) -> None:
        """Makes the callback.

        Args:
          chief: Callbacks that only the chief runs, such as those that save. `BackupAndRestore`
            among them is restored by all, from a directory that all can read.

        Raises:
          TypeError: Something in `chief` is not a callback of Keras.
          ValueError: A callback in `chief` changes training, which all have to do alike; or the
            processes cannot be connected, as in `init`.
        """
        super().__init__()
        for each in chief:
            if not isinstance(each, keras.callbacks.Callback):
                raise TypeError(f"Workers(chief=...) takes callbacks of Keras, got {each!r}.")
            if isinstance(each, _CHANGING):
                raise ValueError(
                    f"Workers(chief=...) has {type(each).__name__}, which would change training on "
                    "the chief alone. Give it to fit, beside Workers: all processes have the same "
                    "metrics, and run it alike."
                )
        self._process = current()
        self._exchange = Exchange(self._process)
        self._restoring = [
            each for each in chief if isinstance(each, keras.callbacks.BackupAndRestore)
        ]
        self._chief = keras.callbacks.CallbackList(list(chief) if self._process.is_chief else [])
        self._depth = 0
        self._has_begun = False

    @property
    def _is_alone(self) -> bool:
        return self._process.size == 1

    def set_params(self, params: Any) -> None:
        """Takes what Keras says about the loop."""
        super().set_params(params)
        self._chief.set_params(params)
        for each in self._restoring:
            each.set_params(params)

    def set_model(self, model: Any) -> None:
        """Takes the model, before Keras makes its training function."""
        super().set_model(model)
        self._chief.set_model(model)
        for each in self._restoring:
            each.set_model(model)
        if not self._is_alone and getattr(model, "jit_compile", False):
            model.jit_compile = False
            log.info("jit_compile is off for model %r: XLA compiles no collectives.", model.name)

    def on_train_begin(self, logs: _Logs = None) -> None:
        """Begins: the chief restores, then the others.

        Raises:
          ValueError: The model's optimizer is not one of `DistributedOptimizer`.
          WorkersDifferError: The processes have other models, or other numbers of batches.
        """
        self._depth, self._has_begun = 0, False
        self._process.watch.forget()  # A loop that an error has ended.
        self._begin()
        if not self._is_alone:
            self._check_alike()
        self._chief.on_train_begin(logs)
        if self._is_alone:
            return
        self._exchange.of_each([1])  # The chief has restored.
        if not self._process.is_chief:
            for each in self._restoring:
                each.on_train_begin(logs)

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        """Begins an epoch; in the first, all take the chief's values.

        Raises:
          WorkersDifferError: The processes begin with different epochs.
        """
        if not self._is_alone and not self._has_begun:
            self._check_epoch(epoch)
            self._take_over()
            self._has_begun = True
        self._process.watch.beat()
        self._chief.on_epoch_begin(epoch, logs)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        """Ends an epoch. What a `train_step` of the user's logs, and no metric, is averaged."""
        self._average()
        if logs is not None and not self._is_alone:
            logs.update(metrics.averages(logs, self._exchange))
        self._chief.on_epoch_end(epoch, logs)
        self._process.watch.beat()

    def on_test_begin(self, logs: _Logs = None) -> None:
        """Begins an evaluation, within an epoch or by itself."""
        self._begin()
        self._average()
        self._chief.on_test_begin(logs)

    def on_test_end(self, logs: _Logs = None) -> None:
        """Ends an evaluation."""
        self._chief.on_test_end(logs)
        self._end()

    def on_train_end(self, logs: _Logs = None) -> None:
        """Ends when all processes have made their last step."""
        self._chief.on_train_end(logs)
        if not self._is_alone:
            self._exchange.of_each([1])
        self._end()

    def on_train_batch_begin(self, batch: int, logs: _Logs = None) -> None:
        """Begins a batch."""
        self._process.watch.beat()
        self._chief.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        """Ends a batch."""
        self._process.watch.beat()
        self._chief.on_train_batch_end(batch, logs)

    def on_test_batch_begin(self, batch: int, logs: _Logs = None) -> None:
        """Begins a batch of an evaluation."""
        self._process.watch.beat()
        self._chief.on_test_batch_begin(batch, logs)

    def on_test_batch_end(self, batch: int, logs: _Logs = None) -> None:
        """Ends a batch of an evaluation."""
        self._process.watch.beat()
        self._chief.on_test_batch_end(batch, logs)

    def _begin(self) -> None:
        """Begins a loop; that of an evaluation may be inside that of training."""
        self._process.watch.begin()
        self._depth += 1
        if self._depth == 1 and not self._is_alone:
            self.model.__dict__.pop(
                "get_metrics_result", None
            )  # Of a loop that an error has ended.
            self.model.get_metrics_result = metrics.Results(self.model, self._exchange)

    def _end(self) -> None:
        self._depth -= 1
        if self._depth == 0 and not self._is_alone:
            del self.model.get_metrics_result
        self._process.watch.end()

    def _average(self) -> None:
        """Averages the moving averages of batch normalization."""
        averages = [] if self._is_alone else _averages(self.model)
        sums = self._exchange.sum([np.asarray(each) for each in averages]) if averages else []
        for variable, total in zip(averages, sums, strict=True):
            variable.assign(total / self._process.size)

    def _check_alike(self) -> None:
        is_own_step = type(self.model).train_step is not keras.Model.train_step
        if not (is_own_step or sums_gradients(self.model.optimizer)):
            raise ValueError(
                f"The optimizer {self.model.optimizer.name!r} is not one of DistributedOptimizer, "
                "so each process would train on its own. Compile the model with one; for a loaded "
                "model call replicate.keras.DistributedOptimizer(model.optimizer)."
            )
        variables = self.model.variables
        weights = sum(int(np.prod(each.shape)) for each in variables)
        steps = (self.params or {}).get("steps")
        own = [weights, len(variables), -1 if steps is None else steps]
        self._compare(own, ("weights", "variables", "batches in an epoch"))

    def _check_epoch(self, epoch: int) -> None:
        self._compare([epoch], ("epochs before the first",))

    def _compare(self, own: Sequence[float], texts: Sequence[str]) -> None:
        rows = self._exchange.of_each(own)
        for column, text in enumerate(texts):
            for rank in range(self._process.size):
                if rows[rank, column] != rows[0, column]:
                    raise WorkersDifferError(
                        f"The processes cannot train together: {self._process.names[rank]} has "
                        f"{rows[rank, column]:g} {text}, and {self._process.names[0]} has "
                        f"{rows[0, column]:g}. All need the same model, equally many batches "
                        "(steps_per_epoch), and a backup directory that all can read."
                    )

    def _take_over(self) -> None:
        """Gives all processes the chief's weights and the state of its optimizer."""
        optimizer = self.model.optimizer
        if not optimizer.built:
            optimizer.build(self.model.trainable_variables)
        variables = [*self.model.variables, *optimizer.variables]
        taken = [each for each in variables if _is_sent(each)]
        own = [np.asarray(each) for each in taken]
        sent = own if self._process.is_chief else [np.zeros_like(each) for each in own]
        for variable, value in zip(taken, self._exchange.sum(sent), strict=True):
            variable.assign(value)


def _averages(model: Any) -> list[Any]:
    """Returns the moving averages of a model: what it does not train, and is no count or seed."""
    kept = {id(each) for metric in model.metrics for each in metric.variables}
    return [
        each
        for each in model.non_trainable_variables
        if id(each) not in kept and np.issubdtype(np.dtype(each.dtype), np.floating)
    ]


def _is_sent(variable: Any) -> bool:
    """Returns True for a variable of numbers; the state of random numbers stays each process's."""
    return "seed" not in str(variable.path).rsplit("/", 1)[-1]
