"""Checkpoints are found, and the wait for new ones ends."""

import threading

import pytest
import tensorflow as tf

from examples.slim.image_classifier import checkpoints

v1 = tf.compat.v1


def save(folder, step):
    with tf.Graph().as_default(), v1.Session() as session:
        v1.get_variable("w", [])
        session.run(v1.global_variables_initializer())
        return v1.train.Saver().save(session, str(folder / "model.ckpt"), step)


def test_newest(tmp_path):
    first, second = save(tmp_path, 1), save(tmp_path, 2)
    assert checkpoints.newest(str(tmp_path)) == second
    assert checkpoints.newest(first) == first


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "model.ckpt-1"):
        with pytest.raises(ValueError, match=f"There is no checkpoint at {path}. Correct --check"):
            checkpoints.newest(str(path))


def test_following_yields_new_ones_until_none_comes(tmp_path):
    first = save(tmp_path, 1)
    found = checkpoints.following(str(tmp_path), 0.01, 1.5)
    assert next(found) == first
    later = threading.Timer(0.1, save, [tmp_path, 2])
    later.start()
    assert next(found).endswith("model.ckpt-2")
    later.join()
    assert list(found) == []


def test_path_that_cannot_be_read_is_refused(monkeypatch):
    def fail(path):
        raise tf.errors.UnavailableError(None, None, "no such bucket")

    monkeypatch.setattr(v1.train, "checkpoint_exists", fail)
    with pytest.raises(ValueError, match="Cannot read --checkpoint_path=a/b: no such bucket"):
        checkpoints.newest("a/b")
