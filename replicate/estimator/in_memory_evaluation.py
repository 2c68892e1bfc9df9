"""InMemoryEvaluatorHook: evaluates during training, without a checkpoint in model_dir.

Owns the copy of the variables from the training session to a graph for evaluation. If a model has
more to load than variables (tables, for instance) or its own saver, the copy goes through a
temporary checkpoint. `evaluating.py` evaluates and writes the event file.
"""

import functools
import tempfile
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Variable
from replicate.checkpoint_names import saved_objects, saved_variables
from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.estimator import Estimator
from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.input_batches import build_inputs
from replicate.estimator.keras_names import build_with_new_names
from replicate.estimator.new_graph import begin_graph
from replicate.spec import ModeKeys, checked_hooks

v1 = tf.compat.v1


class InMemoryEvaluatorHook(v1.train.SessionRunHook):
    """Evaluates at the start, every few steps, and at the end of training.

    The model is evaluated as from a checkpoint of the current step. If its Scaffold has an
    `init_fn`, that runs before the variables get their values; it may fill variables that training
    does not have. All variables must be in this process: the hook is not for clusters with
    parameter servers.
    """

    def __init__(
        self,
        estimator: Estimator,
        input_fn: Callable[..., Any],
        steps: int | None = None,
        hooks: Iterable[Any] | None = None,
        name: str | None = None,
        every_n_iter: int = 100,
    ):
        """Checks and keeps the arguments.

        Args:
          estimator: The trained Estimator.
          input_fn: As for `Estimator.evaluate`.
          steps: Batches of each evaluation, None for all.
          hooks: Hooks of each evaluation session.
          name: Name of the evaluation, if there are several on different data.
          every_n_iter: Steps between two evaluations.

        Raises:
          ValueError: every_n_iter is not positive, or there are parameter servers.
          TypeError: estimator is no Estimator, or a hook is of the wrong class.
        """
        if not isinstance(estimator, Estimator):
            raise TypeError(
                f"InMemoryEvaluatorHook: estimator must be a replicate.Estimator, got "
                f"{estimator!r}. Pass the one that is trained."
            )
        if every_n_iter is None or every_n_iter <= 0:
            raise ValueError(
                f"InMemoryEvaluatorHook: every_n_iter must be greater than 0, got {every_n_iter!r}."
                " Give the number of steps between two evaluations."
            )
        if estimator.config.num_ps_replicas:
            raise ValueError(
                "InMemoryEvaluatorHook needs all variables in this process, but the cluster has "
                f"{estimator.config.num_ps_replicas} parameter servers. Use train_and_evaluate "
                "with an evaluator."
            )
        self._estimator = estimator
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = checked_hooks("InMemoryEvaluatorHook: hooks", hooks)
        self._name = name
        self._every = every_n_iter
        self._events = EventFiles()
        self._variables: dict[str, Variable] = {}
        self._saver: Any = None
        self._runs = 0

    def begin(self) -> None:
        """Stores the trained variables and their saver."""
        self._variables = saved_variables()
        savers = v1.get_collection(v1.GraphKeys.SAVERS)
        saver = savers[0] if savers else v1.train.Saver(saved_objects(), allow_empty=True)
        self._saver = saver.as_saver_def()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Evaluates before the first step."""
        del coord
        self._runs = 0
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates if the interval is over."""
        del run_values
        self._runs += 1
        if self._runs % self._every == 0:
            self._evaluate(run_context.session)

    def end(self, session: v1.Session) -> None:
        """Evaluates the last step, unless it was evaluated already."""
        if self._runs % self._every:
            self._evaluate(session)

    def _evaluate(self, session: v1.Session) -> None:
        estimator = self._estimator
        config = estimator.config
        with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
            begin_graph(config)
            inputs = build_inputs(self._input_fn, ModeKeys.EVAL, estimator.params, config)
            spec = build_with_new_names(
                lambda: estimator.model_fn(inputs.features, inputs.labels, ModeKeys.EVAL, config)
            )
            load = self._loader(session, spec.scaffold, folder)
            results = run_evaluation(inputs, spec, None, config, self._hooks, self._steps, load)
        write_results(estimator.eval_dir(self._name), results, self._events)

    def _loader(
        self, session: v1.Session, scaffold: v1.train.Scaffold, folder: str
    ) -> Callable[[v1.Session], None]:
        """Returns a function that loads the values of a training session into the default graph."""
        saver = _needed_saver(scaffold)
        if saver is None:
            values = session.run(self._variables)
            return _loading(values, may_lack=scaffold.init_fn is not None)
        path = f"{folder}/model.ckpt"
        session.run(self._saver.save_tensor_name, {self._saver.filename_tensor_name: path})
        return functools.partial(restore_variables, saver=saver, path=path)


def _needed_saver(scaffold: v1.train.Scaffold) -> v1.train.Saver | None:
    """Returns the saver of the default graph; None if assignments by name can replace it."""
    own = scaffold.saver or next(iter(v1.get_collection(v1.GraphKeys.SAVERS)), None)
    if own is not None or not v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS):
        return own
    saver = v1.train.Saver(saved_objects(), allow_empty=True)
    v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    return saver


def _loading(values: dict[str, np.ndarray], may_lack: bool) -> Callable[[v1.Session], None]:
    """Adds assignments of variables to the default graph; returns a function that runs them.

    Args:
      values: Values by name of the variable.
      may_lack: If True, variables without a value keep theirs.

    Raises:
      ValueError: A variable of the graph has no value.
    """
    variables = [v for v in v1.global_variables() if v.op.name in values]
    missing = sorted({v.op.name for v in v1.global_variables()} - set(values))
    if missing and not may_lack:
        raise ValueError(
            f"Cannot evaluate in memory: the model has variables in mode 'eval' that it has not in "
            f"mode 'train': {', '.join(missing)}. Make the same variables in both modes, or fill "
            "them in the init_fn of a Scaffold."
        )
    sources = {v.op.name: v1.placeholder(v.dtype.base_dtype, v.shape) for v in variables}
    assignments = [v1.assign(v, sources[v.op.name]).op for v in variables]
    feeds = {source: values[name] for name, source in sources.items()}

    def load(session: v1.Session) -> None:
        session.run(assignments, feeds)

    return load
