"""Summaries of tf.contrib.summary are written as TensorFlow 1 wrote them."""

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import summary

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


def values(folder):
    """Returns (step, tag, value) of all summaries in the files of a folder."""
    return [
        (event.step, value.tag, value)
        for path in sorted(folder.glob("*"))
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]


def test_summaries_are_written_in_each_nth_step(tmp_path):
    step = v1.train.get_or_create_global_step()
    writer = summary.create_file_writer(str(tmp_path), max_queue=3)
    with writer.as_default(), summary.record_summaries_every_n_global_steps(2):
        with v1.name_scope("scope"):
            summary.scalar("loss", step * 3)
        summary.histogram("weights", tf.constant([1.0, 2.0]), family="net")
        summary.image("picture", tf.ones([2, 2, 3, 1]), max_images=1)
        summary.audio("sound", tf.zeros([1, 8]), 8000.0, 1)
        summary.generic("any", tf.constant([5, 6]))
        written = summary.all_summary_ops()
        flush = summary.flush()
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(summary.summary_writer_initializer_op())
            for _ in range(4):
                session.run(written)
                session.run(v1.assign_add(step, 1))
            session.run(flush)
    found = values(tmp_path)
    assert {each for each, _, _ in found} == {0, 2}
    assert {tag for _, tag, _ in found} == {
        "scope/loss", "net/net/weights", "picture/image", "sound/audio", "any",
    }  # fmt: skip
    by_tag = {(each, tag): value for each, tag, value in found}
    assert by_tag[2, "scope/loss"].simple_value == 6
    assert by_tag[0, "net/net/weights"].histo.sum == 3
    picture = by_tag[0, "picture/image"].image
    assert (picture.height, picture.width) == (2, 3)
    assert by_tag[0, "sound/audio"].audio.sample_rate == 8000
    np.testing.assert_array_equal(tf.make_ndarray(by_tag[0, "any"].tensor), [5, 6])


def test_nothing_is_written_without_a_scope_or_in_one_that_does_not(tmp_path):
    writer = summary.create_file_writer(str(tmp_path))
    with writer.as_default():
        assert not summary.should_record_summaries()
        summary.scalar("loss", 1.0, step=1)
        summary.generic("any", 1.0, step=1)
        with summary.never_record_summaries():
            summary.scalar("loss", 1.0, step=1)
        with summary.always_record_summaries():
            records = summary.should_record_summaries()
            summary.scalar("loss", 2.0, step=3)
        with v1.Session() as session:
            summary.initialize(session=session)
            assert session.run(records)
            session.run(summary.all_summary_ops())
            session.run(summary.flush())
    assert [(step, value.simple_value) for step, _, value in values(tmp_path)] == [(3, 2.0)]


def test_writer_without_a_folder_writes_nothing():
    with summary.create_file_writer(None).as_default(), summary.always_record_summaries():
        summary.scalar("loss", 1.0, step=1)
    assert summary.summary_writer_initializer_op() == []
    assert summary.eval_dir("model") == "model/eval"
    assert summary.eval_dir("model", "test") == "model/eval_test"
