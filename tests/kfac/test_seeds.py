import numpy as np
import pytest
import tensorflow as tf

from kfac.loss_functions import NormalMeanNegativeLogProbLoss
from kfac.seeds import fresh_numbers, random_signs, stateless_seed

v1 = tf.compat.v1


def in_new_session(make, graph_seed=None, runs=2):
    """Returns what a graph with one tensor gives in several runs of a session."""
    with tf.Graph().as_default(), v1.Session() as session:
        v1.set_random_seed(graph_seed)
        tensor = make()
        return np.stack([session.run(tensor) for _ in range(runs)])


def test_seeds_differ_by_source_and_step_and_stay_the_same(graph, session):
    seeds = [stateless_seed(source, step) for source in ("a", "b") for step in (0, 1)]
    assert len({tuple(seed) for seed in session.run(seeds)}) == 4
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


def test_fresh_numbers_differ_by_run_and_repeat_with_a_seed():
    for seed, graph_seed in ((None, 3), (5, None), (None, None)):
        first, again = (
            in_new_session(lambda seed=seed: fresh_numbers([3], seed), graph_seed) for _ in range(2)
        )
        assert len(set(first.ravel())) == 6
        assert (first == again).all() == (seed is not None or graph_seed is not None)


def sample(seed):
    """Returns two numbers that a loss draws."""
    return NormalMeanNegativeLogProbLoss(tf.zeros([2]), name="l").sample(seed)


@pytest.mark.parametrize("seed", [None, 5, np.int64(5)])
def test_numbers_are_seeds_that_differ_by_run(seed):
    first, second = in_new_session(lambda: sample(seed))
    assert (first != second).all()


@pytest.mark.parametrize("seed", [(1, 2), np.array([1, 2])])
def test_pairs_are_seeds_that_stay(seed):
    first, second = in_new_session(lambda: sample(seed))
    np.testing.assert_array_equal(first, second)


def test_other_seeds(graph):
    for seed in ([1, 2, 3], [0.5, 1.0], np.array(1)):
        with pytest.raises(
            ValueError, match=r"Cannot draw targets of loss 'l': the seed is a .* two integers"
        ):
            sample(seed)
