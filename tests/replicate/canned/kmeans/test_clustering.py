"""KMeansClustering as a whole: digits against NumPy and scikit-learn, towers, export, resume."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate import KMeans, KMeansClustering

pytestmark = pytest.mark.usefixtures("plain_sessions")

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
POINTS = (RANDOM.normal(size=[61, 3]) + 4 * np.eye(3)[RANDOM.integers(0, 3, 61)]).astype(np.float32)
CONFIG = replicate.RunConfig(progress="off", save_summary_steps=None)


def cosine(points, centers):
    points, centers = (rows / np.linalg.norm(rows, axis=1)[:, None] for rows in (points, centers))
    return 1 - points @ centers.T


def squared(points, centers):
    return ((points[:, None] - centers) ** 2).sum(-1)


def kmeans(*args, **kwargs):
    return KMeansClustering(*args, config=CONFIG, **kwargs)


def full(points=POINTS):
    return tf.data.Dataset.from_tensors(points).repeat()


def once(points=POINTS):
    return tf.data.Dataset.from_tensors(points)


def batches(points=POINTS, size=20):
    return tf.data.Dataset.from_tensor_slices(points).batch(size).repeat()


def lloyd(points, centers, steps):
    for _ in range(steps):
        index = squared(points, centers).argmin(axis=1)
        centers = np.array([points[index == k].mean(axis=0) for k in range(len(centers))])
    return centers


def test_full_batches_make_lloyd_iterations(tmp_path):
    """The centers are those of two of three features; a second model starts with them."""
    columns = [tf.feature_column.numeric_column(key) for key in "ab"]
    points, start = POINTS[:, 1::-1], POINTS[:3, 1::-1]

    def input_fn():
        rows = {"b": POINTS[:, :1], "a": POINTS[:, 1], "c": POINTS[:, 2]}
        return tf.data.Dataset.from_tensors(rows).repeat()

    first = kmeans(3, tmp_path / "first", start, use_mini_batch=False, feature_columns=columns)
    first.train(input_fn, steps=2)
    np.testing.assert_allclose(first.cluster_centers(), lloyd(points, start, 2), rtol=1e-5)

    folder, settings = tmp_path / "second", {"warm_start_from": first.model_dir}
    model = kmeans(3, folder, use_mini_batch=False, **settings)
    model.train(lambda: full(points), steps=1)
    centers = model.cluster_centers()
    np.testing.assert_allclose(centers, lloyd(points, start, 3), rtol=1e-5)
    distances = squared(points, centers)
    index = distances.argmin(axis=1)

    def one():
        return once(points)

    losses = distances.min(axis=1)
    np.testing.assert_allclose(model.score(one), losses.sum(), rtol=1e-5)
    score = model.evaluate(lambda: batches(points), steps=2)["score"]
    np.testing.assert_allclose(score, losses[:40].sum() / 2, rtol=1e-5)
    np.testing.assert_array_equal(list(model.predict_cluster_index(one)), index)
    np.testing.assert_allclose(list(model.transform(one)), np.sqrt(distances), rtol=1e-4)

    def receiver_fn():
        given = v1.placeholder(tf.float32, [None, 2], name="points")
        return replicate.export.TensorServingInputReceiver(given, given)

    path = model.export_saved_model(tmp_path / "export", receiver_fn)
    signatures = tf.saved_model.load(path.decode()).signatures
    assert set(signatures) == {"serving_default", "cluster_index", "all_distances"}
    for name, value in [("serving_default", index), ("all_distances", distances)]:
        served = signatures[name](tf.constant(points))["output"]
        np.testing.assert_allclose(served, value, rtol=1e-4, atol=1e-5)


def test_cosine_distances_are_not_rooted(tmp_path):
    model = KMeans(3, tmp_path, "kmeans_plus_plus", "cosine", use_mini_batch=False, config=CONFIG)
    model.train(full, steps=3)
    centers = model.cluster_centers()
    np.testing.assert_allclose(np.linalg.norm(centers, axis=1), 1, rtol=1e-5)
    expected = cosine(POINTS, centers)
    np.testing.assert_allclose(list(model.transform(once)), expected, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.score(once), expected.min(axis=1).sum(), rtol=1e-5)


def test_one_batch_chooses_the_centers_and_the_next_call_trains(tmp_path, caplog):
    model = kmeans(3, tmp_path, use_mini_batch=False)
    with pytest.raises(ValueError, match="There is no trained model"):
        model.cluster_centers()
    with pytest.raises(ValueError, match=r"the model has no centers.*Train first"):
        model.score(once)
    with pytest.raises(ValueError, match=r"KMeansModel.model_fn .* or return features only"):
        model.train(lambda: (tf.constant(POINTS), tf.constant(POINTS)), steps=1)
    model.train(once)
    assert "the input ended before the first step" in caplog.text
    assert "as KMeansClustering reads those that its first centers are chosen from" in caplog.text
    first = model.cluster_centers()
    assert (first[:, None] == POINTS).all(axis=2).any(axis=1).all()
    model.train(once)
    assert model.get_variable_value("global_step") == 1
    np.testing.assert_allclose(model.cluster_centers(), lloyd(POINTS, first, 1), rtol=1e-5)


def test_tolerance_ends_training_on_towers(tmp_path):
    """The losses of one tower alone would end it a step earlier."""
    settings = {"relative_tolerance": 0.18, "devices": ["/cpu:0", "/cpu:1"]}
    model = kmeans(3, tmp_path, POINTS[:3], use_mini_batch=False, **settings)
    model.train(full, max_steps=100)
    steps = int(model.get_variable_value("global_step"))
    assert 1 < steps < 30
    found = [lloyd(POINTS, POINTS[:3], number) for number in range(steps + 1)]
    np.testing.assert_allclose(model.cluster_centers(), found[-1], rtol=1e-5)
    losses = [squared(POINTS, centers).min(axis=1).sum() for centers in found[:-1]]
    changes = np.abs(np.diff(losses)) / (1 + np.array(losses[:-1]))
    assert changes[-1] < 0.18
    assert (changes[:-1] >= 0.18).all()
    for number, size in ((2, 3), (3, 2)):
        other, points = kmeans(number, tmp_path), POINTS[:, :size]
        with pytest.raises(ValueError, match="KMeansClustering: the model has no centers, or cen"):
            list(other.predict_cluster_index(lambda points=points: once(points)))
    with tf.Graph().as_default():
        v1.train.create_global_step()
        model.model_fn(tf.constant(POINTS), None, "train", model.config)
        assert [each.op.name for each in v1.get_collection("summaries")] == ["loss/raw"]


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"distance_metric": "cosine"}, marks=pytest.mark.slow),
        {"mini_batch_steps_per_iteration": 3, "initial_clusters": "kmeans_plus_plus"},
    ],
    ids=["cosine", "several steps"],
)
def test_three_towers_train_as_one(tmp_path, settings):
    one, three = (
        kmeans(4, tmp_path / str(count), devices=devices, **settings)
        for count, devices in [(1, None), (3, ["/cpu:0", "/cpu:1", "/cpu:2"])]
    )
    for model in (one, three):
        model.train(batches, steps=7)
    expected = one.cluster_centers()
    atol = 2e-6 * np.abs(expected).max()
    np.testing.assert_allclose(three.cluster_centers(), expected, rtol=0, atol=atol)
    evaluate = functools.partial(batches, size=25)
    np.testing.assert_allclose(
        three.evaluate(evaluate, steps=2)["score"],
        one.evaluate(evaluate, steps=2)["score"],
        rtol=2e-6,
    )
    np.testing.assert_array_equal(*(list(m.predict_cluster_index(once)) for m in (one, three)))


@pytest.mark.slow
def test_digits_against_scikit_learn(tmp_path):
    cluster = pytest.importorskip("sklearn.cluster")
    datasets = pytest.importorskip("sklearn.datasets")
    digits = datasets.load_digits().data.astype(np.float32)
    start = digits[:10]
    model = kmeans(10, tmp_path / "same", start, use_mini_batch=False)
    model.train(lambda: full(digits), steps=5)
    same = cluster.KMeans(10, init=start, n_init=1, max_iter=5, tol=0, algorithm="lloyd")
    same.fit(digits)
    np.testing.assert_allclose(model.cluster_centers(), same.cluster_centers_, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(model.score(lambda: once(digits)), same.inertia_, rtol=1e-5)

    chosen = kmeans(10, tmp_path / "chosen", "kmeans_plus_plus", mini_batch_steps_per_iteration=9)
    chosen.train(lambda: batches(digits, 200), steps=90)
    best = cluster.KMeans(10, n_init=3, random_state=0).fit(digits).inertia_
    assert chosen.score(lambda: once(digits)) < 1.05 * best
