"""Private names of tf.estimator that libraries read, with their old arguments.

Each stands for a part of `replicate.canned` or of the runtime.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

import replicate
from replicate import v1 as estimator_v1
from replicate._types import Tensor
from replicate.canned.heads import Head, MultiClassHead, RegressionHead
from replicate.canned.optimizers import checked_optimizer

v1 = tf.compat.v1
SUM = v1.losses.Reduction.SUM


class PredictionKeys:
    """Keys of the predictions of heads."""

    ALL_CLASSES = "all_classes"
    ALL_CLASS_IDS = "all_class_ids"
    CLASSES = "classes"
    CLASS_IDS = "class_ids"
    LOGISTIC = "logistic"
    LOGITS = "logits"
    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"


class MetricKeys:
    """Keys of the metrics of heads."""

    ACCURACY = "accuracy"
    ACCURACY_AT_THRESHOLD = "accuracy/positive_threshold_%g"
    ACCURACY_BASELINE = "accuracy_baseline"
    AUC = "auc"
    AUC_PR = "auc_precision_recall"
    LABEL_MEAN = "label/mean"
    LOSS = "loss"
    LOSS_MEAN = "average_loss"
    LOSS_REGULARIZATION = "regularization_loss"
    PRECISION = "precision"
    PRECISION_AT_RECALL = "precision_at_recall"
    PRECISION_AT_THRESHOLD = "precision/positive_threshold_%g"
    PREDICTION_MEAN = "prediction/mean"
    PROBABILITY_MEAN_AT_CLASS = "probability_mean/class%d"
    PROBABILITY_MEAN_AT_NAME = "probability_mean/%s"
    AUC_AT_CLASS = "auc/class%d"
    AUC_AT_NAME = "auc/%s"
    AUC_PR_AT_CLASS = "auc_precision_recall/class%d"
    AUC_PR_AT_NAME = "auc_precision_recall/%s"
    RECALL = "recall"
    RECALL_AT_THRESHOLD = "recall/positive_threshold_%g"


def binary_logistic_head(
    weight_column: Any = None,
    thresholds: Iterable[float] | None = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM,
    loss_fn: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Makes a `replicate.BinaryClassHead` whose loss is the sum over the batch."""
    return estimator_v1.binary_classification_head(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: str = SUM,
    loss_fn: Callable[..., Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Makes a `replicate.MultiClassHead` whose loss is the sum over the batch."""
    return MultiClassHead(n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name)


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: str = SUM,
    loss_fn: Callable[..., Tensor] | None = None,
    inverse_link_fn: Callable[[Tensor], Tensor] | None = None,
    name: str | None = None,
) -> Head:
    """Makes a `replicate.RegressionHead` whose loss is the sum over the batch."""
    return RegressionHead(
        label_dimension, weight_column, loss_reduction, loss_fn, inverse_link_fn, name
    )


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """Returns the optimizer that a name of `DNNEstimator`, a function or an optimizer stands for.

    Raises:
      ValueError: The name is unknown, it is no optimizer, or a name has no rate.
    """
    if isinstance(opt, str) and learning_rate is None:
        raise ValueError(f"The optimizer {opt!r} is given by its name: give learning_rate, too.")
    checked = checked_optimizer(opt, learning_rate or 0.0, "get_optimizer_instance", "opt")
    return checked if isinstance(checked, v1.train.Optimizer) else checked()


_KERAS_RATES = {"Adagrad": 0.001, "Adam": 0.001, "Ftrl": 0.001, "RMSProp": 0.001, "SGD": 0.01}


def get_optimizer_instance_v2(optimizer: Any, learning_rate: float | None = None) -> Any:
    """Returns what `get_optimizer_instance` does; a name alone has the learning rate of Keras.

    Raises:
      ValueError: The name is unknown, or it is no optimizer.
    """
    if isinstance(optimizer, str) and learning_rate is None:
        learning_rate = _KERAS_RATES.get(optimizer, 0.001)
    return get_optimizer_instance(optimizer, learning_rate)


class _InitializeIterator(v1.train.SessionRunHook):
    """Starts an iterator with each session."""

    def __init__(self, iterator: Any) -> None:
        self._iterator = iterator

    def after_create_session(self, session: Any, coord: Any) -> None:
        session.run(self._iterator.initializer)


def parse_input_fn_result(result: Any) -> tuple[Any, Any, list[Any]]:
    """Reads the result of an input_fn: a dataset, features, or (features, labels).

    Returns:
      (features, labels, hooks); labels are None if there are none. The hook of a dataset starts its
      iterator.

    Raises:
      ValueError: The result is a tuple that is not (features, labels).
    """
    hooks: list[Any] = []
    if isinstance(result, tf.data.Dataset):
        iterator = v1.data.make_initializable_iterator(result)
        hooks.append(_InitializeIterator(iterator))
        result = iterator.get_next()
    if not isinstance(result, list | tuple):
        return result, None, hooks
    if len(result) != 2:
        raise ValueError(
            f"input_fn must return (features, labels), got {len(result)} values: {result!r}."
        )
    return result[0], result[1], hooks


def model_to_estimator(*, use_v2_estimator: bool = False, **arguments: Any) -> Any:
    """Calls `replicate.model_to_estimator`, as `tf.keras.estimator` of Keras 2 does.

    `use_v2_estimator` is ignored: both kinds are the same here.
    """
    del use_v2_estimator
    return replicate.model_to_estimator(**arguments)


def fn_args(fn: Callable[..., Any]) -> tuple[str, ...]:
    """Returns the names of the arguments of a callable, without `self` and those that are bound."""
    if isinstance(fn, functools.partial):
        free = fn_args(fn.func)[len(fn.args) :]
        return tuple(name for name in free if name not in fn.keywords)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(fn).parameters.values()
    return tuple(each.name for each in parameters if each.kind in kinds)
