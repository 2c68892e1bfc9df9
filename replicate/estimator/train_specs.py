"""TrainSpec and EvalSpec: the arguments of `train_and_evaluate`, checked when they are made."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import tensorflow as tf

from replicate.errors import ArgumentTypeError
from replicate.spec import checked_hooks

v1 = tf.compat.v1


class _TrainFields(NamedTuple):
    input_fn: Callable[..., Any]
    max_steps: int | None
    hooks: tuple[Any, ...]
    saving_listeners: tuple[Any, ...]


class _EvalFields(NamedTuple):
    input_fn: Callable[..., Any]
    steps: int | None
    name: str | None
    hooks: tuple[Any, ...]
    exporters: tuple[Any, ...]
    start_delay_secs: float
    throttle_secs: float


class TrainSpec(_TrainFields):
    """Settings of training.

    Attributes:
      input_fn: As for `Estimator.train`.
      max_steps: Global step to stop at, None until the input ends.
      hooks: Hooks of the training session, on every worker.
      saving_listeners: Called before and after every save.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        max_steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> "TrainSpec":
        """Checks the fields.

        Raises:
          ValueError: max_steps is not positive.
          TypeError: input_fn, a hook or a listener is of the wrong kind.
        """
        _check_input_fn("TrainSpec", input_fn)
        _check_positive("TrainSpec", "max_steps", max_steps)
        return super().__new__(
            cls,
            input_fn,
            max_steps,
            checked_hooks("TrainSpec: hooks", hooks),
            checked_listeners(saving_listeners),
        )


class EvalSpec(_EvalFields):
    """Settings of evaluation and export.

    Attributes:
      input_fn: As for `Estimator.evaluate`.
      steps: Batches of each evaluation, None for all.
      name: Name of the evaluation, if there are several on different data.
      hooks: Hooks of each evaluation session.
      exporters: Called for every evaluated checkpoint: `exporter.export(estimator, export_path,
        checkpoint_path, eval_result, is_the_final_export)`, with export_path
        "<model_dir>/export/<exporter.name>".
      start_delay_secs: Seconds that an evaluator waits before its first evaluation. The wait ends
        when training ends, or if the checkpoint of max_steps is there.
      throttle_secs: Least seconds between two evaluations.
    """

    __slots__ = ()

    def __new__(
        cls,
        input_fn: Callable[..., Any],
        steps: int | None = 100,
        name: str | None = None,
        hooks: Iterable[Any] | None = None,
        exporters: Any = None,
        start_delay_secs: float = 120,
        throttle_secs: float = 600,
    ) -> "EvalSpec":
        """Checks the fields; a single exporter may stand for a list of one.

        Raises:
          ValueError: steps is not positive, a time is negative, or two exporters share a name.
          TypeError: input_fn, name, a hook or an exporter is of the wrong kind.
        """
        _check_input_fn("EvalSpec", input_fn)
        _check_positive("EvalSpec", "steps", steps)
        if name is not None and not isinstance(name, str):
            raise TypeError(f"EvalSpec: name must be a string or None, got {name!r}. Correct it.")
        for field, value in (
            ("start_delay_secs", start_delay_secs),
            ("throttle_secs", throttle_secs),
        ):
            if not value >= 0:
                raise ValueError(f"EvalSpec: {field} must be >= 0, got {value!r}. Correct it.")
        return super().__new__(
            cls,
            input_fn,
            steps,
            name,
            checked_hooks("EvalSpec: hooks", hooks),
            _checked_exporters(exporters),
            start_delay_secs,
            throttle_secs,
        )


def checked_listeners(listeners: Iterable[Any] | None) -> tuple[Any, ...]:
    """Returns checkpoint listeners as a tuple.

    Raises:
      TypeError: They are not in a list, or one of them is something else.
    """
    if not isinstance(listeners, Iterable | None):
        raise TypeError(
            f"saving_listeners must be a list of listeners, got {listeners!r}. Put a single one "
            "into a list."
        )
    checked = tuple(listeners or ())
    for listener in checked:
        if not isinstance(listener, v1.train.CheckpointSaverListener):
            raise TypeError(
                "saving_listeners must hold instances of "
                f"tf.compat.v1.train.CheckpointSaverListener, got {listener!r}."
            )
    return checked


def _check_input_fn(where: str, input_fn: Any) -> None:
    if not callable(input_fn):
        raise TypeError(
            f"{where}: input_fn must be a function that returns a dataset or (features, labels), "
            f"got {input_fn!r}. Pass the function itself, not its result."
        )


def _check_positive(where: str, field: str, value: int | None) -> None:
    if value is not None and not value > 0:
        raise ValueError(
            f"{where}: {field} must be greater than 0, or None, got {value!r}. Correct it."
        )


def _checked_exporters(exporters: Any) -> tuple[Any, ...]:
    if hasattr(exporters, "export"):
        exporters = [exporters]
    checked = tuple(exporters or ())
    names = [getattr(exporter, "name", None) for exporter in checked]
    for exporter, name in zip(checked, names, strict=True):
        if not callable(getattr(exporter, "export", None)) or not isinstance(name, str) or not name:
            raise ArgumentTypeError(
                "EvalSpec: exporters must hold exporters, which have a name and a method export, "
                f"got {exporter!r}. Use FinalExporter, LatestExporter or BestExporter."
            )
    if len(set(names)) != len(names):
        raise ValueError(
            f"EvalSpec: every exporter needs its own name, got {names}. Each writes to the "
            "directory of its name."
        )
    return checked
