"""Shared tables are found by a warm start under each of their names."""

import numpy as np
import pytest
import tensorflow as tf

import replicate
from replicate.canned.columns.input_layer import input_layer
from replicate.canned.columns.linear_model import linear_model
from replicate.estimator.warm_start import WarmStartSettings, apply_warm_start

v1 = tf.compat.v1
fc = tf.feature_column
TABLE = np.array([[1, 2], [3, 4]], np.float32)
KEYS = ("city", "job")
FEATURES = {"city": [0, 1], "job": [1, 1]}


def columns(make):
    ids = [fc.categorical_column_with_identity(key, 2) for key in KEYS]
    return make(ids, 2, initializer=v1.ones_initializer())


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Writes a table under a name, and returns the path of the checkpoint."""

    def save(name):
        with tf.Graph().as_default(), v1.Session() as session:
            v1.get_variable(name, initializer=TABLE)
            session.run(v1.global_variables_initializer())
            return v1.train.Saver().save(session, str(tmp_path_factory.mktemp("old") / "model"))

    return save


MAKERS = [fc.shared_embeddings, v1.feature_column.shared_embedding_columns]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "name",
    [
        "city_job_shared_embedding",
        "dnn/city_job_shared_embedding",
        "dnn/input_layer/city_job_shared_embedding/embedding_weights",
    ],
)
def test_network_takes_a_table_of_any_name(make, name, checkpoint, graph):
    with v1.variable_scope("dnn"):
        layer = input_layer(FEATURES, columns(make))
    apply_warm_start(WarmStartSettings(checkpoint(name)))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(layer.values), [[1, 2, 3, 4], [3, 4, 3, 4]])


def test_linear_model_takes_a_table_without_scope(checkpoint, graph):
    with v1.variable_scope("linear"):
        linear_model(FEATURES, columns(fc.shared_embeddings), 1, "sum")
    settings = WarmStartSettings(
        checkpoint("city_job_shared_embedding"), vars_to_warm_start=".*shared_embedding:0"
    )
    apply_warm_start(settings)
    (table,) = v1.get_collection(v1.GraphKeys.GLOBAL_VARIABLES, "linear/city_job_shared_embedding")
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(table), TABLE)


@pytest.mark.parametrize(("make", "parts"), zip(MAKERS, [2, None], strict=True))
def test_towers_share_the_tables(make, parts, train_steps, tmp_path):
    batch = {"city": np.array([0, 1, 1, 0]), "job": np.array([1, 1, 0, 0])}, np.array([0, 1, 1, 0])
    found = []
    for devices in (None, ["/cpu:0", "/cpu:1"]):
        with tf.Graph().as_default():
            shared = columns(make)
        estimator = replicate.DNNClassifier(
            [],
            shared,
            str(tmp_path),
            optimizer=v1.train.GradientDescentOptimizer(0.1),
            input_layer_partitioner=parts and v1.fixed_size_partitioner(parts),
            devices=devices,
        )
        kernel = {"dnn/logits/kernel": np.ones([4, 1], np.float32)}
        done = train_steps(estimator, *batch, steps=2, initial=kernel)
        found.append(done)
    assert sorted(found[0].variables) == sorted(found[1].variables)
    tables = [name for name in found[0].variables if "city_job_shared_embedding" in name]
    assert len(tables) == (parts or 1)
    for name in tables:
        np.testing.assert_allclose(
            found[1].variables[name], found[0].variables[name], rtol=1e-5, err_msg=name
        )
        assert not np.allclose(found[0].variables[name], 1)
