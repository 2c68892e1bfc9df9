"""Boosted trees as a whole: against trees in NumPy, and against numbers of tf.estimator."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import BoostedTreesClassifier, BoostedTreesEstimator, BoostedTreesRegressor
from tests.replicate.canned.boosted_trees.data import (
    BINARY,
    CONFIG,
    EDGES,
    FEATURES,
    NUMBERS,
    batch,
    columns,
)

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
fc = tf.feature_column


def predicted(model, labels, key):
    return np.array([each[key] for each in model.predict(batch(labels, 1))]).squeeze()


def assert_same_trees(one, other, *more):
    for name in ("nodes", "gains", "values", "roots", "growth", *more):
        found, expected = (m.get_variable_value(f"boosted_trees/{name}") for m in (one, other))
        np.testing.assert_array_equal(found, expected, err_msg=name)


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


def test_own_head_and_training_in_memory_make_the_trees_of_numpy(tmp_path):
    chosen = columns("bucketized", "indicator")
    settings = {"n_trees": 2, "max_depth": 2, "learning_rate": 0.5, "l2_regularization": 0.01}
    settings["config"] = CONFIG
    head = replicate.BinaryClassHead()
    model = BoostedTreesEstimator(chosen, 1, head, tmp_path / "head", **settings)
    model.train(batch(BINARY))
    assert model.get_variable_value("global_step") == 4
    kinds = FEATURES["kind"][:, np.newaxis] == ["x", "y", "z"]
    rows = np.column_stack([np.digitize(FEATURES["a"], EDGES), kinds])
    expected = numpy_logits(rows, BINARY, 2, 2, 0.5, 0.01)
    np.testing.assert_allclose(predicted(model, BINARY, "logits"), expected, atol=1e-5)
    in_memory = replicate.boosted_trees_classifier_train_in_memory(
        batch(BINARY, 1), chosen, tmp_path / "memory", **settings
    )
    assert_same_trees(model, in_memory)


def test_one_split_gains_what_the_formula_says(tmp_path):
    """Squares: gradient 2 (w - y) / n, second derivative 2 / n; G² / (H + λ) on each side."""
    l2, n = 0.1, len(NUMBERS)
    model = BoostedTreesRegressor(
        columns("bucketized"), 1, tmp_path, n_trees=1, max_depth=1, learning_rate=1.0,
        l2_regularization=l2, config=CONFIG,
    )  # fmt: skip
    for _ in range(2):  # All trees are there after the first run, so the second adds none.
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
            columns("numeric"), 3, tmp_path / name, n_trees=1, max_depth=1, config=CONFIG
        )

    model("whole").train(batch(NUMBERS))
    model("parts").train(batch(NUMBERS), max_steps=2)
    continued = model("parts").train(batch(NUMBERS))
    # Without the sums of both steps in the checkpoint, it would take more.
    assert continued.get_variable_value("global_step") == 3
    assert_same_trees(continued, model("whole"), "boundaries")

    def receive():
        found = {"b": v1.placeholder(tf.float32, [None])}
        return replicate.export.ServingInputReceiver(found, found)

    path = continued.export_saved_model(tmp_path / "export", receive)
    with tf.Graph().as_default(), v1.Session() as session:
        meta = v1.saved_model.load(session, ["serve"], path)
        signature = meta.signature_def["predict"]
        feeds = {signature.inputs["b"].name: FEATURES["b"]}
        served = session.run(signature.outputs["predictions"].name, feeds)[:, 0]
    np.testing.assert_array_equal(served, predicted(continued, NUMBERS, "predictions"))


def test_regression_of_two_numbers_in_memory(tmp_path):
    regressor = replicate.boosted_trees_regressor_train_in_memory(
        batch(np.stack([NUMBERS, 2 * NUMBERS], axis=1), 1),
        columns("bucketized", "indicator"),
        tmp_path,
        label_dimension=2,
        n_trees=1,
        max_depth=2,
        config=CONFIG,
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


KILLED = """
import os, signal, sys
import numpy as np, tensorflow as tf
import replicate

class Kill(tf.compat.v1.train.SessionRunHook):
    def after_run(self, context, values):
        if context.session.run(tf.compat.v1.train.get_global_step()) >= 5:
            os.kill(os.getpid(), signal.SIGKILL)

x, y = np.linspace(-2, 2, 24, dtype="f4"), np.sin(np.linspace(-2, 2, 24, dtype="f4") * 4)
config = replicate.RunConfig(progress="off", save_checkpoints_steps=2, save_summary_steps=None)
model = replicate.BoostedTreesRegressor(
    [tf.feature_column.numeric_column("x")], 2, sys.argv[1], n_trees=2, max_depth=3, config=config)
rows = tf.data.Dataset.from_tensor_slices
hooks = [Kill()] if len(sys.argv) > 2 else []
model.train(lambda: rows(({"x": x}, y)).batch(12).repeat(), hooks=hooks)
np.save(sys.argv[1] + "/values.npy", model.get_variable_value("boosted_trees/values"))
"""


@pytest.mark.broad
def test_training_that_was_killed_grows_the_same_trees(run_python, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for arguments, code in (([whole], 0), ([killed, "kill"], -9)):
        done = run_python(KILLED, *arguments, quick=True)
        assert done.code == code, done.err
    assert not (killed / "values.npy").exists()
    assert tf.train.latest_checkpoint(str(killed)).endswith("-4")
    done = run_python(KILLED, killed, quick=True)
    assert done.code == 0, done.err
    np.testing.assert_array_equal(np.load(killed / "values.npy"), np.load(whole / "values.npy"))
