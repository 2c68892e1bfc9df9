import sys

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator import Estimator, RunConfig
from replicate.inputs import numpy_input_fn, pandas_input_fn
from replicate.spec import EstimatorSpec

v1 = tf.compat.v1

A = np.arange(5, dtype=np.float32)
B = np.arange(10, dtype=np.int64).reshape(5, 2)


def batches(input_fn, most=100):
    """Returns the batches that an Estimator would read."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(3)
        iterator = v1.data.make_initializable_iterator(input_fn())
        batch = iterator.get_next()
        session.run(iterator.initializer)
        read = []
        while len(read) < most:
            try:
                read.append(session.run(batch))
            except tf.errors.OutOfRangeError:
                break
        return read


def test_epochs_follow_each_other_without_a_gap_and_the_last_batch_may_be_smaller():
    arguments = {"batch_size": 4, "num_epochs": 2, "shuffle": False}
    read = batches(numpy_input_fn({"a": A, "b": B}, A, **arguments))
    assert [list(labels) for _, labels in read] == [[0, 1, 2, 3], [4, 0, 1, 2], [3, 4]]
    features, _ = read[2]
    np.testing.assert_array_equal(features["a"], [3, 4])
    np.testing.assert_array_equal(features["b"], B[3:])
    assert (features["a"].dtype, features["b"].dtype) == (np.float32, np.int64)


def test_endless_batches_have_a_known_size():
    input_fn = numpy_input_fn(B, {"y": A}, batch_size=4, num_epochs=None, shuffle=False)
    with tf.Graph().as_default():
        features, labels = input_fn().element_spec
    assert features.shape.as_list() == [4, 2]
    assert labels["y"].shape.as_list() == [4]
    read = batches(input_fn, most=5)
    assert [value for _, labels in read for value in labels["y"]] == [*A] * 4
    with tf.Graph().as_default():
        spec = numpy_input_fn(B, batch_size=4, shuffle=False)().element_spec
    assert spec.shape.as_list() == [None, 2], "the last batch is smaller"


def test_shuffled_epochs_have_every_row_once():
    x = np.arange(50)
    read = batches(numpy_input_fn(x, -x, batch_size=50, num_epochs=2, shuffle=True))
    for features, labels in read:
        assert sorted(features) == list(x)
        np.testing.assert_array_equal(labels, -features)
    assert list(read[0][0]) != list(read[1][0]) != list(x)


@pytest.mark.parametrize(
    "words",
    [np.array(["one", "zwölf"]), np.array(["one", "zwölf"], object), np.array([b"1", b"two"])],
    ids=["text", "objects", "bytes"],
)
def test_texts(words):
    (read,) = batches(numpy_input_fn(words, shuffle=False))
    assert [word.decode() for word in read] == [
        word.decode() if isinstance(word, bytes) else word for word in words.tolist()
    ]


def test_arrays_stay_outside_of_the_graph():
    big = np.zeros([1000, 1000])
    with tf.Graph().as_default() as graph:
        numpy_input_fn(big, shuffle=True)()
        assert graph.as_graph_def().ByteSize() < 20_000


def test_position_can_be_saved(tmp_path, caplog):
    seen = []

    def model_fn(features, mode):
        noted = v1.py_func(lambda rows: seen.append(list(rows)), [features], [])
        with v1.control_dependencies([noted]):
            step = v1.assign_add(v1.train.get_global_step(), 1)
        return EstimatorSpec(mode, loss=tf.constant(0.0), train_op=step)

    input_fn = numpy_input_fn(np.arange(8), batch_size=4, num_epochs=None, shuffle=True)
    estimator = Estimator(model_fn, str(tmp_path), RunConfig(progress="off", continue_input=True))
    for _ in range(2):
        estimator.train(input_fn, steps=1)
    assert sorted(row for rows in seen for row in rows) == list(range(8))
    assert "cannot be saved" not in caplog.text
    assert "begins anew" not in caplog.text


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"x": A}, ValueError, "shuffle must be given as True .* got None"),
        ({"x": A, "shuffle": 1}, ValueError, "shuffle must be given as True .* got 1"),
        ({"x": [1], "shuffle": True}, TypeError, "x must be an array or a dict of arrays"),
        ({"x": {"a": [1]}, "shuffle": True}, TypeError, r"x\['a'\] must be an array"),
        ({"x": {}, "shuffle": True}, ValueError, "x is an empty dict"),
        ({"x": A, "y": {}, "shuffle": True}, ValueError, "y is an empty dict"),
        ({"x": A, "y": B[:3], "shuffle": True}, ValueError, r"same number of rows.*\(5, 3\)"),
        ({"x": A[:0], "shuffle": True}, ValueError, "at least 1"),
        ({"x": np.array(1), "shuffle": True}, ValueError, "x is a scalar"),
        ({"x": A, "shuffle": True, "batch_size": 0}, ValueError, "batch_size must be at least 1"),
        ({"x": A, "shuffle": True, "num_epochs": 0}, ValueError, "num_epochs must be at least 1"),
    ],
)
def test_wrong_arguments(arguments, error, text):
    with pytest.raises(error, match=text):
        numpy_input_fn(**arguments)


@pytest.fixture
def pandas():
    return pytest.importorskip("pandas", reason="pandas is not installed")


def test_data_frame(pandas):
    frame = pandas.DataFrame({"a": A, "word": list("vwxyz")}, index=[9, 8, 7, 6, 5])
    label = pandas.Series(A * 2, index=frame.index)
    read = batches(pandas_input_fn(frame, label, batch_size=3, shuffle=False))
    assert [list(features["a"]) for features, _ in read] == [[0, 1, 2], [3, 4]]
    assert [list(features["word"]) for features, _ in read] == [[b"v", b"w", b"x"], [b"y", b"z"]]
    assert [list(labels) for _, labels in read] == [[0, 2, 4], [6, 8]]


def test_names_of_columns_are_kept(pandas):
    numbered, mixed = pandas.DataFrame({0: A, 1: A}), pandas.DataFrame({0: A, "a": A})
    ((features, labels),) = batches(pandas_input_fn(numbered, numbered[[1]], shuffle=False))
    assert (sorted(features), sorted(labels)) == ([0, 1], [1])
    np.testing.assert_array_equal(labels[1], A)
    (features,) = batches(pandas_input_fn(mixed, shuffle=False))
    assert sorted(features) == ["0", "a"]


def test_without_pandas(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="needs pandas, which is not installed: pip install"):
        pandas_input_fn(None, shuffle=True)


def test_wrong_frames(pandas):
    frame = pandas.DataFrame({"a": A})
    with pytest.raises(TypeError, match=r"x must be a pandas.DataFrame, got .*ndarray"):
        pandas_input_fn(A, shuffle=True)
    with pytest.raises(TypeError, match=r"y must be a pandas.Series or .* got .*ndarray"):
        pandas_input_fn(frame, A, shuffle=True)
    with pytest.raises(ValueError, match="x and y must have the same index"):
        pandas_input_fn(frame, pandas.Series(A, index=A + 1), shuffle=True)
