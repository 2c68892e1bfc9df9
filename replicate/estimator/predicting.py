"""The prediction loop: from a checkpoint and features to one dict of arrays after the other.

Owns the choice of the predictions asked for and the cutting of batches into examples.
`Estimator.predict` calls it inside the model's graph; what it returns works outside of the graph
context, however slowly it is consumed.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from replicate._types import Graph, Nest
from replicate.errors import user_errors
from replicate.estimator.run_config import RunConfig
from replicate.estimator.saving import build_saver
from replicate.estimator.session import RestoringSessionCreator
from replicate.estimator.training import STOP_GRACE_SECS
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1


def open_prediction_session(
    spec: EstimatorSpec, checkpoint: str | None, config: RunConfig, hooks: Sequence[Any] = ()
) -> v1.train.MonitoredSession:
    """Returns a session of the default graph that is ready to predict.

    Args:
      spec: The model.
      checkpoint: What to load; None to predict with freshly initialised variables.
      config: Settings of the run.
      hooks: The caller's hooks.

    Raises:
      CheckpointError: The checkpoint cannot be loaded.
    """
    scaffold = spec.scaffold or v1.train.Scaffold()
    saver = build_saver(scaffold, config)
    creator = RestoringSessionCreator(scaffold, saver, lambda: checkpoint, config.session_config)
    return v1.train.MonitoredSession(creator, [*hooks, *spec.prediction_hooks], STOP_GRACE_SECS)


def batches(session: v1.train.MonitoredSession, graph: Graph, predictions: Nest) -> Iterator[Any]:
    """Yields the predictions of each batch until the input ends, then closes the session."""
    with session:
        while not session.should_stop():
            with graph.as_default(), user_errors():
                values = session.run(predictions)
            yield values


def select(predictions: Nest, keys: str | Sequence[str] | None) -> Nest:
    """Returns the predictions under some keys; all of them if keys is None.

    Raises:
      ValueError: The predictions have no keys, or not all of these.
    """
    if keys is None:
        return predictions
    wanted = [keys] if isinstance(keys, str) else list(keys)
    if not isinstance(predictions, Mapping):
        raise ValueError(
            f"Cannot choose predict_keys {wanted}: the model's predictions are a single Tensor. "
            "Leave predict_keys out, or return a dict of predictions from model_fn."
        )
    unknown = sorted(set(wanted) - set(predictions))
    if unknown:
        raise ValueError(
            f"Cannot choose predict_keys {unknown}: the model's predictions are "
            f"{sorted(predictions)}. Correct the names."
        )
    return {key: predictions[key] for key in wanted}


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
