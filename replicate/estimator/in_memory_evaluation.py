"""InMemoryEvaluatorHook: evaluations in the middle of training, without a checkpoint.

Owns the copy of the variables from the session that trains to a graph that evaluates. The
evaluation itself, its event file included, is that of `evaluating.py`.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Variable
from replicate.estimator.estimator import Estimator
from replicate.estimator.evaluating import run_evaluation, write_results
from replicate.estimator.inputs import build_inputs
from replicate.model_average import saved_variables
from replicate.spec import ModeKeys, checked_hooks

v1 = tf.compat.v1


class InMemoryEvaluatorHook(v1.train.SessionRunHook):
    """Evaluates at the start, every few steps, and at the end of training.

    It needs all variables in this process: it is not for clusters with parameter servers.
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
          estimator: The one that is trained.
          input_fn: As for `Estimator.evaluate`.
          steps: Batches of each evaluation, None for all.
          hooks: Hooks that run beside each evaluation.
          name: Tells evaluations on different data apart.
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
        self._variables: dict[str, Variable] = {}
        self._runs = 0

    def begin(self) -> None:
        """Takes note of the variables that are trained."""
        self._variables = saved_variables()

    def after_create_session(self, session: v1.Session, coord: Any) -> None:
        """Evaluates what training starts with."""
        del coord
        self._runs = 0
        self._evaluate(session)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Evaluates if enough steps were made."""
        del run_values
        self._runs += 1
        if self._runs % self._every == 0:
            self._evaluate(run_context.session)

    def end(self, session: v1.Session) -> None:
        """Evaluates the last step, unless that was done."""
        if self._runs % self._every:
            self._evaluate(session)

    def _evaluate(self, session: v1.Session) -> None:
        values = session.run(self._variables)
        estimator = self._estimator
        config = estimator.config
        with tf.Graph().as_default():
            v1.set_random_seed(config.tf_random_seed)
            v1.train.create_global_step()
            inputs = build_inputs(self._input_fn, ModeKeys.EVAL, estimator.params, config)
            spec = estimator.model_fn(inputs.features, inputs.labels, ModeKeys.EVAL, config)
            scaffold = v1.train.Scaffold(init_fn=_loading(values), copy_from_scaffold=spec.scaffold)
            spec = spec._replace(scaffold=scaffold)
            results = run_evaluation(inputs, spec, None, config, self._hooks, self._steps)
        write_results(estimator.eval_dir(self._name), results)


def _loading(values: dict[str, np.ndarray]) -> Callable[[v1.train.Scaffold, v1.Session], None]:
    """Adds assignments of all variables to the default graph; returns the init_fn that runs them.

    Raises:
      ValueError: A variable of the graph has no value.
    """
    variables = v1.global_variables()
    missing = sorted(v.op.name for v in variables if v.op.name not in values)
    if missing:
        raise ValueError(
            f"Cannot evaluate in memory: the model has variables in mode 'eval' that it has not in "
            f"mode 'train': {', '.join(missing)}. Make the same variables in both modes."
        )
    sources = {v.op.name: v1.placeholder(v.dtype.base_dtype, v.shape) for v in variables}
    assignments = [v1.assign(v, sources[v.op.name]).op for v in variables]
    feeds = {source: values[name] for name, source in sources.items()}

    def init_fn(scaffold: v1.train.Scaffold, session: v1.Session) -> None:
        del scaffold
        session.run(assignments, feeds)

    return init_fn
