"""Rows that every version of NumPy and TensorFlow makes alike, and columns of them."""

import numpy as np
import tensorflow as tf

import replicate

fc = tf.feature_column
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)
EDGES = [-1.0, -0.3, 0.0, 0.4, 1.0]

_turns = np.arange(24)
FEATURES = {
    "a": np.sin(_turns * 1.7).astype(np.float32) * 2,
    "b": np.cos(_turns * 2.3).astype(np.float32),
    "kind": np.array(["x", "y", "z", "y"] * 6),
    "weight": (1 + _turns % 3).astype(np.float32),
}
SCORE = FEATURES["a"] * FEATURES["b"] + (FEATURES["kind"] == "y")
BINARY = (SCORE > 0.3).astype(np.int32)
NUMBERS = SCORE.astype(np.float32)
THREE = np.digitize(SCORE, [0.0, 1.0]).astype(np.int32)


def columns(*names):
    kind = fc.categorical_column_with_vocabulary_list("kind", ["x", "y", "z"])
    made = {
        "bucketized": fc.bucketized_column(fc.numeric_column("a"), EDGES),
        "indicator": fc.indicator_column(kind),
        "categorical": kind,
        "numeric": fc.numeric_column("b"),
    }
    return [made[name] for name in names]


def batch(labels, repeats=None):
    return lambda: tf.data.Dataset.from_tensors((FEATURES, labels)).repeat(repeats)
