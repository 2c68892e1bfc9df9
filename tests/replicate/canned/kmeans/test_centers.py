"""Variables of K-means: names, types and first values, and assignment of any number of rows."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.canned.kmeans.centers import assign_all, create_clusters, create_trained_variables
from replicate.canned.kmeans.settings import KMeansSettings

v1 = tf.compat.v1


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"use_mini_batch": False}, {}),
        ({}, {"Variable": np.ones(3, np.int64)}),
        (
            {"steps_per_iteration": 7},
            {
                "Variable": np.zeros(3, np.int64),
                "clusters_updated": np.zeros(0, np.float32),
                "update_in_steps": np.int64(7),
            },
        ),
    ],
)
def test_variables_have_the_names_of_tf_estimator(graph, changes, expected):
    clusters = create_clusters()
    create_trained_variables(clusters, KMeansSettings(3, **changes))
    expected = {**expected, "clusters": np.zeros(0, np.float32), "initialized": np.False_}
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        got = {each.op.name: session.run(each) for each in v1.trainable_variables()}
    assert got.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)
        assert got[name].dtype == value.dtype


def test_both_copies_take_any_number_of_centers(graph):
    clusters = create_clusters()
    variables = create_trained_variables(clusters, KMeansSettings(3, steps_per_iteration=2))
    rows = v1.placeholder(tf.float32, [None, 2])
    assign = assign_all(variables, clusters, rows)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for centers in (np.ones([1, 2]), np.ones([3, 2])):
            session.run(assign, {rows: centers})
            for copy in (clusters, variables.moving):
                np.testing.assert_array_equal(session.run(copy), centers)


def test_later_tower_gets_the_same_variables(graph):
    settings = KMeansSettings(3, steps_per_iteration=2)
    clusters = create_clusters()
    variables = create_trained_variables(clusters, settings)
    with v1.variable_scope("", reuse=True):
        assert create_clusters() is clusters
        assert create_trained_variables(clusters, settings).counts is variables.counts
