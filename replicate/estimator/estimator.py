"""Estimator: trains, evaluates, predicts and exports with a model_fn and a model directory.

Owns the user's arguments: it checks them, builds a new graph for every call, and passes the graph
to `training.py`, `evaluating.py`, `predicting.py` or `exporting.py`. Graphs and sessions end with
the call; the model directory keeps the results.
"""

import contextlib
import copy
import dataclasses
import functools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from model_deploy.tracebacks import methods_show_user_frames
from replicate._types import ModelFn, Nest, Path, Variable
from replicate.all_reduce.input import attach_group
from replicate.errors import ArgumentTypeError
from replicate.estimator.calling import call_model_fn, call_receiver_fn, check_model_fn
from replicate.estimator.checkpoints.fallback import newest_checkpoint, set_aside_damaged
from replicate.estimator.checkpoints.input_position import is_position_key
from replicate.estimator.checkpoints.model_dir import prepare_model_dir, remove_remains
from replicate.estimator.checkpoints.reading import open_checkpoint, read_variable
from replicate.estimator.checkpoints.retention import remove_unlisted
from replicate.estimator.cluster.meeting import Meeting
from replicate.estimator.cluster.metric_exchange import MetricExchange
from replicate.estimator.cluster.placement import check_trains, training_scope
from replicate.estimator.cluster.servers import absent_tasks
from replicate.estimator.cluster.uncaught_errors import ends_task_by_code
from replicate.estimator.cluster.worker_group import evaluating_group, join_group
from replicate.estimator.end_marker import TrainingEnd, withdraw_end
from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.exporting import export_graphs
from replicate.estimator.held_model_dir import held_model_dir
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.hooks.graph_files import WrittenGraph
from replicate.estimator.hooks.progress import show_start
from replicate.estimator.hooks.start import StartHook
from replicate.estimator.input_batches import Inputs, build_inputs
from replicate.estimator.keras_names import Scope, build_with_new_names
from replicate.estimator.log import log
from replicate.estimator.predicting import (
    batches,
    endless_input,
    examples,
    open_prediction_session,
    select,
)
from replicate.estimator.random_ops import warn_of_random_ops
from replicate.estimator.run_config import RunConfig
from replicate.estimator.run_settings import plain_session_config
from replicate.estimator.session_options import begin_graph
from replicate.estimator.time_spent import TimeSpent
from replicate.estimator.towers import towers_of
from replicate.estimator.train_specs import checked_listeners
from replicate.estimator.training import LABEL, TrainingRun, TrainRequest, run_training
from replicate.estimator.warm_start import (
    WarmStartSettings,
    apply_warm_start,
    warm_start_settings,
)
from replicate.graph_mode import check_no_keras_model, eager_captures_explained
from replicate.roles import CHIEFS
from replicate.saved.disk_errors import disk_errors
from replicate.spec import EstimatorSpec, ModeKeys, checked_hooks
from replicate.tower.workers import attached_workers
from replicate.unmodified.marks import replicated_like

v1 = tf.compat.v1


@methods_show_user_frames
class Estimator:
    """Trains, evaluates and predicts with the model that a model_fn builds.

    Subclasses written for tf.estimator find its `_model_fn`, `_model_dir`, `_params`, `_config`,
    `_warm_start_settings` and `_create_and_assert_global_step`.
    """

    def __init__(
        self,
        model_fn: ModelFn,
        model_dir: Path | None = None,
        config: RunConfig | None = None,
        params: Any = None,
        warm_start_from: WarmStartSettings | str | os.PathLike[str] | None = None,
    ):
        """Checks and stores the arguments; builds nothing.

        Args:
          model_fn: fn(features, labels, mode, params, config) → EstimatorSpec; all but features
            are optional and passed by name.
          model_dir: Directory of checkpoints and event files. None takes that of the config, or
            else a new temporary directory.
          config: Settings of the runs, None for the defaults.
          params: Passed on to model_fn and input_fn, as a deep copy.
          warm_start_from: Path of a checkpoint or SavedModel whose values the trainable variables
            begin with, or WarmStartSettings. Used where there is no checkpoint to continue from.

        Raises:
          TypeError: model_fn, config or warm_start_from is of the wrong kind; a Keras model is no
            model_fn.
          ValueError: model_dir differs from that of the config, or params cannot be passed on.
        """
        check_no_keras_model("Estimator", model_fn)
        check_model_fn(model_fn, params)
        self._model_fn = model_fn
        self._params = {} if params is None else copy.deepcopy(params)
        self._config = _config_with_model_dir(config, model_dir)
        self._warm_start_settings = warm_start_settings(warm_start_from)
        self._has_warned = False
        self._has_trained = False
        self._clock = TimeSpent(self.model_dir)
        self._written = WrittenGraph()
        self._evaluation_events = EventFiles()
        self._start = StartHook(self._config, self._params)

    @functools.cached_property
    def ending(self) -> TrainingEnd:
        """End of training, watched in the model directory from the first use of this property."""
        return TrainingEnd(self.model_dir)

    @property
    def model_fn(self) -> Callable[..., EstimatorSpec]:
        """The model_fn bound to the params, fn(features, labels, mode, config)."""

        def bound(features: Nest, labels: Nest, mode: str, config: RunConfig) -> EstimatorSpec:
            return call_model_fn(self._model_fn, features, labels, mode, self.params, config)

        return bound

    def with_model_fn(self, model_fn: ModelFn) -> "Estimator":
        """Returns a copy of this Estimator with another model_fn.

        Raises:
          TypeError: model_fn is not a function of the known arguments.
        """
        check_model_fn(model_fn, None)
        other = copy.copy(self)
        other._model_fn = replicated_like(model_fn, self._model_fn)
        return other

    @property
    def model_dir(self) -> str:
        """Directory of checkpoints and event files."""
        return str(self._config.model_dir)

    @property
    def config(self) -> RunConfig:
        """Settings of the runs, with the model_dir."""
        return self._config

    @property
    def params(self) -> Any:
        """A deep copy of the params."""
        return copy.deepcopy(self._params)

    @ends_task_by_code
    def train(
        self,
        input_fn: Callable[..., Any],
        hooks: Iterable[Any] | None = None,
        steps: int | None = None,
        max_steps: int | None = None,
        saving_listeners: Iterable[Any] | None = None,
    ) -> "Estimator":
        """Trains the model, starting at the newest checkpoint.

        The input starts from the beginning. But if a kill, a signal or an error interrupted the
        call before, the input continues after the batches of the checkpoint. SIGINT or SIGTERM in
        the main thread saves the current step and raises TrainingInterrupted.

        Args:
          input_fn: Returns a dataset, features, or (features, labels); may name the arguments
            mode, params and config.
          hooks: `tf.compat.v1.train.SessionRunHook`s of the training session.
          steps: Steps to make in this call. None: until the input ends, or `max_steps`.
          max_steps: Global step to stop at; the call does nothing if the checkpoint has reached it.
          saving_listeners: `tf.compat.v1.train.CheckpointSaverListener`s, called at every save.

        Returns:
          This Estimator.

        Raises:
          ValueError: Both steps and max_steps are given, one is not positive, nothing can be
            written to the model directory, this process is an evaluator or a parameter server, or
            there are listeners and no checkpoints are saved.
          TypeError: A hook or listener is of the wrong class.
          CheckpointError: The checkpoint to continue from cannot be loaded, or none can be written.
          ModelDirInUseError: Another training job writes to the model directory, or took it over.
          NonFiniteError: The loss became NaN or infinite.
          TrainingInterrupted: A signal asked for the end.
        """
        check_trains(self._config)
        if steps is not None and max_steps is not None:
            raise ValueError(
                f"train() takes steps or max_steps, got both: {steps} and {max_steps}. steps are "
                "counted from the checkpoint, max_steps is the global step to stop at. Give one."
            )
        _check_positive("steps", steps)
        _check_positive("max_steps", max_steps)
        request = TrainRequest(
            checked_hooks("hooks", hooks),
            checked_listeners(saving_listeners),
            steps,
            max_steps,
            shows_start=not self._has_trained,
        )
        training_end = None if self._config.is_chief else self.ending
        if self._config.is_chief:
            prepare_model_dir(self.model_dir)
        with held_model_dir(self._config) as directory:
            if directory is not None:
                with self._removal_errors():
                    set_aside_damaged(directory)
            if max_steps is not None and self._trained_steps() >= max_steps:
                log.info("Not training: %s has %d steps already.", self.model_dir, max_steps)
            else:
                run = TrainingRun(
                    self._config,
                    request,
                    self._start,
                    directory,
                    training_end,
                    self._written,
                    self._clock,
                )
                self._has_trained = True
                with self._clock.call() if self._config.is_chief else contextlib.nullcontext():
                    self._train(input_fn, run)
        return self

    @ends_task_by_code
    def evaluate(
        self,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: Path | None = None,
        name: str | None = None,
    ) -> dict[str, Any]:
        """Measures the model, and writes the results to `eval_dir(name)`: events and a metric line.

        With `AllReduce(evaluates=True)` all workers must call it alike: each takes its share of the
        batches, all get the same results, and the chief writes them.

        Args:
          input_fn: As for `train`.
          steps: Batches to take, None for all.
          hooks: `tf.compat.v1.train.SessionRunHook`s of the evaluation session.
          checkpoint_path: Checkpoint to evaluate. None: the newest. Without one, the variables
            are those of `warm_start_from`, or initial.
          name: Name of the evaluation, if there are several on different data.

        Returns:
          The metrics by name, "loss" (mean over the batches) and "global_step".

        Raises:
          ValueError: steps is not positive, there was no batch, or a metric cannot be added up over
            workers.
          TypeError: A hook is of the wrong class.
          CheckpointError: The checkpoint cannot be loaded.
          WorkersDifferError: Workers evaluate something else than the chief.
          ClusterError: A worker does not evaluate its share.
        """
        _check_positive("steps", steps)
        hooks = checked_hooks("hooks", hooks)
        checkpoint = self._checkpoint_to_load(checkpoint_path)
        config = self._config
        group = evaluating_group(config)
        exchange = None
        if group is not None:
            exchange = MetricExchange(config, group.names, group.rank, self._has_chief_left)
        with self._clock.during_evaluation():
            with tf.Graph().as_default():
                attach_group(group)
                inputs, spec = self._build(ModeKeys.EVAL, input_fn)
                self._start_warm(checkpoint)
                results = run_evaluation(
                    inputs, spec, checkpoint, config, hooks, steps, exchange=exchange
                )
            if group is None or group.is_chief:
                write_results(self.eval_dir(name), results, self._evaluation_events)
        return results

    def _has_chief_left(self) -> bool:
        """Returns True in a worker if training has ended and its chief does not answer."""
        if self._config.is_chief or not self.ending.is_final():
            return False
        return bool(absent_tasks(self._config, CHIEFS))

    def predict(
        self,
        input_fn: Callable[..., Any],
        predict_keys: str | Sequence[str] | None = None,
        hooks: Iterable[Any] | None = None,
        checkpoint_path: Path | None = None,
        yield_single_examples: bool = True,
    ) -> Iterator[Any]:
        """Yields predictions, until the input ends; warns at the start if it never does.

        Args:
          input_fn: As for `train`; labels are dropped.
          predict_keys: Keys of the predictions to compute, None for all.
          hooks: `tf.compat.v1.train.SessionRunHook`s of the prediction session.
          checkpoint_path: Checkpoint to predict with. None: the newest. Without one, the
            variables are those of `warm_start_from`, or initial.
          yield_single_examples: If True, batches are split into examples.

        Yields:
          The predictions of one example (or one batch), in the structure of the model's ones.

        Raises:
          ValueError: All keys are unknown, or predictions cannot be cut into examples.
          TypeError: A hook is of the wrong class.
          CheckpointError: The checkpoint cannot be loaded.
        """
        hooks = checked_hooks("hooks", hooks)
        checkpoint = self._checkpoint_to_load(checkpoint_path)
        with tf.Graph().as_default() as graph:
            _, spec = self._build(ModeKeys.PREDICT, input_fn)
            self._start_warm(checkpoint)
            predictions = select(spec.predictions, predict_keys)
            is_endless = endless_input()
            session = open_prediction_session(spec, checkpoint, self._config, hooks)
        for values in batches(session, graph, predictions, is_endless):
            if yield_single_examples:
                yield from examples(values)
            else:
                yield values

    def export_saved_model(
        self,
        export_dir_base: Path,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: Path | None = None,
        experimental_mode: str = ModeKeys.PREDICT,
    ) -> bytes:
        """Writes the model as a SavedModel, in a new directory named after the time.

        Args:
          export_dir_base: Parent of the new directory.
          serving_input_receiver_fn: Returns a receiver of `replicate.export`.
          assets_extra: Files to copy into the subdirectory "assets.extra", by their paths there.
          as_text: If True, the graph is written in text form.
          checkpoint_path: Checkpoint to export. None: the newest, or what `warm_start_from` gives.
          experimental_mode: The mode that model_fn is called in.

        Returns:
          The path of the new directory, as bytes.

        Raises:
          ValueError: There is neither a trained model nor a warm start, an asset is missing, or no
            signature can be made.
          TypeError: The function returns no receiver.
          CheckpointError: The checkpoint cannot be loaded.
        """
        receiver_fns = {experimental_mode: serving_input_receiver_fn}
        return self.experimental_export_all_saved_models(
            export_dir_base, receiver_fns, assets_extra, as_text, checkpoint_path
        )

    def export_savedmodel(
        self,
        export_dir_base: Path,
        serving_input_receiver_fn: Callable[[], Any],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: Path | None = None,
        strip_default_attrs: bool = True,
    ) -> bytes:
        """Does what `export_saved_model` does, under the name that it had before TensorFlow 1.13.

        `strip_default_attrs` has no effect: attributes with their default value are never written.
        """
        del strip_default_attrs
        return self.export_saved_model(
            export_dir_base, serving_input_receiver_fn, assets_extra, as_text, checkpoint_path
        )

    def experimental_export_all_saved_models(
        self,
        export_dir_base: Path,
        input_receiver_fn_map: Mapping[str, Callable[[], Any]],
        assets_extra: Mapping[str, str] | None = None,
        as_text: bool = False,
        checkpoint_path: Path | None = None,
    ) -> bytes:
        """Writes the model's graphs of several modes as one SavedModel, tagged train, eval, serve.

        `input_receiver_fn_map` has the function that returns the receiver, for each mode. The other
        arguments are those of `export_saved_model`.

        Returns:
          The path of the new directory, as bytes.

        Raises:
          ValueError: As `export_saved_model`, or no mode is given, or a mode has variables that
            the first of train, eval and infer has not.
          TypeError: A function returns no receiver.
          CheckpointError: The checkpoint cannot be loaded.
        """
        return export_graphs(
            os.fsdecode(export_dir_base),
            input_receiver_fn_map,
            self._build_for_export,
            (os.fsdecode(checkpoint_path) if checkpoint_path else self.latest_checkpoint())
            or self._warm_start_settings
            or self._existing_checkpoint(),
            self._config,
            assets_extra,
            as_text,
        )

    def latest_checkpoint(self) -> str | None:
        """Returns the path of the newest checkpoint, None if there never was one.

        Raises:
          CheckpointError: There was one, and none is left that can be used.
        """
        return newest_checkpoint(self.model_dir)

    def eval_dir(self, name: str | None = None) -> str:
        """Returns the directory of the event files of evaluations under this name."""
        return os.path.join(self.model_dir, f"eval_{name}" if name else "eval")

    def get_variable_names(self) -> list[str]:
        """Returns the names of all variables in the newest checkpoint, sorted.

        Raises:
          ValueError: Nothing was trained yet.
          CheckpointError: The checkpoint cannot be read.
        """
        shapes = open_checkpoint(self._existing_checkpoint()).get_variable_to_shape_map()
        return sorted(name for name in shapes if not is_position_key(name))

    def get_variable_value(self, name: str) -> Any:
        """Returns the value of a variable in the newest checkpoint, as a NumPy array.

        Args:
          name: Of the variable, with or without the ":0" of its tensor.

        Raises:
          ValueError: Nothing was trained yet.
          CheckpointError: The checkpoint cannot be read, or does not hold the variable.
        """
        return read_variable(self._existing_checkpoint(), name)

    @property
    def _model_dir(self) -> str:
        """The model_dir, as subclasses written for tf.estimator read it."""
        return self.model_dir

    def _create_and_assert_global_step(self, graph: tf.Graph) -> Variable:
        """Returns the global step of a graph that a subclass written for tf.estimator builds.

        Raises:
          TypeError: The graph has a global step that is not an integer.
        """
        with graph.as_default(), v1.device("/device:CPU:0"):
            return v1.train.get_or_create_global_step()

    def _train(self, input_fn: Callable[..., Any], run: TrainingRun) -> None:
        """Cleans the model directory if this process may, builds the model and trains it."""
        with self._removal_errors():
            if self._config.is_chief:
                withdraw_end(self.model_dir)
            if run.directory is not None:
                remove_unlisted(run.directory)
                remove_remains(run.directory)
        joined = join_group(self._config)
        if joined is not None:
            group, call = joined
            meeting = Meeting(self._config, group.names, group.rank, call)
            run = dataclasses.replace(run, meeting=meeting)
        with tf.Graph().as_default(), training_scope(self._config) as scope:
            attach_group(joined[0] if joined else None)
            if run.request.shows_start:
                show_start(LABEL, "building the model", self._config.progress)
            inputs, spec = self._build(ModeKeys.TRAIN, input_fn, scope)
            self._start_warm(self.latest_checkpoint())
            self._warn_of_random_ops(spec)
            run_training(inputs, spec, run)

    def _build(
        self, mode: str, input_fn: Callable[..., Any], scope: Scope = contextlib.nullcontext
    ) -> tuple[Inputs, EstimatorSpec]:
        """Builds input and model in the default graph. `scope` is that of `training_scope`."""
        begin_graph(self._config)
        towers = towers_of(self._model_fn, self._config, mode)
        batches = len(towers.devices) if towers is not None and towers.one_batch_each else None
        inputs = build_inputs(input_fn, mode, self._params_with_input(mode), self._config, batches)
        params = self._params_with_input(mode)
        model_fn = self._model_fn if towers is None else towers.replicated(self._model_fn)
        with attached_workers(inputs.workers):
            spec = self._build_model(model_fn, mode, inputs.features, inputs.labels, params, scope)
        if inputs.rounds is not None:
            inputs.rounds.build()
        if inputs.workers is not None and not inputs.workers.is_used:
            raise ValueError(
                "Cannot train with AllReduce: no optimizer of tf.compat.v1.train has applied "
                "gradients in model_fn, so each worker would train on its own. Use one, in a "
                "replicate.TowerOptimizer if model_fn is replicated."
            )
        return inputs, spec

    def _params_with_input(self, mode: str) -> Any:
        """Returns a copy of the params for the input_fn or for the model that gets its batches.

        A TPUEstimator adds the batch size of the mode.
        """
        del mode
        return self.params

    def _build_for_export(
        self, mode: str, receiver_fn: Callable[[], Any]
    ) -> tuple[Any, EstimatorSpec]:
        """Builds the input of requests and the model in the default graph."""
        begin_graph(self._config)
        receiver = call_receiver_fn(receiver_fn)
        labels = getattr(receiver, "labels", None)
        return receiver, self._build_model(
            self._model_fn, mode, receiver.features, labels, self.params
        )

    def _build_model(
        self,
        model_fn: ModelFn,
        mode: str,
        features: Nest,
        labels: Nest,
        params: Any,
        scope: Scope = contextlib.nullcontext,
    ) -> EstimatorSpec:
        """Builds the model in the default graph. `scope` is that of `training_scope`."""
        with eager_captures_explained("model_fn", "Tensors, variables or Keras layers"):
            spec = build_with_new_names(
                lambda: call_model_fn(model_fn, features, labels, mode, params, self._config),
                scope,
            )
        if spec.mode != mode:
            raise ValueError(
                f"model_fn was called in mode {mode!r} and returned an EstimatorSpec of mode "
                f"{spec.mode!r}. Pass on the mode that it receives."
            )
        return spec

    def _warn_of_random_ops(self, spec: EstimatorSpec) -> None:
        """Warns, once, about random operations that prevent an exact resume of a seeded run."""
        if self._config.is_chief and self._config.tf_random_seed is not None:
            self._has_warned = self._has_warned or warn_of_random_ops(spec.train_op)

    def _removal_errors(self) -> contextlib.AbstractContextManager[None]:
        """Returns a context that reports files of an earlier run that cannot be removed."""
        return disk_errors(
            f"Cannot train in {self.model_dir}: the remains of an earlier run cannot be removed",
            "The checkpoints are as they were. Make the directory writable and start again.",
        )

    def _trained_steps(self) -> int:
        checkpoint = self.latest_checkpoint()
        return 0 if checkpoint is None else int(read_variable(checkpoint, "global_step"))

    def _checkpoint_to_load(self, checkpoint_path: Path | None) -> str | None:
        if checkpoint_path is not None:
            return os.fsdecode(checkpoint_path)
        checkpoint = self.latest_checkpoint()
        if checkpoint is None and self._warm_start_settings is None:
            log.warning("%s holds no checkpoint: using initial variables.", self.model_dir)
        return checkpoint

    def _start_warm(self, checkpoint: str | None) -> None:
        """Applies the warm start to the default graph, unless a checkpoint will be loaded."""
        if checkpoint is None and self._warm_start_settings is not None:
            apply_warm_start(self._warm_start_settings)

    def _existing_checkpoint(self) -> str:
        checkpoint = self.latest_checkpoint()
        if checkpoint is None:
            raise ValueError(
                f"There is no trained model in {self.model_dir!r}: it holds no checkpoint. Train "
                "first, or correct model_dir."
            )
        return checkpoint


def _config_with_model_dir(config: RunConfig | None, model_dir: Path | None) -> RunConfig:
    config = RunConfig() if config is None else config
    if not isinstance(config, RunConfig):
        raise ArgumentTypeError(
            f"Estimator: config must be a replicate.RunConfig, got {type(config).__name__} "
            f"{config!r}. Pass None for the defaults."
        )
    if not isinstance(model_dir, str | bytes | os.PathLike | None):
        raise TypeError(
            f"Estimator: model_dir must be a path, got {model_dir!r}. Pass None for a temporary "
            "directory."
        )
    given = None if model_dir is None else os.fsdecode(model_dir)
    configured = None if config.model_dir is None else os.fsdecode(config.model_dir)
    if given is not None and configured not in (None, given):
        raise ValueError(
            f"Estimator: model_dir is {given!r}, but config.model_dir is {config.model_dir!r}. "
            "Give one of them, or the same twice."
        )
    chosen = given or configured
    if chosen is None:
        chosen = tempfile.mkdtemp(prefix="replicate_")
        log.warning("No model_dir given: using the temporary directory %s", chosen)
    changes: dict[str, Any] = {}
    if config.model_dir is None:
        changes["model_dir"] = chosen
    if config.session_config is None:
        changes["session_config"] = plain_session_config()
    return config.replace(**changes)


def _check_positive(name: str, value: int | None) -> None:
    if value is not None and value <= 0:
        raise ValueError(f"{name} must be greater than 0, or None, got {value!r}. Correct it.")
