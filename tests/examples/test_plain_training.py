"""A loop on TensorFlow's own session: it counts, saves, goes on, evaluates, stops."""

import json
import os
import re
import signal

import numpy as np
import pytest
import tensorflow as tf

from examples import mnist, plain_training

v1 = tf.compat.v1


def examples(digits):
    return mnist.Examples(np.zeros([len(digits), 2, 2, 1], np.float32), np.array(digits, np.int32))


DATA = mnist.Dataset("zeros", examples([3, 3, 3, 1]), examples([3] * 501 + [0] * 499))


def predict(images):
    """Always 3."""
    return tf.fill([tf.shape(images)[0]], 3)


@pytest.fixture
def run(make_settings):
    """Runs steps that count, and have an effect of the test's."""

    def train(model_dir, loss=0.25, effect=None, **chosen):
        settings = make_settings(
            model_dir, **{"batch_size": 4, "train_steps": 4, "eval_every_steps": 2, **chosen}
        )
        with tf.Graph().as_default():
            train_op = v1.assign_add(v1.train.get_or_create_global_step(), 1)
            if effect is not None:
                train_op = tf.group(train_op, tf.numpy_function(effect, [], tf.int32))
            values = train_op, tf.constant(loss), tf.constant(0.75)
            plain_training.run(*values, predict, DATA, settings, {"r": 1})

    return train


def test_trains_prints_evaluates_and_goes_on(run, tmp_path, capsys):
    run(tmp_path)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        f"checkpoint none in {tmp_path}: starting at step 0",
        "training step 2 loss 0.2500 accuracy 0.750",
        "training step 4 loss 0.2500 accuracy 0.750",
        "train accuracy 0.750",
        "test accuracy 0.501",
        f"checkpoint {tmp_path}/model.ckpt-4",
    ]
    run(tmp_path, train_steps=5)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines[0] == f"checkpoint {tmp_path}/model.ckpt-4: continuing at step 4"
    assert lines[1] == "training step 5 loss 0.2500 accuracy 0.750"
    assert lines[-1] == f"checkpoint {tmp_path}/model.ckpt-5"
    assert json.loads((tmp_path / "config.json").read_text())["params"] == {"r": 1}
    run(tmp_path, train_steps=5)
    printed = capsys.readouterr().out
    assert "complete at step 5, nothing to train up to step 5" in printed
    assert "training  " not in printed


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_saves_and_prints_the_command_to_resume(run, tmp_path, capsys, number, code):
    def send():
        os.kill(os.getpid(), number)
        return np.int32(0)

    before = signal.getsignal(number)
    with pytest.raises(SystemExit) as end:
        run(tmp_path, effect=send, train_steps=1000)
    assert end.value.code == code
    assert signal.getsignal(number) is before
    printed = capsys.readouterr().out
    assert "go on with" in printed
    assert "accuracy" not in printed
    assert 0 < int(tf.train.latest_checkpoint(tmp_path).rpartition("-")[2]) < 1000


def test_damaged_checkpoint_is_set_aside_and_no_run_starts_anew_beside_it(run, tmp_path, capsys):
    def refused(name, message):
        (tmp_path / name).write_bytes(b"garbage {")
        before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        with pytest.raises(SystemExit) as end:
            run(tmp_path, train_steps=3)
        assert end.value.code == 2
        assert re.search(message, capsys.readouterr().err)
        assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    for last in (3, 4):
        run(tmp_path, train_steps=last)
    for path in tmp_path.glob("model.ckpt-0.*"):
        path.unlink()
    with (tmp_path / "model.ckpt-4.index").open("ab") as file:
        file.truncate(20)
    run(tmp_path, train_steps=3)
    assert "model.ckpt-3: complete at step 3" in capsys.readouterr().out
    assert (tmp_path / "model.ckpt-4.index.corrupt").exists()
    refused("checkpoint", "/checkpoint is damaged, and .* model_checkpoint_path: .*/model.ckpt-3")
    refused("model.ckpt-3.index", "none of them can be read")


def test_divergence_and_a_lost_directory_are_one_line_and_a_code(run, tmp_path, capsys):
    def lose():
        if (tmp_path / "run").is_dir():
            (tmp_path / "run").rename(tmp_path / "away")
            (tmp_path / "run").write_text("")
        return np.int32(0)

    for code, told, given in (
        (3, "training diverged", {"loss": np.nan}),
        (2, "Training stopped, since a file cannot be written: ", {"effect": lose}),
    ):
        with pytest.raises(SystemExit) as end:
            run(tmp_path / "run", **given)
        assert end.value.code == code
        [line] = capsys.readouterr().err.splitlines()
        assert told in line
