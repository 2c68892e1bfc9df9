"""Exporters: export the model after some evaluations during training.

Owns the choice of the evaluations after which the model is exported, and the number of exports to
keep. `Estimator.export_saved_model` writes the files. `train_and_evaluate` calls `export` after
every evaluation; each exporter has a directory of its own.
"""

import abc
import inspect
import math
import os
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf

from replicate.errors import ArgumentTypeError
from replicate.estimator.estimator import Estimator
from replicate.estimator.log import log
from replicate.saved.disk_errors import disk_errors

v1 = tf.compat.v1

Compare: TypeAlias = Callable[..., bool]
"""compare_fn(best_eval_result, current_eval_result) → True if the current result is better."""
ReceiverFn: TypeAlias = Callable[[], Any]
Results: TypeAlias = Mapping[str, Any]


class Exporter(abc.ABC):
    """Exports the model after some evaluations."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the directory of the exports, inside "export" in the model directory."""

    @abc.abstractmethod
    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results | None,
        is_the_final_export: bool,
    ) -> bytes | None:
        """Exports the model, or does nothing.

        Args:
          estimator: The model.
          export_path: Directory of this exporter's exports.
          checkpoint_path: The checkpoint that was evaluated.
          eval_result: Result of `Estimator.evaluate`.
          is_the_final_export: True after training has ended.

        Returns:
          The path of the new export, as bytes; None if nothing was exported.
        """


class _SavedModelExporter(Exporter):
    """Exports a model if `_is_wanted` returns True, and keeps the newest exports."""

    def __init__(
        self,
        name: str,
        receiver_fn: ReceiverFn | None,
        assets_extra: Mapping[str, str] | None,
        as_text: bool,
        keep: int | None,
    ):
        if not name:
            raise ValueError(f"An exporter must have a name for its directory, got {name!r}.")
        if not callable(receiver_fn):
            raise ArgumentTypeError(
                f"Exporter {name!r}: serving_input_receiver_fn must be a function that returns a "
                f"receiver of replicate.export, got {receiver_fn!r}."
            )
        if keep is not None and keep <= 0:
            raise ValueError(
                f"Exporter {name!r}: exports_to_keep must be greater than 0, or None for all, got "
                f"{keep!r}. Correct it."
            )
        self._name = name
        self._receiver_fn = receiver_fn
        self._assets_extra = assets_extra
        self._as_text = as_text
        self._keep = keep

    @property
    def name(self) -> str:
        """Name of the exports' directory."""
        return self._name

    def export(
        self,
        estimator: Estimator,
        export_path: str,
        checkpoint_path: str,
        eval_result: Results | None,
        is_the_final_export: bool,
    ) -> bytes | None:
        """Exports the model if it is wanted, then deletes the oldest surplus exports."""
        folder = os.fsdecode(export_path).rstrip("/")
        if not self._is_wanted(estimator, folder, eval_result, is_the_final_export):
            return None
        path = estimator.export_saved_model(
            export_path,
            self._receiver_fn,
            assets_extra=self._assets_extra,
            as_text=self._as_text,
            checkpoint_path=checkpoint_path,
        )
        if self._keep is not None:
            with disk_errors(f"Exported {_shown(path)}, but cannot delete the older exports"):
                for version in sorted(_versions(folder))[: -self._keep]:
                    tf.io.gfile.rmtree(f"{folder}/{version}")
        return path

    @abc.abstractmethod
    def _is_wanted(
        self, estimator: Estimator, folder: str, result: Results | None, is_the_final_export: bool
    ) -> bool:
        """Returns True if this evaluation leads to an export."""


class FinalExporter(_SavedModelExporter):
    """Exports once, when training has ended."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
    ):
        """Stores the arguments.

        Args:
          name: Name of the exports' directory.
          serving_input_receiver_fn: As for `Estimator.export_saved_model`.
          assets_extra: As for `Estimator.export_saved_model`.
          as_text: As for `Estimator.export_saved_model`.

        Raises:
          ValueError: The name is empty.
          TypeError: The receiver function is not callable.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, None)

    def _is_wanted(
        self, estimator: Estimator, folder: str, result: Results | None, is_the_final_export: bool
    ) -> bool:
        """Returns True after training has ended."""
        del estimator, folder, result
        return is_the_final_export


class LatestExporter(_SavedModelExporter):
    """Exports after every evaluation, and keeps the newest exports."""

    def __init__(
        self,
        name: str,
        serving_input_receiver_fn: ReceiverFn,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ):
        """Stores the arguments: those of `FinalExporter`, and the number of newest exports to keep.

        None keeps all.

        Raises:
          ValueError: The name is empty, or no export would be kept.
          TypeError: The receiver function is not callable.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)

    def _is_wanted(
        self, estimator: Estimator, folder: str, result: Results | None, is_the_final_export: bool
    ) -> bool:
        """Returns True."""
        del estimator, folder, result, is_the_final_export
        return True


class BestExporter(_SavedModelExporter):
    """Exports after every evaluation that is the best so far, and keeps the newest exports.

    After a restart, earlier evaluations are read from event files. If there is no earlier export,
    for example because an exporter was added to a resumed run, the first evaluation is exported.
    """

    def __init__(
        self,
        name: str = "best_exporter",
        serving_input_receiver_fn: ReceiverFn | None = None,
        event_file_pattern: str | None = "eval/*.tfevents.*",
        compare_fn: Compare | None = None,
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        exports_to_keep: int | None = 5,
    ):
        """Stores the arguments.

        Args:
          name: Name of the exports' directory.
          serving_input_receiver_fn: As for `Estimator.export_saved_model`; required.
          event_file_pattern: Pattern of the event files of the evaluations, relative to the model
            directory: `eval_NAME/*.tfevents.*` for evaluations with a name. With None, earlier
            evaluations are not read after a restart.
          compare_fn: fn(best_eval_result, current_eval_result) → True if the current result is
            better. None compares the losses; the smaller one is better.
          assets_extra: As for `Estimator.export_saved_model`.
          as_text: As for `Estimator.export_saved_model`.
          exports_to_keep: Number of newest exports to keep, None for all.

        Raises:
          ValueError: The name is empty, no export would be kept, or compare_fn does not take the
            two arguments.
          TypeError: The receiver function or compare_fn is not callable.
        """
        super().__init__(name, serving_input_receiver_fn, assets_extra, as_text, exports_to_keep)
        self._compare: Compare = _loss_is_smaller if compare_fn is None else compare_fn
        _check_compare(self._compare)
        self._pattern = event_file_pattern
        self._model_dir: str | None = None
        self._best: Results | None = None

    def _is_wanted(
        self, estimator: Estimator, folder: str, result: Results | None, is_the_final_export: bool
    ) -> bool:
        """Returns True if the result is the best so far.

        Raises:
          ValueError: There is no result, or none that the comparison can use.
        """
        del is_the_final_export
        if not result:
            raise ValueError(
                f"Exporter {self.name!r} cannot compare evaluations: eval_result is {result!r}. "
                "Let it follow an evaluation."
            )
        if self._model_dir != estimator.model_dir:
            self._model_dir = estimator.model_dir
            self._best = self._logged_best(result) if _versions(folder) else None
        if self._best is not None and not self._is_better(result):
            return False
        self._best = result
        log.info("Exporter %s: this evaluation is the best so far.", self.name)
        return True

    def _is_better(self, result: Results) -> bool:
        return self._compare(best_eval_result=self._best, current_eval_result=result)

    def _logged_best(self, current: Results) -> Results | None:
        """Returns the best earlier evaluation. The current one may be among the logged ones."""
        if self._pattern is None:
            return None
        logged = _logged_results(f"{self._model_dir}/{self._pattern}")
        own = [result for result in logged if result["global_step"] == current.get("global_step")]
        best: Results | None = None
        for result in logged:
            if own and result is own[-1]:
                continue
            if best is None or self._compare(best_eval_result=best, current_eval_result=result):
                best = result
        return best


def _shown(path: Any) -> str:
    """Returns the path of an export as text. A stand-in for an Estimator may return any object."""
    return path.decode(errors="replace") if isinstance(path, bytes) else str(path)


def _versions(folder: str) -> list[int]:
    there = tf.io.gfile.listdir(folder) if tf.io.gfile.isdir(folder) else []
    names = [name.rstrip("/") for name in there]
    return [int(name) for name in names if name.isdecimal()]


def _logged_results(pattern: str) -> list[dict[str, Any]]:
    """Returns the evaluations in event files, oldest first; a file may end in mid-event."""
    found: list[tuple[float, dict[str, Any]]] = []
    for path in sorted(tf.io.gfile.glob(pattern)):
        try:
            found.extend(_results_in(path))
        except tf.errors.DataLossError:
            log.warning("Event file %s ends in the middle of an event.", path)
    return [result for _, result in sorted(found, key=lambda each: each[0])]


def _results_in(path: str) -> Iterator[tuple[float, dict[str, Any]]]:
    for event in map(v1.Event.FromString, _records(path)):
        values = event.summary.value
        result = {each.tag: each.simple_value for each in values if each.HasField("simple_value")}
        if result:
            yield event.wall_time, {**result, "global_step": event.step}


def _records(path: str) -> Iterator[bytes]:
    with (
        tf.Graph().as_default(),
        v1.Session(config=v1.ConfigProto(device_count={"GPU": 0})) as session,
    ):
        record = v1.data.make_one_shot_iterator(tf.data.TFRecordDataset(path)).get_next()
        while True:
            try:
                yield session.run(record)
            except tf.errors.OutOfRangeError:
                return


def _loss_is_smaller(best_eval_result: Results, current_eval_result: Results) -> bool:
    """Returns True if the current loss is smaller. A loss that is NaN is never better."""
    for role, result in (("best", best_eval_result), ("current", current_eval_result)):
        if result.get("loss") is None:
            raise ValueError(
                f"Cannot compare evaluations by their loss: the {role} one has only "
                f"{sorted(result)}. Give BestExporter a compare_fn."
            )
    best, current = best_eval_result["loss"], current_eval_result["loss"]
    return bool(current < best or (math.isnan(best) and not math.isnan(current)))


def _check_compare(compare_fn: Compare) -> None:
    if not callable(compare_fn):
        raise TypeError(f"compare_fn must be a function, got {compare_fn!r}.")
    try:
        inspect.signature(compare_fn).bind(best_eval_result=None, current_eval_result=None)
    except TypeError as error:
        raise ValueError(
            f"compare_fn must take the arguments best_eval_result and current_eval_result, got "
            f"{compare_fn!r} ({error}). Correct its signature."
        ) from error
