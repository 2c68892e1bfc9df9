"""Boosted trees as a whole: against trees in NumPy, and against numbers of tf.estimator."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BoostedTreesClassifier, BoostedTreesEstimator, BoostedTreesRegressor

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


def test_training_goes_on_within_a_layer_and_the_export_serves_the_same(tmp_path):
    def model(name):
        return BoostedTreesRegressor(
            columns("bucketized", "numeric"), 3, tmp_path / name, n_trees=1, max_depth=3,
            config=CONFIG,
        )  # fmt: skip

    model("whole").train(batch(NUMBERS))
    model("parts").train(batch(NUMBERS), max_steps=4)
    continued = model("parts").train(batch(NUMBERS))
    # Without the sums of the fourth step in the checkpoint, it would take one more.
    assert continued.get_variable_value("global_step") == 9
    for name in ("nodes", "gains", "values", "roots", "growth", "boundaries"):
        expected = model("whole").get_variable_value(f"boosted_trees/{name}")
        found = continued.get_variable_value(f"boosted_trees/{name}")
        np.testing.assert_array_equal(found, expected)

    # All trees are there, so a further run adds none.
    nodes = continued.get_variable_value("boosted_trees/nodes")
    continued.train(batch(NUMBERS))
    np.testing.assert_array_equal(continued.get_variable_value("boosted_trees/nodes"), nodes)

    def receive():
        found = {key: v1.placeholder(tf.float32, [None]) for key in "ab"}
        return replicate.export.ServingInputReceiver(found, found)

    path = continued.export_saved_model(tmp_path / "export", receive)
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        signature = meta.signature_def["predict"]
        feeds = {signature.inputs[key].name: FEATURES[key] for key in "ab"}
        served = session.run(signature.outputs["predictions"].name, feeds)[:, 0]
    np.testing.assert_array_equal(served, predicted(continued, NUMBERS, "predictions"))


def test_own_head_and_in_memory_functions_train_the_same(tmp_path):
    settings = {"n_trees": 2, "max_depth": 2, "config": CONFIG}
    chosen = columns("bucketized", "indicator")
    head = replicate.BinaryClassHead()
    by_head = BoostedTreesEstimator(chosen, 1, head, tmp_path / "head", **settings)
    by_head.train(batch(BINARY))
    in_memory = replicate.boosted_trees_classifier_train_in_memory(
        batch(BINARY, 1), chosen, tmp_path / "memory", **settings
    )
    np.testing.assert_allclose(
        predicted(by_head, BINARY, "logits"), predicted(in_memory, BINARY, "logits"), atol=1e-6
    )
    regressor = replicate.boosted_trees_regressor_train_in_memory(
        batch(np.stack([NUMBERS, 2 * NUMBERS], axis=1), 1),
        chosen,
        tmp_path / "two",
        label_dimension=2,
        **settings,
    )
    found = predicted(regressor, NUMBERS[:, np.newaxis].repeat(2, axis=1), "predictions")
    np.testing.assert_allclose(found[:, 1], 2 * found[:, 0], rtol=1e-4)


def test_towers_and_workers_are_refused(tmp_path):
    model = BoostedTreesClassifier(columns("bucketized"), 1, tmp_path, n_trees=1)
    towers = replicate.replicate_model_fn(model.model_fn, devices=["/cpu:0", "/cpu:0"])
    with pytest.raises(ValueError, match="in 2 towers: their splits need the whole batch"):
        replicate.Estimator(towers, tmp_path, CONFIG).train(batch(BINARY), max_steps=1)


ONE = {"feature_columns": columns("bucketized"), "n_batches_per_layer": 1}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"max_depth": 0}, "max_depth must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "learning_rate must be positive, got 0.0"),
        ({"l1_regularization": -1.0}, "l1_regularization must be >= 0, got -1.0"),
        ({"quantile_sketch_epsilon": 2.0}, r"quantile_sketch_epsilon must be in \(0, 1\]"),
        ({"pruning_mode": "all"}, r"pruning_mode must be one of \['none', 'pre', 'post'\]"),
        ({"pruning_mode": "pre"}, "tree_complexity must be positive with pruning"),
        ({"tree_complexity": 0.1}, "tree_complexity must be positive with pruning, and 0 without"),
        ({"train_in_memory": True, "n_batches_per_layer": 2}, "n_batches_per_layer must be 1"),
        ({"center_bias": True, "n_classes": 3}, "center_bias needs one logit, and the head has 3"),
        ({"feature_columns": []}, "at least one feature column"),
    ],
)
def test_wrong_arguments_are_named(arguments, text):
    with pytest.raises(ValueError, match=text):
        BoostedTreesClassifier(**{**ONE, **arguments})


def test_columns_that_trees_cannot_use_are_named():
    kind = fc.categorical_column_with_identity("kind", 3)
    for column in (fc.embedding_column(kind, 2), fc.weighted_categorical_column(kind, "w")):
        with pytest.raises(ValueError, match=f"by feature column '{column.name}'"):
            BoostedTreesClassifier([column], 1)
    with pytest.raises(ValueError, match="must have one axis at most"):
        BoostedTreesClassifier([fc.numeric_column("a", [2, 2])], 1)
    with pytest.raises(TypeError, match=r"n_batches_per_layer must be an int, got 1\.5"):
        BoostedTreesClassifier(columns("numeric"), 1.5)
    with pytest.raises(ValueError, match="made without center_bias=True"):
        BoostedTreesClassifier(columns("numeric"), 1).experimental_predict_with_explanations(None)
