import numpy as np
import pytest
import tensorflow as tf

from kfac import data_reader

v1 = tf.compat.v1

ROWS = 6


@pytest.fixture
def stream(graph):
    """A batch of 6 numbered examples that differ from run to run: 0.., 6.., 12.., …"""
    numbers = tf.data.Dataset.range(10**6).batch(ROWS, drop_remainder=True)
    iterator = v1.data.make_initializable_iterator(numbers)
    v1.add_to_collection(v1.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
    number = iterator.get_next()
    return {"x": tf.stack([number, -number], axis=1), "name": tf.strings.as_string(number)}


@pytest.fixture
def size(graph):
    return v1.placeholder(tf.int32, [])


def start(session):
    session.run([v1.global_variables_initializer(), v1.tables_initializer()])


def test_first_rows(stream, size, session):
    read = data_reader.VariableBatchReader(stream, max_batch_size=4)
    batch = read(size)
    fixed = read(3)["x"]
    start(session)
    found = session.run(batch, {size: 2})
    np.testing.assert_array_equal(found["x"], [[0, 0], [1, -1]])
    assert list(found["name"]) == [b"0", b"1"]
    assert session.run(batch, {size: 4})["x"].shape == (4, 2)
    assert fixed.shape == (3, 2)
    for bad in (0, 5):
        start(session)  # A run that fails may leave the input at its end.
        with pytest.raises(tf.errors.InvalidArgumentError, match="batch_size must be from 1 to 4"):
            session.run(batch, {size: bad})


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda d: data_reader.VariableBatchReader(d, 7), "batches of up to 7.*has 6 rows"),
        (lambda d: data_reader.CachedDataReader(d, 7), "batches of up to 7.*has 6 rows"),
        (lambda d: data_reader.VariableBatchReader(d, 4)(5), "from 1 to 4, got 5"),
        (lambda d: data_reader.IndexedBatchReader(d, 6)(7), "from 1 to 6, got 7"),
        (lambda d: data_reader.IndexedBatchReader(d, 5), "from 5 examples.*has 6 rows"),
        (lambda d: data_reader.CachedIndexedReader(d, 7), "from 7 examples.*has 6 rows"),
        (lambda d: data_reader.CachedDataReader(d, 4).cached_batch, "no cached_batch yet"),
        (lambda d: data_reader.CachedIndexedReader(d, 6).cached_batch, "no cached_batch yet"),
    ],
)
def test_errors_while_building(stream, make, text):
    with pytest.raises(ValueError, match=text):
        make(stream)


@pytest.mark.parametrize("use_resource", [True, False])
def test_cached_batch_is_that_of_the_previous_run(stream, size, session, use_resource):
    with v1.variable_scope("", use_resource=use_resource):
        reader = data_reader.CachedDataReader(stream, max_batch_size=4)
        batch = reader(size)
    start(session)
    batches = []
    for wanted in (2, 4, 1, 3):
        now, previous = session.run([batch, reader.cached_batch], {size: wanted})
        assert len(now["x"]) == wanted
        if batches:
            np.testing.assert_array_equal(previous["x"], batches[-1]["x"])
            assert list(previous["name"]) == list(batches[-1]["name"])
        else:
            assert previous["x"].shape == (0, 2)
        batches.append(now)
    np.testing.assert_array_equal(session.run(reader.cached_batch["x"]), batches[-1]["x"])


def test_indexed_batches_have_different_rows(graph, size, session):
    data = tf.range(20)
    reader = data_reader.CachedIndexedReader((data, 2 * data), 20)
    batch = reader(size)
    session.run(v1.global_variables_initializer())
    found = [session.run([batch, reader.cached_batch], {size: 7}) for _ in range(4)]
    rows, doubled = zip(*(now for now, _ in found), strict=True)
    np.testing.assert_array_equal(doubled, 2 * np.array(rows))
    assert all(len(set(draw)) == 7 for draw in rows)
    assert len({tuple(draw) for draw in rows}) == 4
    previous = [cached[0] for _, cached in found]
    assert len(previous[0]) == 0
    np.testing.assert_array_equal(previous[1:], rows[:-1])


def test_a_resumed_reader_draws_what_it_would_have_drawn(graph, session, tmp_path):
    batch = data_reader.IndexedBatchReader(tf.range(20), 20)(5)
    saver = v1.train.Saver()
    session.run(v1.global_variables_initializer())
    session.run(batch)
    path = saver.save(session, str(tmp_path / "model"))
    expected = session.run(batch)
    session.run(batch)
    saver.restore(session, path)
    np.testing.assert_array_equal(session.run(batch), expected)
