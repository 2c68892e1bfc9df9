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
from replicate.estimator.checkpoints.reading import restore_variables
from replicate.estimator.estimator import Estimator
from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.hooks.event_file import EventFiles
from replicate.estimator.time_spent import TimeSpent
from replicate.saved.checkpoint_names import saved_objects, saved_variables
from replicate.spec import ModeKeys, checked_hooks

v1 = tf.compat.v1


class InMemoryEvaluatorHook(v1.train.SessionRunHook):
    """Evaluates at the start, every few steps, and at the end of training.

    The model is evaluated as from a checkpoint of the current step. If its Scaffold has an
    `init_fn`, that runs before the variables get their values, to fill variables that training does
    not have. All variables must be in this process: the hook is not for clusters. An evaluation
    raises ValueError if the model has variables or saveable objects (tables, for instance) that
    training does not have, or an `init_fn` that would be ignored because there are none.
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
          ValueError: every_n_iter is not positive, or a server of a cluster runs the training.
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
        config = estimator.config
        if config.master:
            raise ValueError(
                "InMemoryEvaluatorHook needs all variables in this process, but the server at "
                f"{config.master!r} runs the training of {config.task_type} {config.task_id}, in a "
                f"cluster with {config.num_worker_replicas} processes that train and "
                f"{config.num_ps_replicas} parameter servers. Use train_and_evaluate with an "
                "evaluator."
            )
        self._estimator = estimator
        self._input_fn = input_fn
        self._steps = steps
        self._hooks = checked_hooks("InMemoryEvaluatorHook: hooks", hooks)
        self._name = name
        self._every = every_n_iter
        self._events = EventFiles()
        self._clock = TimeSpent(estimator.model_dir)
        self._variables: dict[str, Variable] = {}
        self._saver: Any = None
        self._saveables: frozenset[str] = frozenset()
        self._runs = 0

    def begin(self) -> None:
        """Stores the trained variables and their saver."""
        self._variables = saved_variables()
        savers = v1.get_collection(v1.GraphKeys.SAVERS)
        saver = savers[0] if savers else v1.train.Saver(saved_objects(), allow_empty=True)
        self._saveables = _saveables()
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
        with self._clock.during_evaluation():
            self._measure(session)

    def _measure(self, session: v1.Session) -> None:
        """Evaluates the values of a training session, and writes the results."""
        estimator = self._estimator
        config = estimator.config
        with tf.Graph().as_default(), tempfile.TemporaryDirectory() as folder:
            inputs, spec = estimator._build(ModeKeys.EVAL, self._input_fn)
            load = self._loader(session, spec.scaffold, folder)
            results = run_evaluation(inputs, spec, None, config, self._hooks, self._steps, load)
        write_results(estimator.eval_dir(self._name), results, self._events)

    def _loader(
        self, session: v1.Session, scaffold: v1.train.Scaffold, folder: str
    ) -> Callable[[v1.Session], None]:
        """Returns a function that loads the values of a training session into the default graph."""
        if _own_saver(scaffold) is None:
            self._check_copy(scaffold)
        saver = _needed_saver(scaffold)
        if saver is None:
            return _loading(session.run(self._variables))
        path = f"{folder}/model.ckpt"
        session.run(self._saver.save_tensor_name, {self._saver.filename_tensor_name: path})
        return functools.partial(restore_variables, saver=saver, path=path)

    def _check_copy(self, scaffold: v1.train.Scaffold) -> None:
        """Checks that training has all that the default graph needs, and no init_fn is ignored.

        Raises:
          ValueError: It has not, or the init_fn of the model would have no effect.
        """
        missing = sorted({v.op.name for v in v1.global_variables()} - set(self._variables))
        if missing and scaffold.init_fn is None:
            raise ValueError(
                "Cannot evaluate in memory: the model has variables in mode 'eval' that it has not "
                f"in mode 'train': {', '.join(missing)}. Make the same variables in both modes, or "
                "fill them in the init_fn of a Scaffold."
            )
        if scaffold.init_fn is not None and not missing:
            raise ValueError(
                "Cannot evaluate in memory: the Scaffold of mode 'eval' has an init_fn, but every "
                "variable gets its value from the training session afterwards, as an evaluation of "
                "a checkpoint would load it. Leave init_fn out in mode 'eval'; initialise tables "
                "and iterators in a local_init_op or a hook."
            )
        lacking = sorted(_saveables() - self._saveables)
        if lacking:
            raise ValueError(
                "Cannot evaluate in memory: the model has saveable objects in mode 'eval' that it "
                f"has not in mode 'train': {', '.join(lacking)}. Make the same tables and other "
                "objects in both modes, under the same names."
            )


def _saveables() -> frozenset[str]:
    """Returns the names of what the default graph has to save beside variables."""
    return frozenset(each.name for each in v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS))


def _own_saver(scaffold: v1.train.Scaffold) -> v1.train.Saver | None:
    """Returns the saver that the model of the default graph has chosen, or None."""
    return scaffold.saver or next(iter(v1.get_collection(v1.GraphKeys.SAVERS)), None)


def _needed_saver(scaffold: v1.train.Scaffold) -> v1.train.Saver | None:
    """Returns the saver of the default graph; None if assignments by name can replace it."""
    own = _own_saver(scaffold)
    if own is not None or not v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS):
        return own
    saver = v1.train.Saver(saved_objects(), allow_empty=True)
    v1.add_to_collection(v1.GraphKeys.SAVERS, saver)
    return saver


def _loading(values: dict[str, np.ndarray]) -> Callable[[v1.Session], None]:
    """Adds assignments of the variables with a value; returns a function that runs them."""
    variables = [v for v in v1.global_variables() if v.op.name in values]
    sources = {v.op.name: v1.placeholder(v.dtype.base_dtype, v.shape) for v in variables}
    assignments = [v1.assign(v, sources[v.op.name]).op for v in variables]
    feeds = {source: values[name] for name, source in sources.items()}

    def load(session: v1.Session) -> None:
        session.run(assignments, feeds)

    return load
