"""K-means beside that of tf.estimator: same first centers and batches, same results."""

import numpy as np
import pytest
import tensorflow as tf

import replicate

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

v1 = tf.compat.v1

_random = np.random.default_rng(0)
POINTS = _random.normal(size=[60, 3]) + 3 * np.eye(3)[_random.integers(0, 3, 60)]
POINTS = POINTS.astype(np.float32)
SETTINGS = {
    "given": {"initial_clusters": POINTS[:4]},
    "random, cosine": {"distance_metric": "cosine"},
    "k-means++": {"initial_clusters": "kmeans_plus_plus"},
}


def input_fn(repeated=True):
    dataset = tf.data.Dataset.from_tensor_slices(POINTS).batch(20)
    return dataset.repeat() if repeated else dataset


def all_points():
    return tf.data.Dataset.from_tensors(POINTS)


def stock(run_config, model_dir, **settings):
    return v1.estimator.experimental.KMeans(
        4, model_dir=str(model_dir), config=run_config, **settings
    )


def ours(model_dir, **settings):
    config = replicate.RunConfig(progress="off", save_summary_steps=None)
    return replicate.KMeansClustering(4, model_dir, config=config, **settings)


def variables(estimator):
    return {name: estimator.get_variable_value(name) for name in estimator.get_variable_names()}


def assert_same(got, expected):
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
        assert got[name].dtype == value.dtype


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_full_batches_train_and_predict_the_same(run_config, tmp_path, settings):
    settings = {**settings, "use_mini_batch": False}
    pair = ours(tmp_path / "ours", **settings), stock(run_config, tmp_path / "stock", **settings)
    for model in pair:
        model.train(input_fn, steps=5)
    assert_same(*map(variables, pair))
    np.testing.assert_array_equal(
        *(list(model.predict_cluster_index(all_points)) for model in pair)
    )
    distances = [np.array(list(model.transform(all_points))) for model in pair]
    np.testing.assert_allclose(*distances, rtol=1e-4, atol=1e-5)
    results = [model.evaluate(lambda: input_fn(repeated=False)) for model in pair]
    assert_same(*({name: np.array(value) for name, value in each.items()} for each in results))


def test_mini_batch_moves_the_same_centers_in_the_same_direction(run_config, tmp_path):
    start = POINTS[:4]
    settings = {"initial_clusters": start}
    pair = ours(tmp_path / "ours", **settings), stock(run_config, tmp_path / "stock", **settings)
    got, expected = (variables(model.train(input_fn, steps=1)) for model in pair)
    centers = got.pop("clusters"), expected.pop("clusters")
    assert_same(got, expected)
    # No order holds between two operations of the stock one: reading the counts m, by which it
    # divides, and adding the n points of the batch to them. So its n points may count twice.
    total = expected["Variable"][:, np.newaxis]
    ratio = (centers[1] - start) / np.where(centers[0] == start, 1, centers[0] - start)
    twice = total / (2 * total - 1)
    is_same, is_twice, stays = ratio - 1, ratio - twice, centers[1] - start
    assert np.min(np.abs([is_same, is_twice, stays]), axis=0).max() < 1e-4


def test_iteration_of_several_steps_ends_one_step_earlier(run_config, tmp_path):
    # The stock estimator replaces the centers in the first step of the next iteration.
    start = POINTS[:4]
    settings = {"initial_clusters": start, "mini_batch_steps_per_iteration": 2}
    pair = ours(tmp_path / "ours", **settings), stock(run_config, tmp_path / "stock", **settings)
    got, expected = (variables(model.train(input_fn, steps=1)) for model in pair)
    del got["clusters_updated"], expected["clusters_updated"]
    assert_same(got, expected)
    has_moved = []
    for _ in range(2):
        for model in pair:
            model.train(input_fn, steps=1)
        has_moved.append([not np.allclose(model.cluster_centers(), start) for model in pair])
    assert has_moved == [[True, False], [True, True]]


def test_stock_checkpoint_is_trained_on(run_config, tmp_path):
    settings = {"initial_clusters": POINTS[:4], "use_mini_batch": False}
    models = [stock(run_config, tmp_path / name, **settings) for name in ("same", "other")]
    for model in models:
        model.train(all_points, steps=1)
    models[1].train(all_points, steps=1)
    continued = ours(tmp_path / "same", **settings).train(all_points, steps=1)
    assert_same(variables(continued), variables(models[1]))


def test_exported_signatures_are_the_same(run_config, tmp_path):
    def receiver_fn(module):
        points = v1.placeholder(tf.float32, [None, 3], name="points")
        return module.TensorServingInputReceiver(points, points)

    served = []
    for name, model, module in [
        ("ours", ours(tmp_path / "ours", use_mini_batch=False), replicate.export),
        ("stock", stock(run_config, tmp_path / "stock", use_mini_batch=False), tf.estimator.export),
    ]:
        model.train(input_fn, steps=2)
        path = model.export_saved_model(
            str(tmp_path / name / "out"), lambda m=module: receiver_fn(m)
        )
        signatures = tf.saved_model.load(path.decode()).signatures
        answers = {
            (key, output): value.numpy()
            for key, function in signatures.items()
            for output, value in function(tf.constant(POINTS[:5])).items()
        }
        served.append(answers)
    assert_same(*served)
