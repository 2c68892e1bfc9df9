"""tf.contrib.data of TensorFlow 1.2 to 1.4."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.tf1_view import tensorflow1

v1 = tf.compat.v1
data = tensorflow1().contrib.data


def add_one(number):
    return number + 1


def test_maps_take_threads_and_a_buffer_wherever_they_stand(graph):
    numbers = data.Dataset.from_tensor_slices(np.arange(5))
    both = data.Dataset.zip((numbers, data.Dataset.range(10, 15)))
    made = both.map(tf.add, num_threads=2, output_buffer_size=4).skip(1)
    made = made.batch(2).map(add_one, 2).repeat(1).apply(lambda each: each.prefetch(1))
    made = made.map(add_one, num_parallel_calls=1)
    iterator = data.Iterator.from_structure(made.output_types, made.output_shapes)
    other = data.Iterator.from_dataset(numbers.filter(lambda x: x > 3))
    with v1.Session() as session:
        session.run([iterator.make_initializer(made), other.initializer])
        batch = iterator.get_next()
        assert session.run(batch).tolist() == [14, 16]
        last, large = session.run([batch, other.get_next()])
        assert last.tolist() == [18, 20]
        assert large == 4
        with pytest.raises(tf.errors.OutOfRangeError):
            session.run(batch)
    assert isinstance(made, data.Dataset)
    assert isinstance(made, tf.data.Dataset)
    assert isinstance(tf.data.Dataset.range(2), data.Dataset)


def test_files_and_batches_of_sparse_rows(graph, tmp_path):
    for name in ("b", "a"):
        (tmp_path / name).write_text("1\n2\n")
    names = data.Dataset.list_files(str(tmp_path / "*"))
    lines = names.flat_map(data.TextLineDataset).map(
        lambda line: tf.strings.to_number(line, tf.int64), num_threads=1
    )
    grouped = lines.group_by_window(lambda x: x, lambda _, each: each.batch(2), 2)
    sparse = lines.map(tf.range).dense_to_sparse_batch(4, [2])
    with v1.Session() as session:
        first = names.make_one_shot_iterator().get_next()
        assert session.run(first) == str(tmp_path / "a").encode()
        assert session.run(grouped.make_one_shot_iterator().get_next()).tolist() == [1, 1]
        rows = tf.sparse.to_dense(sparse.make_one_shot_iterator().get_next(), -1)
        assert session.run(rows).tolist() == [[0, -1], [0, 1], [0, -1], [0, 1]]
