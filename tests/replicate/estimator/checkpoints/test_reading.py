from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from replicate.errors import CheckpointError
from replicate.estimator.checkpoints.reading import (
    checkpoint_files,
    damage_in,
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


def truncate(path, size):
    path.write_bytes(path.read_bytes()[:size])


def flip(path):
    data = bytearray(path.read_bytes())
    data[0] ^= 4
    path.write_bytes(bytes(data))


DATA, INDEX = "model.ckpt-10.data-00000-of-00001", "model.ckpt-10.index"


DAMAGE = {
    "bit": (flip, DATA, f"damaged file .*{DATA}"),
    "empty data": (lambda path: truncate(path, 0), DATA, f"damaged file .*{DATA}"),
    "no data": (Path.unlink, DATA, r"model.ckpt-10.data-\*, which does not exist"),
    "short index": (lambda path: truncate(path, 20), INDEX, f"damaged file .*{INDEX}"),
    "no index": (Path.unlink, INDEX, r"model.ckpt-10.index does not exist"),
}


@pytest.mark.parametrize(("damage", "name", "told"), DAMAGE.values(), ids=DAMAGE)
def test_checkpoint_is_restored_unless_a_file_is_damaged_which_is_named(saved, damage, name, told):
    (weights,) = restore(f"{saved}/model.ckpt-10")
    np.testing.assert_array_equal(weights, np.ones([2, 3]))
    damage(saved / name)
    before = contents(saved)
    with pytest.raises(CheckpointError, match=told) as caught:
        restore(f"{saved}/model.ckpt-10")
    assert not isinstance(caught.value, tf.errors.OutOfRangeError)
    assert contents(saved) == before


def test_flipped_bits_and_missing_files_are_damage(saved):
    path = f"{saved}/model.ckpt-10"
    assert damage_in(path) is None
    whole = (saved / DATA).read_bytes()
    for place in range(0, len(whole), 5):
        (saved / DATA).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert f"damaged file {saved}/{DATA}" in damage_in(path)
    (saved / DATA).unlink()
    assert "model.ckpt-10.data-*, which does not exist" in damage_in(path)
    assert damage_in(f"{saved}/model.ckpt-8") == f"{saved}/model.ckpt-8.index does not exist"


def test_files_of_a_checkpoint(saved):
    (saved / "model.ckpt-10.meta").write_text("")
    (saved / "model.ckpt-10.input_position").write_text("")
    (saved / f"{DATA}.corrupt").write_text("")
    names = [path.rpartition("/")[2] for path in checkpoint_files(f"{saved}/model.ckpt-10")]
    assert names == [INDEX, DATA, "model.ckpt-10.input_position", "model.ckpt-10.meta"]
    assert checkpoint_files("/absent/model.ckpt-1") == []


NEITHER = r"Build the model that was saved, or .* with warm_start_from=replicate\.WarmStartSettings"


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (
            {"shape": (3, 3)},
            r"shapes differ for 1 of its 1 variables: w: saved \[2, 3\], wanted \[3, 3\]\. ",
        ),
        (
            {"names": ("w", "b", "a")},
            r"lacks 2 of the 3 variables of this model: a, b\. It holds 1, .* lacks none\. ",
        ),
        (
            {"names": [f"v{number}" for number in range(8)]},
            r"lacks 8 of the 8 .*: v0, v1, v2, v3, v4 and 3 more\. It holds 1, .* lacks w\. ",
        ),
    ],
    ids=["shape", "some", "many"],
)
def test_variables_of_another_model_are_named(saved, model, told):
    with pytest.raises(CheckpointError, match=told + NEITHER):
        restore(f"{saved}/model.ckpt-10", **model)


def test_read_variable(saved):
    for name in ("w", "w:0"):
        np.testing.assert_array_equal(read_variable(f"{saved}/model.ckpt-9", name), np.ones([2, 3]))
    with pytest.raises(CheckpointError, match=r"'v' of .*-9: it holds 1 others, most like it w\. "):
        read_variable(f"{saved}/model.ckpt-9", "v")
    truncate(saved / DATA, 3)
    with pytest.raises(CheckpointError, match=f"damaged file .*{DATA}"):
        read_variable(f"{saved}/model.ckpt-10", "w")
