"""tf.contrib.crf against the enumeration of all sequences."""

import itertools

import numpy as np
import tensorflow as tf

from replicate.compat.contrib import crf

v1 = tf.compat.v1
LENGTHS = np.array([4, 1, 3, 0])
DRAWS = np.random.default_rng(0)
SCORES = DRAWS.normal(size=[4, 4, 3]).astype("f4")
TRANSITIONS = DRAWS.normal(size=[3, 3]).astype("f4")
TAGS = DRAWS.integers(0, 3, size=[4, 4])


def score(row, tags):
    unary = sum(SCORES[row, time, tag] for time, tag in enumerate(tags))
    return unary + sum(TRANSITIONS[pair] for pair in itertools.pairwise(tags))


def all_tags(row):
    return list(itertools.product(range(3), repeat=int(LENGTHS[row])))


def log_norm(row, allowed=lambda time, tag: True):
    sequences = [
        tags for tags in all_tags(row) if all(allowed(time, tag) for time, tag in enumerate(tags))
    ]
    return np.log(sum(np.exp(score(row, tags)) for tags in sequences))


def run(build):
    with tf.Graph().as_default(), v1.Session() as session:
        values = build()
        session.run(v1.global_variables_initializer())
        return session.run(values)


def test_log_likelihood_is_that_of_all_sequences():
    tags, lengths = TAGS.astype("i4"), LENGTHS.astype("i4")
    likelihood = run(lambda: crf.crf_log_likelihood(SCORES, tags, lengths, TRANSITIONS)[0])
    expected = [score(row, TAGS[row, : LENGTHS[row]]) - log_norm(row) for row in range(4)]
    np.testing.assert_allclose(likelihood, expected, atol=1e-5)


def test_multitag_score_sums_over_what_the_bitmap_allows():
    bitmap = DRAWS.integers(0, 2, size=SCORES.shape) > 0
    bitmap[:, :, 0] = True
    found = run(lambda: crf.crf_multitag_sequence_score(SCORES, bitmap, LENGTHS, TRANSITIONS))
    expected = [
        log_norm(row, lambda time, tag, row=row: bitmap[row, time, tag]) for row in range(3)
    ]
    np.testing.assert_allclose(found[:3], expected, atol=1e-5)


def test_decoding_finds_the_best_sequence(old_control_flow):
    tags, scores = run(lambda: crf.crf_decode(SCORES, TRANSITIONS, LENGTHS))
    assert tags.dtype == np.int32
    for row in range(3):
        best = max(all_tags(row), key=lambda each, row=row: score(row, each))
        assert tags[row].tolist() == [*best, *[0] * (4 - LENGTHS[row])]
        np.testing.assert_allclose(scores[row], score(row, best), rtol=1e-5)
        found, found_score = crf.viterbi_decode(SCORES[row, : LENGTHS[row]], TRANSITIONS)
        assert found == list(best)
        np.testing.assert_allclose(found_score, score(row, best), rtol=1e-5)


def test_one_time_step_of_unknown_batch():
    def build():
        scores = v1.placeholder_with_default(SCORES[:, :1], [None, None, 3])
        ones = tf.ones_like(scores[:, 0, 0], tf.int64)
        return crf.crf_decode(scores, TRANSITIONS, ones), crf.crf_log_norm(
            scores, ones, TRANSITIONS
        )

    (tags, _), norm = run(build)
    np.testing.assert_array_equal(tags[:, 0], np.argmax(SCORES[:, 0], 1))
    np.testing.assert_allclose(norm, np.log(np.exp(SCORES[:, 0]).sum(1)), rtol=1e-5)


def test_transitions_are_a_trainable_variable(old_control_flow):
    with tf.Graph().as_default():
        with v1.variable_scope("crf"):
            likelihood, transitions = crf.crf_log_likelihood(SCORES, TAGS, LENGTHS)
        assert [(each.op.name, each.shape) for each in v1.trainable_variables()] == [
            ("crf/transitions", (3, 3))
        ]
        (gradient,) = tf.gradients(likelihood, [transitions])
        with v1.Session() as session:
            session.run(v1.assign(transitions, TRANSITIONS))
            found = session.run(gradient)
    # Expected minus model's number of transitions, from all sequences.
    expected = np.zeros([3, 3])
    for row in range(3):
        for first, second in itertools.pairwise(TAGS[row, : LENGTHS[row]]):
            expected[first, second] += 1
        for tags in all_tags(row):
            for first, second in itertools.pairwise(tags):
                expected[first, second] -= np.exp(score(row, tags) - log_norm(row))
    np.testing.assert_allclose(found, expected, atol=1e-4)
