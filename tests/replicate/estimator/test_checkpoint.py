import os

import numpy as np
import pytest
import tensorflow as tf

from replicate.estimator.checkpoint import (
    CheckpointError,
    indexed_checkpoints,
    listed_checkpoints,
    newest_checkpoint,
    read_variable,
    restore_variables,
)

v1 = tf.compat.v1


def build(shape=(2, 3), names=("w",)):
    for name in names:
        v1.get_variable(name, shape, initializer=v1.ones_initializer())
    return v1.train.Saver(sharded=True, save_relative_paths=True)


@pytest.fixture
def saved(tmp_path):
    """A directory with checkpoints of steps 9 and 10."""
    with tf.Graph().as_default(), v1.Session() as session:
        saver = build()
        session.run(v1.global_variables_initializer())
        for step in (9, 10):
            saver.save(session, f"{tmp_path}/model.ckpt", step, write_meta_graph=False)
    return tmp_path


def restore(path, **model):
    with tf.Graph().as_default(), v1.Session() as session:
        saver = build(**model)
        restore_variables(session, saver, path)
        return session.run(v1.global_variables())


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_newest_is_what_the_state_file_says(saved):
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert listed_checkpoints(str(saved)) == [f"{saved}/model.ckpt-{n}" for n in (9, 10)]
    (saved / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"')
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-9"


def test_there_never_was_a_checkpoint(tmp_path):
    assert newest_checkpoint(str(tmp_path)) is None
    assert newest_checkpoint(f"{tmp_path}/absent") is None


def test_first_save_was_killed(tmp_path):
    (tmp_path / "model.ckpt-0.data-00000-of-00001").write_text("")
    assert newest_checkpoint(str(tmp_path)) is None


@pytest.mark.parametrize(
    "state",
    [None, b"", b"garbage {", b"\xff\xfe", b'model_checkpoint_path: "model.ckpt-77"'],
    ids=["missing", "empty", "garbage", "bytes", "dangling"],
)
def test_unusable_state_file_takes_the_highest_step_and_warns(saved, state, caplog):
    if state is None:
        (saved / "checkpoint").unlink()
    else:
        (saved / "checkpoint").write_bytes(state)
    assert newest_checkpoint(str(saved)) == f"{saved}/model.ckpt-10"
    assert "taking the newest one found" in caplog.text


@pytest.mark.parametrize("state", [b"", b'model_checkpoint_path: "model.ckpt-77"'])
def test_state_file_without_any_checkpoint_is_an_error(tmp_path, state):
    (tmp_path / "checkpoint").write_bytes(state)
    with pytest.raises(CheckpointError, match=r"no \*.index file is left"):
        newest_checkpoint(str(tmp_path))


def test_indexed_checkpoints_are_ordered_by_step(tmp_path):
    for name in ("model.ckpt-100", "model.ckpt-20", "other"):
        (tmp_path / f"{name}.index").write_text("")
    names = [os.path.basename(path) for path in indexed_checkpoints(str(tmp_path))]
    assert names == ["other", "model.ckpt-20", "model.ckpt-100"]


def test_restores(saved):
    (weights,) = restore(f"{saved}/model.ckpt-10")
    np.testing.assert_array_equal(weights, np.ones([2, 3]))


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def flip(path):
    data = bytearray(path.read_bytes())
    data[0] ^= 4
    path.write_bytes(bytes(data))


DATA, INDEX = "model.ckpt-10.data-00000-of-00001", "model.ckpt-10.index"


@pytest.mark.parametrize(
    ("damage", "name"),
    [
        (flip, DATA),
        (lambda path: truncate(path, 7), DATA),
        (lambda path: truncate(path, 0), DATA),
        (lambda path: truncate(path, 20), INDEX),
        (lambda path: truncate(path, 0), INDEX),
    ],
    ids=["bit", "short data", "empty data", "short index", "empty index"],
)
def test_damaged_file_is_named_and_nothing_is_changed(saved, damage, name):
    damage(saved / name)
    before = contents(saved)
    with pytest.raises(CheckpointError, match=f"damaged file .*{name}") as caught:
        restore(f"{saved}/model.ckpt-10")
    assert not isinstance(caught.value, tf.errors.OutOfRangeError)
    assert contents(saved) == before


def test_missing_data_file_is_named(saved):
    (saved / DATA).unlink()
    with pytest.raises(CheckpointError, match=r"model.ckpt-10.data-\*, which does not exist"):
        restore(f"{saved}/model.ckpt-10")


def test_missing_index_file_is_named(saved):
    (saved / INDEX).unlink()
    with pytest.raises(CheckpointError, match=r"model.ckpt-10.index does not exist"):
        restore(f"{saved}/model.ckpt-10")


def test_other_shape_names_the_variable_and_both_shapes(saved):
    with pytest.raises(CheckpointError, match=r"w: saved \[2, 3\], wanted \[3, 3\]"):
        restore(f"{saved}/model.ckpt-10", shape=(3, 3))


def test_missing_variables_are_named(saved):
    with pytest.raises(CheckpointError, match=r"lacks variables of this model: a, b. It holds: w"):
        restore(f"{saved}/model.ckpt-10", names=("w", "b", "a"))


def test_read_variable(saved):
    np.testing.assert_array_equal(read_variable(f"{saved}/model.ckpt-9", "w"), np.ones([2, 3]))
    with pytest.raises(CheckpointError, match=r"holds no variable 'v'. It holds: w"):
        read_variable(f"{saved}/model.ckpt-9", "v")


def test_read_variable_from_a_damaged_file(saved):
    truncate(saved / DATA, 3)
    with pytest.raises(CheckpointError, match=f"damaged file .*{DATA}"):
        read_variable(f"{saved}/model.ckpt-10", "w")
