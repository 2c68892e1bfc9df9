"""add_metrics: adds metrics to the evaluation of an Estimator.

Owns the call of the user's metric function with features, labels and predictions of the model. Only
mode EVAL differs from the original Estimator.
"""

import inspect
from collections.abc import Callable
from typing import Any

from model_deploy.tracebacks import shows_user_frames
from replicate._types import Nest
from replicate.estimator.calling import call_model_fn
from replicate.estimator.estimator import Estimator
from replicate.estimator.run_config import RunConfig
from replicate.spec import EstimatorSpec, ModeKeys

_ARGUMENTS = ("labels", "predictions", "features", "config")


@shows_user_frames
def add_metrics(estimator: Estimator, metric_fn: Callable[..., Any]) -> Estimator:
    """Returns an Estimator with the same model, directory and settings, and further metrics.

    Args:
      estimator: The model.
      metric_fn: Function of any of labels, predictions, features and config, by name. It returns a
        dict of metrics by name, each a pair or an object as in `EstimatorSpec.eval_metric_ops`. A
        metric replaces the model's metric of the same name.

    Raises:
      ValueError: metric_fn takes other arguments.
      TypeError: It is not a function.
    """
    if not callable(metric_fn):
        raise TypeError(f"add_metrics: metric_fn must be a function, got {metric_fn!r}.")
    names = list(inspect.signature(metric_fn).parameters)
    unknown = sorted(set(names) - set(_ARGUMENTS))
    if unknown:
        raise ValueError(
            f"add_metrics: metric_fn takes the arguments {unknown}, but receives only "
            f"{list(_ARGUMENTS)}. Bind the others with functools.partial."
        )

    def model_fn(
        features: Nest, labels: Nest, mode: str, params: Any, config: RunConfig
    ) -> EstimatorSpec:
        spec = call_model_fn(estimator._model_fn, features, labels, mode, params, config)
        if mode != ModeKeys.EVAL:
            return spec
        given = {
            "labels": labels,
            "predictions": spec.predictions,
            "features": features,
            "config": config,
        }
        added = metric_fn(**{name: given[name] for name in names})
        return spec._replace(eval_metric_ops={**spec.eval_metric_ops, **(added or {})})

    return estimator.with_model_fn(model_fn)
