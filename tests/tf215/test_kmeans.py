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
    "given centers, full": {"initial_clusters": POINTS[:4], "use_mini_batch": False},
    "random, mini-batch": {"initial_clusters": "random"},
    "k-means++, full, cosine": {
        "initial_clusters": "kmeans_plus_plus",
        "distance_metric": "cosine",
        "use_mini_batch": False,
    },
    "random, mini-batch, cosine": {"distance_metric": "cosine"},
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
def test_training_and_predictions_are_the_same(run_config, tmp_path, settings):
    pair = ours(tmp_path / "ours", **settings), stock(run_config, tmp_path / "stock", **settings)
    for model in pair:
        model.train(input_fn, steps=5)
    assert_same(*map(variables, pair))
    found = [
        {key: np.array(list(model.predict_cluster_index(all_points))) for key in "i"}
        for model in pair
    ]
    assert_same(*found)
    distances = [np.array(list(model.transform(all_points))) for model in pair]
    np.testing.assert_allclose(*distances, rtol=1e-4, atol=1e-5)
    results = [model.evaluate(lambda: input_fn(repeated=False)) for model in pair]
    assert results[0].keys() == results[1].keys()
    for name, value in results[1].items():
        np.testing.assert_allclose(results[0][name], value, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(*(model.score(all_points) for model in pair), rtol=1e-5)


def test_several_steps_per_iteration_are_the_same_but_for_the_last_step(run_config, tmp_path):
    # The stock estimator replaces the centers in the first step of the next iteration.
    settings = {"initial_clusters": POINTS[:4], "mini_batch_steps_per_iteration": 3}
    pair = ours(tmp_path / "ours", **settings), stock(run_config, tmp_path / "stock", **settings)
    for model in pair:
        model.train(input_fn, steps=2)
    assert_same(*map(variables, pair))
    pair[0].train(input_fn, steps=1)
    pair[1].train(input_fn, steps=2)
    np.testing.assert_allclose(*(model.cluster_centers() for model in pair), rtol=1e-5)


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
        ("ours", ours(tmp_path / "ours"), replicate.export),
        ("stock", stock(run_config, tmp_path / "stock"), tf.estimator.export),
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
