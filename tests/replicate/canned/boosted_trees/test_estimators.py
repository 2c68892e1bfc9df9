"""Boosted trees as a whole: against trees in NumPy, and against numbers of tf.estimator."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BoostedTreesClassifier, BoostedTreesRegressor

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)
EDGES = [-1.0, -0.3, 0.0, 0.4, 1.0]

# Numbers that every version of NumPy and TensorFlow makes alike.
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
    a = fc.numeric_column("a")
    made = {
        "bucketized": fc.bucketized_column(a, EDGES),
        "indicator": fc.indicator_column(kind),
        "categorical": kind,
        "numeric": fc.numeric_column("b"),
    }
    return [made[name] for name in names]


def batch(labels, repeats=None):
    return lambda: tf.data.Dataset.from_tensors((FEATURES, labels)).repeat(repeats)


def predicted(model, labels, key):
    return np.array([each[key] for each in model.predict(batch(labels, 1))]).squeeze()


class Tree:
    """Trees for a logistic loss, one at a time, with splits x <= threshold of whole numbers."""

    def __init__(self, rows, gradients, hessians, depth, rate, l2):
        self.rows, self.depth, self.rate, self.l2 = rows, depth, rate, l2
        self.values = np.zeros(len(rows))
        self.nodes = np.zeros(len(rows), int)
        self.derivatives = lambda: (gradients(self.values), hessians(self.values))

    def weight(self, g, h):
        return -g / (h + self.l2) if h + self.l2 > 1e-15 else 0.0

    def gain(self, g, h):
        return -g * self.weight(g, h)

    def grow(self):
        for _ in range(self.depth):
            g, h = self.derivatives()
            nodes = self.nodes.copy()
            for node in np.unique(nodes):
                self.split(node, nodes == node, g, h)
        return self.values

    def split(self, node, here, g, h):
        best = (-np.inf,)
        for feature in range(self.rows.shape[1]):
            for threshold in range(len(EDGES) + 1):
                left = here & (self.rows[:, feature] <= threshold)
                right = here & ~left
                sums = [(g[side].sum(), h[side].sum()) for side in (left, right)]
                gain = sum(self.gain(*each) for each in sums)
                if gain > best[0] + 1e-12:
                    best = gain, left, right, sums
        _, left, right, sums = best
        self.values[left] += self.rate * self.weight(*sums[0])
        self.values[right] += self.rate * self.weight(*sums[1])
        self.nodes[left], self.nodes[right] = 2 * node + 1, 2 * node + 2


def numpy_logits(rows, labels, trees, depth, rate, l2):
    total = np.zeros(len(rows))
    for _ in range(trees):
        start = total

        def probability(values, start=start):
            return 1 / (1 + np.exp(-start - values))

        tree = Tree(
            rows,
            lambda values: (probability(values) - labels) / len(labels),
            lambda values: probability(values) * (1 - probability(values)) / len(labels),
            depth,
            rate,
            l2,
        )
        total = total + tree.grow()
    return total


def test_predictions_are_those_of_trees_in_numpy(tmp_path):
    model = BoostedTreesClassifier(
        columns("bucketized", "indicator"), 1, tmp_path, n_trees=3, max_depth=2, learning_rate=0.5,
        l2_regularization=0.01, config=CONFIG,
    )  # fmt: skip
    model.train(batch(BINARY))
    assert model.get_variable_value("global_step") == 6
    kinds = FEATURES["kind"][:, np.newaxis] == ["x", "y", "z"]
    rows = np.column_stack([np.digitize(FEATURES["a"], EDGES), kinds])
    expected = numpy_logits(rows, BINARY, 3, 2, 0.5, 0.01)
    np.testing.assert_allclose(predicted(model, BINARY, "logits"), expected, atol=1e-5)


def test_one_split_gains_what_the_formula_says(tmp_path):
    """Squares: gradient 2 (w - y) / n, second derivative 2 / n; G² / (H + λ) on each side."""
    l2, n = 0.1, len(NUMBERS)
    model = BoostedTreesRegressor(
        columns("bucketized"), 1, tmp_path, n_trees=1, max_depth=1, learning_rate=1.0,
        l2_regularization=l2, config=CONFIG,
    )  # fmt: skip
    model.train(batch(NUMBERS))
    buckets = np.digitize(FEATURES["a"], EDGES)
    found = []
    for edge in range(len(EDGES)):
        sides = [NUMBERS[buckets <= edge], NUMBERS[buckets > edge]]
        values = [2 * y.sum() / n / (2 * len(y) / n + l2) for y in sides]
        gain = sum((2 * y.sum() / n) ** 2 / (2 * len(y) / n + l2) for y in sides)
        found.append((gain - (2 * NUMBERS.mean()) ** 2 / (2 + l2), edge, values))
    gain, edge, (left, right) = max(found)
    expected = np.where(buckets <= edge, left, right)
    np.testing.assert_allclose(predicted(model, NUMBERS, "predictions"), expected, atol=1e-6)
    importances = model.experimental_feature_importances()
    assert importances == pytest.approx({"a_bucketized": gain}, rel=1e-5)
    assert model.experimental_feature_importances(normalize=True) == {"a_bucketized": 1}
