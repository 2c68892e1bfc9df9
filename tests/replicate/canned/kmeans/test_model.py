"""The model_fn of K-means: specs of each mode, alone and on towers."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.model import KMeansModel
from replicate.canned.kmeans.settings import KMeansSettings
from replicate.model_fn import replicate_model_fn
from replicate.spec import ModeKeys

v1 = tf.compat.v1
RANDOM = np.random.default_rng(0)
POINTS = RANDOM.normal(size=[9, 2]).astype(np.float32)
CENTERS = POINTS[:3] + 0.1


def squared(points, centers):
    return ((points[:, None] - centers) ** 2).sum(-1)


def model_fn(towers, **changes):
    model = KMeansModel(KMeansSettings(3, initial_clusters=CENTERS, **changes)).model_fn
    if not towers:
        return lambda features, mode: model(features, mode, None)
    devices = [f"/cpu:{index}" for index in range(towers)]
    replicated = replicate_model_fn(model, v1.losses.Reduction.SUM, devices, uneven="weighted")
    return lambda features, mode: replicated(features, None, mode)


def built(towers, mode, features=POINTS):
    v1.train.create_global_step()
    make = model_fn(towers, use_mini_batch=False, relative_tolerance=0.1)
    return make(tf.constant(features), mode=mode)


def set_centers(session, centers=CENTERS):
    session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
    (clusters,) = (each for each in v1.global_variables() if each.op.name == "clusters")
    session.run(v1.assign(clusters, centers, validate_shape=False))
    return clusters


@pytest.mark.parametrize("towers", [0, 4])
def test_training_step_is_that_of_the_whole_batch(graph, towers):
    spec = built(towers, ModeKeys.TRAIN)
    distances = squared(POINTS, CENTERS)
    index = distances.argmin(axis=1)
    with v1.Session() as session:
        clusters = set_centers(session)
        compared = spec.training_hooks[1].before_run(None).fetches
        _, loss, whole = session.run([spec.train_op, spec.loss, compared])
        centers, step = session.run([clusters, v1.train.get_global_step()])
        (raw,) = (each for each in v1.get_collection("summaries") if "loss/raw" in each.op.name)
        summary = v1.Summary.FromString(session.run(raw))
    assert step == 1
    np.testing.assert_allclose(loss, distances.min(axis=1).sum(), rtol=1e-5)
    expected = [POINTS[index == k].mean(axis=0) for k in range(3)]
    np.testing.assert_allclose(centers, expected, rtol=2e-5, atol=1e-6)
    assert [value.tag for value in summary.value] == ["loss/raw"]
    np.testing.assert_allclose(whole, loss, rtol=1e-6)


def test_score_is_the_mean_over_batches(graph):
    features = v1.placeholder_with_default(POINTS, [None, 2])
    v1.train.create_global_step()
    spec = model_fn(2)(features, mode=ModeKeys.EVAL)
    value, update = spec.eval_metric_ops["score"]
    losses = [squared(batch, CENTERS).min(axis=1).sum() for batch in (POINTS, POINTS[:4])]
    with v1.Session() as session:
        set_centers(session)
        loss, _ = session.run([spec.loss, update])
        session.run(update, {features: POINTS[:4]})
        np.testing.assert_allclose(session.run(value), np.mean(losses), rtol=1e-5)
        np.testing.assert_allclose(loss, losses[0], rtol=1e-5)


@pytest.mark.parametrize("centers", [None, CENTERS[:2], CENTERS[:, :1]])
def test_centers_of_another_shape_cannot_predict(graph, centers):
    spec = built(0, ModeKeys.PREDICT)
    with v1.Session() as session:
        if centers is None:
            session.run(v1.global_variables_initializer())
        else:
            set_centers(session, centers)
        with pytest.raises(tf.errors.InvalidArgumentError, match="KMeansClustering: the model has"):
            session.run(spec.predictions)
