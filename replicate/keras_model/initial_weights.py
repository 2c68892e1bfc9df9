"""Weights of a Keras model as a checkpoint that an Estimator starts from.

The checkpoint has the names that the variables have in the runtime's graphs.
"""

import hashlib
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from absl import logging

from replicate.estimator.warm_start import WarmStartSettings
from replicate.keras_model.recipe import variable_of

v1 = tf.compat.v1
log = logging.get_absl_logger()

_FOLDER = "keras"


def saved_weights(model: Any, names: Sequence[str], model_dir: str) -> WarmStartSettings | None:
    """Writes the weights of a model into its model directory, unless they are there.

    Args:
      model: The Keras model.
      names: Names of its weights in a graph of the runtime.
      model_dir: Directory of the Estimator. The checkpoint is in its folder "keras".

    Returns:
      A warm start of the weights from that checkpoint. None for a model without weights: it has not
      yet seen an input, or Keras 3 made it in a graph, where weights have no values.
    """
    weights = _weights(model)
    if not weights:
        return None
    values = dict(zip(names, weights, strict=True))
    path = os.path.join(model_dir, _FOLDER, f"initial-{_fingerprint(values)}")
    if not tf.io.gfile.exists(f"{path}.index"):
        _write(path, values)
    return WarmStartSettings(path, [f"{re.escape(name)}:0$" for name in values])


def _weights(model: Any) -> list[np.ndarray]:
    if not model.built:
        log.info("The Keras model %r has no weights yet: training starts at random.", model.name)
        return []
    try:
        return [variable_of(weight).numpy() for weight in model.weights]
    except (NotImplementedError, AttributeError):
        pass  # Made in a graph: Keras 2 has a session of its own, which has values.
    try:
        return [np.asarray(value) for value in model.get_weights()]
    except (NotImplementedError, AttributeError):
        log.warning(
            "The Keras model %r was made in a graph, where its weights have no values: training "
            "starts with its initializers'. Make it where operations run eagerly to keep them.",
            model.name,
        )
        return []


def _fingerprint(values: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name, value in values.items():
        digest.update(f"{name} {value.dtype} {value.shape}".encode())
        digest.update(np.ascontiguousarray(value).tobytes())
    return digest.hexdigest()[:16]


def _write(path: str, values: Mapping[str, np.ndarray]) -> None:
    """Writes a checkpoint under another name, and moves its files: the index comes last."""
    tf.io.gfile.makedirs(os.path.dirname(path))
    unfinished = f"{path}-{uuid.uuid4().hex}"
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(_save_operation(unfinished, values))
    files: Sequence[str] = tf.io.gfile.glob(f"{unfinished}.*")
    for file in sorted(files, key=lambda each: each.endswith(".index")):
        tf.io.gfile.rename(file, path + file.removeprefix(unfinished), overwrite=True)


def _save_operation(prefix: str, values: Mapping[str, np.ndarray]) -> Any:
    fed = [tf.constant(value) for value in values.values()]
    return tf.raw_ops.SaveV2(
        prefix=prefix, tensor_names=list(values), shape_and_slices=[""] * len(values), tensors=fed
    )
