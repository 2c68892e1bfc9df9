"""Labels and logits, checked and brought to the shapes that the losses need."""

from typing import Any

import tensorflow as tf

from replicate._types import Tensor
from replicate.canned.heads.checks import checked, same_shape, with_last_axis

ONE_ID = (
    "Give each example one label. If these are one-hot labels, pass the ids of the classes, such "
    "as tf.argmax(labels, -1); use MultiLabelHead if an example may have several classes."
)
"""Advice of heads whose labels are ids of classes, for labels of a wrong shape."""


def checked_logits(logits: Any, dimension: int, where: str) -> Tensor:
    """Returns logits as float32 [D0, ..., DN, dimension], of rank 2 at least.

    Raises:
      ValueError: The rank or last dimension is known and wrong. Else an assertion checks it.
    """
    logits = tf.cast(tf.convert_to_tensor(logits), tf.float32)
    error = (
        f"Cannot use the logits in {where}: their shape must be [D0, ..., DN, {dimension}], of "
        f"rank 2 at least. Let the last layer of the model have {dimension} units, the head's "
        "logits_dimension."
    )
    if logits.shape.rank is not None and logits.shape.rank < 2:
        raise ValueError(f"{error} Received shape {logits.shape}.")
    last = None if logits.shape.rank is None else logits.shape[-1]
    if last == dimension:
        return logits
    if last is not None:
        raise ValueError(f"{error} Received shape {logits.shape}.")
    shape = tf.shape(logits)
    is_fine = tf.logical_and(tf.size(shape) >= 2, tf.reduce_all(tf.equal(shape[-1:], dimension)))
    return checked(logits, is_fine, error, {"logits_shape": shape})


def given_labels(labels: Any, where: str) -> Any:
    """Returns labels as a Tensor or SparseTensor.

    Raises:
      ValueError: They are None, a dict, or of a kind that is no Tensor.
    """
    if labels is None:
        raise ValueError(
            f"Cannot compute the loss of {where}: labels are None. Return (features, labels) from "
            "input_fn, and pass the labels of model_fn to the head."
        )
    if isinstance(labels, dict | tf.RaggedTensor):
        kind = f"a dict of {sorted(map(str, labels))}" if isinstance(labels, dict) else "ragged"
        raise ValueError(
            f"Cannot compute the loss of {where}: labels must be a Tensor, but are {kind}. Choose "
            "the Tensor of this head; a MultiHead takes a dict."
        )
    return labels if isinstance(labels, tf.SparseTensor) else tf.convert_to_tensor(labels)


def dense_labels(labels: Any, logits: Tensor, dimension: int, where: str, advice: str) -> Tensor:
    """Returns labels as [D0, ..., DN, dimension].

    Labels whose rank is one less than that of the logits, [D0, ..., DN, logits_dimension], get the
    last axis. `advice` is the last sentence of the error about their shape.

    Raises:
      ValueError: Labels are None, sparse, or of a shape that is known and wrong. In a graph an
        assertion checks the shape where it is not known.
    """
    labels = given_labels(labels, where)
    if isinstance(labels, tf.SparseTensor):
        raise ValueError(
            f"Cannot compute the loss of {where}: labels are a SparseTensor. Pass a dense Tensor "
            f"[D0, ..., DN, {dimension}], such as tf.sparse.to_dense(labels); only MultiLabelHead "
            "takes sparse labels."
        )
    labels = with_last_axis(labels, logits)
    error = (
        f"Cannot compute the loss of {where}: the shape of the labels must be [D0, ..., DN, "
        f"{dimension}]" + (" or [D0, ..., DN]" if dimension == 1 else "") + ", for logits of shape "
        f"[D0, ..., DN, logits_dimension]. {advice}"
    )
    wanted = logits.shape[:-1].concatenate(dimension)
    if not labels.shape.is_compatible_with(wanted):
        raise ValueError(
            f"{error} Received labels of shape {labels.shape}, logits of shape {logits.shape}."
        )
    shape, logits_shape = tf.shape(labels), tf.shape(logits)
    return checked(
        labels,
        same_shape(shape, tf.concat([logits_shape[:-1], [dimension]], axis=0)),
        error,
        {"labels_shape": shape, "logits_shape": logits_shape},
    )


def in_range(labels: Tensor, largest: int, where: str, advice: str) -> Tensor:
    """Returns labels that lie in [0, largest]. `advice` is the last sentence of the error.

    Raises:
      ValueError: Operations run eagerly, and a label is out of range. In a graph an assertion
        checks it.
    """
    limits = tf.constant(0, labels.dtype), tf.constant(largest, labels.dtype)
    is_inside = tf.reduce_all(tf.logical_and(labels >= limits[0], labels <= limits[1]))
    return checked(
        labels,
        is_inside,
        f"Cannot compute the loss of {where}: labels must be in [0, {largest}]. {advice}",
        {"smallest_label": tf.reduce_min(labels), "largest_label": tf.reduce_max(labels)},
    )
