import numpy as np
import pytest
import tensorflow as tf

from kfac.sampling import random_signs, stateless_seed


def test_seeds_differ_by_source_and_step(graph, session):
    seeds = [stateless_seed(source, step) for source in ("a", "b") for step in (0, 1)]
    assert len({tuple(seed) for seed in session.run(seeds)}) == 4


def test_seed_of_a_source_does_not_change_between_programs(graph, session):
    assert tuple(session.run(stateless_seed("logits/0", tf.constant(7)))) == (2556728652, 7)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_signs(graph, session, dtype):
    signs = random_signs([200, 100], tf.as_dtype(dtype), tf.constant([1, 2]))
    assert signs.dtype == dtype
    found = session.run(tf.cast(signs, tf.float64))
    np.testing.assert_array_equal(np.abs(found), 1)
    # Two of 20,000 entries' standard deviations are 0.014.
    assert abs(found.mean()) < 0.02


def test_signs_repeat_for_equal_seeds_only(graph, session):
    a, b, c = (random_signs([50], tf.float32, tf.constant(s)) for s in ([1, 2], [1, 2], [1, 3]))
    a, b, c = session.run([a, b, c])
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
