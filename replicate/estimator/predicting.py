"""Prediction with a checkpoint: predictions of each batch or example.

Owns the choice of predictions by key and the split of batches into examples. `Estimator.predict`
calls it inside the model's graph; the iterators that it returns also work outside of the graph
context.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Graph, Nest, Tensor
from replicate.estimator.hooks.saving import build_saver
from replicate.estimator.log import log
from replicate.estimator.run_config import RunConfig
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.training import STOP_GRACE_SECS
from replicate.graph_ops.checks import user_errors
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1

_READS = ("IteratorGetNext", "IteratorGetNextSync", "IteratorGetNextAsOptional")
_REPEATS = ("RepeatDataset", "ShuffleAndRepeatDatasetV2", "RandomDataset", "RandomDatasetV2")
"""Operations that can make a dataset endless."""
_OTHER_ENDS = ("OneShotIterator", "IteratorFromStringHandleV2", "PyFunc", "EagerPyFunc")
"""Other operations that may end the input; the graph does not show when."""


def open_prediction_session(
    spec: EstimatorSpec, checkpoint: str | None, config: RunConfig, hooks: Sequence[Any] = ()
) -> v1.train.MonitoredSession:
    """Returns a session of the default graph that is ready to predict.

    Without a checkpoint, variables are freshly initialised.

    Raises:
      CheckpointError: The checkpoint cannot be loaded.
    """
    saver = build_saver(spec.scaffold, config)
    creator = RestoringSessionCreator(
        spec.scaffold,
        saver,
        lambda: checkpoint,
        config.session_config,
        target="" if config.cluster.jobs else config.master,
        keeps_values=False,
    )
    return v1.train.MonitoredSession(creator, [*hooks, *spec.prediction_hooks], STOP_GRACE_SECS)


def endless_input() -> Tensor | None:
    """Returns a boolean scalar that is True if the input of the default graph never ends.

    The result is None if the input ends, or if the graph does not show it. Input without a dataset
    and without a queue is endless. Datasets are endless if each of them repeats for ever.
    """
    operations = v1.get_default_graph().get_operations()
    kinds = {operation.type for operation in operations}
    if v1.get_collection(v1.GraphKeys.QUEUE_RUNNERS) or kinds.intersection(_OTHER_ENDS):
        return None
    if kinds.isdisjoint(_READS):
        return tf.constant(True)
    if kinds.isdisjoint(_REPEATS):
        return None
    with v1.device("/cpu:0"), v1.name_scope("endless_input"):
        counts = [
            tf.raw_ops.DatasetCardinality(input_dataset=operation.inputs[0])
            for operation in operations
            if operation.type == "MakeIterator"
        ]
        return tf.reduce_all(tf.equal(tf.stack(counts), tf.data.INFINITE_CARDINALITY))


def batches(
    session: v1.train.MonitoredSession,
    graph: Graph,
    predictions: Nest,
    is_endless: Tensor | None = None,
) -> Iterator[Any]:
    """Yields the predictions of each batch until the input ends, then closes the session.

    If `is_endless`, the result of `endless_input`, is True in a run, a warning says so.
    """
    with session:
        if is_endless is not None and session.run_step_fn(_evaluates_to_true(is_endless)):
            log.warning(
                "predict never ends by itself: the input that input_fn returns has no end. Return "
                "a tf.data.Dataset without repeat() (num_epochs=1), or stop taking predictions."
            )
        while not session.should_stop():
            with graph.as_default(), user_errors():
                values = session.run(predictions)
            yield values


def _evaluates_to_true(condition: Tensor) -> Callable[[Any], bool]:
    """Returns a step function with the value of a condition; False if it cannot be computed."""

    def step(step_context: Any) -> bool:
        try:
            return bool(step_context.session.run(condition))
        except tf.errors.OpError:  # A dataset of placeholders that only its initializer is fed.
            return False

    return step


def select(predictions: Nest, keys: str | Sequence[str] | None) -> Nest:
    """Returns the predictions under some keys; all of them if there are no keys.

    A warning names keys that the predictions lack.

    Raises:
      ValueError: The predictions have no keys, or none of these.
    """
    if not keys:
        return predictions
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError(
            f"Cannot choose predict_keys {wanted}: the model's predictions are a single Tensor. "
            "Leave predict_keys out, or return a dict of predictions from model_fn."
        )
    found = {key: predictions[key] for key in wanted if key in predictions}
    unknown = [key for key in wanted if key not in found]
    text = f"predict_keys {unknown}: the model's predictions are {sorted(predictions)}."
    if not found:
        raise ValueError(f"Cannot choose {text} Correct the names.")
    if unknown:
        log.warning("No predictions for %s", text)
    return found


def examples(values: Any) -> Iterator[Any]:
    """Yields the rows of a batch of predictions, each in the form of the batch.

    Args:
      values: Array [batch, ...], or a dict of such arrays.

    Raises:
      ValueError: The arrays disagree on the number of rows, or have none.
    """
    named = values if isinstance(values, Mapping) else {"predictions": values}
    shapes = {name: np.shape(value) for name, value in named.items()}
    rows = {shape[:1] for shape in shapes.values()}
    if () in rows or len(rows) != 1:
        raise ValueError(
            "Cannot cut the predictions into single examples: they must all have the batch as "
            f"their first dimension, got shapes {shapes}. Pass yield_single_examples=False."
        )
    for row in range(rows.pop()[0]):
        if isinstance(values, Mapping):
            yield {name: value[row] for name, value in values.items()}
        else:
            yield values[row]
