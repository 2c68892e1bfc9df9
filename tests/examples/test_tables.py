"""Tables of scikit-learn, feature columns made of them, and the programs that train on them."""

import numpy as np
import pytest
import tensorflow as tf

from examples import tables, wide_and_deep

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def wine():
    return tables.load("wine")


def test_table_is_split_by_class_into_three_and_two_fifths(wine):
    assert wine.columns[0] == "alcohol"
    assert "od280_od315_of_diluted_wines" in wine.columns
    assert wine.train.values.shape == (106, 13)
    assert wine.test.values.shape == (72, 13)
    train, test = (np.bincount(rows.labels, minlength=wine.classes) for rows in wine[3:])
    np.testing.assert_array_equal(train + test, [59, 71, 48])
    np.testing.assert_allclose(train / 106, test / 72, atol=0.01)
    rows = np.concatenate([wine.train.values, wine.test.values])
    assert len(np.unique(rows, axis=0)) == 178


def test_pipeline_gives_a_feature_for_each_column(wine, graph, evaluate):
    batches = tables.input_fn(wine, wine.test, 50, training=False)
    features, labels = evaluate(v1.data.make_one_shot_iterator(batches).get_next())
    assert set(features) == set(wine.columns)
    np.testing.assert_array_equal(features["magnesium"], wine.test.values[:50, 4])
    np.testing.assert_array_equal(labels, wine.test.labels[:50])


def test_columns_are_standardised_by_the_training_set_or_have_equal_buckets(wine, graph, evaluate):
    features = {key: tf.constant(wine.train.values[:, i]) for i, key in enumerate(wine.columns)}
    numeric, buckets = tables.numeric_columns(wine), [tables.bucketized_column(wine, "proline", 4)]
    values, found = evaluate(
        [v1.feature_column.input_layer(features, columns) for columns in (numeric, buckets)]
    )
    expected = (wine.train.values - wine.train.values.mean(0)) / wine.train.values.std(0)
    expected = expected[:, np.argsort(wine.columns)]
    np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-4)
    assert found.shape == (106, 4)
    assert found.sum(0).min() >= 25


def test_logistic_regression_classifies_breast_cancer():
    accuracy = tables.logistic_regression_accuracy(tables.load("breast_cancer"))
    assert 0.95 < accuracy < 0.98


def test_columns_are_bucketized_crossed_and_embedded(wine):
    columns = wide_and_deep.make_columns(wine)
    linear, deep = ({column.name for column in part} for part in columns)
    assert len(linear) == 10 + 3
    assert "alcohol_bucketized_X_malic_acid_bucketized" in linear
    assert len(deep) == 13 + 3
    assert {"proline", "alcohol_bucketized_X_malic_acid_bucketized_embedding"} <= deep


@pytest.fixture
def five_columns(wine, monkeypatch):
    """Makes the programs load the columns of wine that tell most, which makes small graphs."""
    chosen = [wine.columns.index(name) for name in COLUMNS]
    train, test = (rows._replace(values=rows.values[:, chosen]) for rows in (wine.train, wine.test))
    small = wine._replace(columns=COLUMNS, train=train, test=test)
    monkeypatch.setattr(tables, "load", lambda name: {"wine": small}[name])


COLUMNS = ("alcohol", "flavanoids", "color_intensity", "hue", "proline")


@pytest.mark.broad
def test_wide_and_deep_learns_and_draws(run_program, five_columns, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--table=wine")
    done = run_program("wide_and_deep", *arguments, "--train_steps=30")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert "106 rows to train on, 72 to test on, 5 columns" in done.out
    assert done.number("train accuracy") > 0.95
    assert done.number("test accuracy") > 0.85
    assert done.number("scikit-learn") > 0.95
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()


@pytest.mark.broad
def test_kfac_fits_the_training_set_better_than_adagrad(run_program, five_columns, tmp_path):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--table=wine")
    steps = ("--train_steps=20", "--eval_every_steps=20")
    done = run_program("tabular_kfac", *arguments, *steps, "--hidden_units=8")
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert done.number("K-FAC +train loss") < done.number("Adagrad +train loss")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "config.json").exists()
    other = run_program("tabular_kfac", *arguments)
    assert other.code == 2
    assert "holds checkpoints of a network of 8 units for wine" in other.err
