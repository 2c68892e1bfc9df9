"""tf.contrib.metrics: the metrics of tf-slim, whose streaming functions take predictions first."""

from typing import Any

import tensorflow as tf

from replicate.compat.contrib.repaired_slim.loading import name_of_slim, names_of_slim

set_difference = tf.compat.v1.sets.difference
set_intersection = tf.compat.v1.sets.intersection
set_size = tf.compat.v1.sets.size
set_union = tf.compat.v1.sets.union
confusion_matrix = tf.compat.v1.confusion_matrix

__all__ = ["confusion_matrix", "set_difference", "set_intersection", "set_size", "set_union"]

_HOMES = ("metrics", "metrics.metric_ops", "metrics.classification", "metrics.histogram_ops")


def __dir__() -> list[str]:
    return sorted({*__all__, *names_of_slim(_HOMES)})


def __getattr__(name: str) -> Any:
    return name_of_slim(name, _HOMES, __name__)
