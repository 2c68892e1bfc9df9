import numpy as np
import pytest
import tensorflow as tf

from kfac.fisher_factors.subsampling import sample_rows

ROWS = np.arange(40.0).reshape(20, 2)


def test_rows_are_different_rows(graph, session):
    found = session.run(sample_rows(tf.constant(ROWS), 7, "conv"))
    assert found.shape == (7, 2)
    assert len(np.unique(found[:, 0])) == 7
    assert np.isin(found[:, 0], ROWS[:, 0]).all()


@pytest.mark.parametrize("count", [20, 100])
def test_all_rows_if_there_are_fewer(graph, session, count):
    found = session.run(sample_rows(tf.constant(ROWS), count, "conv"))
    np.testing.assert_array_equal(np.sort(found, axis=0), ROWS)


def test_draws_depend_on_data_and_name_only(graph, session):
    first, again, named, other = session.run(
        [
            sample_rows(tf.constant(ROWS), 10, "a"),
            sample_rows(tf.constant(ROWS), 10, "a"),
            sample_rows(tf.constant(ROWS), 10, "b"),
            sample_rows(tf.constant(ROWS + 0.5), 10, "a"),
        ]
    )
    np.testing.assert_array_equal(first, again)
    assert (first != named).any()
    assert (first != other - 0.5).any()
