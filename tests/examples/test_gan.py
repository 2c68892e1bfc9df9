"""One optimizer for each network, distances of samples, their picture, and the program."""

import struct

import numpy as np
import pytest
import tensorflow as tf

import replicate
from examples import gan, mnist, pictures

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1
IMAGES = np.random.RandomState(0).rand(8, 4, 4, 1).astype(np.float32)
PARAMS = {"learning_rate": 0.01, "image_shape": (4, 4, 1)}


def replicated(mode, features):
    v1.set_random_seed(0)
    v1.train.get_or_create_global_step()
    model_fn = replicate.replicate_model_fn(
        gan.model_fn, loss_reduction=v1.losses.Reduction.MEAN, devices=["/cpu:0", "/cpu:1"]
    )
    return model_fn(tf.constant(features), None, mode, PARAMS)


def test_one_train_op_makes_a_step_of_both(graph):
    spec = replicated(replicate.ModeKeys.TRAIN, IMAGES)
    variables = v1.trainable_variables()
    assert len(variables) == 12
    slots = [v for v in v1.global_variables() if v not in variables and v.shape.rank]
    assert len(slots) == 2 * 12, "two for a variable, of the optimizer of its network alone"
    with v1.train.MonitoredSession() as session:
        before = session.run(variables)
        session.run(spec.train_op)
        after = session.run(variables)
        assert session.run(v1.train.get_global_step()) == 1  # Only one of the two counts.
    assert not any(map(np.array_equal, before, after))


def test_cross_entropy_against_numpy(graph, evaluate):
    logits = np.array([[-1.0], [2.0]], np.float32)
    real, fake = evaluate([gan.cross_entropy(tf.constant(logits), t) for t in (1.0, 0.0)])
    np.testing.assert_allclose(real, np.log1p(np.exp(-logits)).mean(), rtol=1e-6)
    np.testing.assert_allclose(fake, np.log1p(np.exp(logits)).mean(), rtol=1e-6)


def test_samples_picture_shows_the_samples_and_grows_with_their_rows(tmp_path):
    path, drawn = tmp_path / "picture.png", set()
    for value, count, height in ((0, 10, 102), (1, 10, 102), (1, 30, 246)):
        pictures.draw_samples([np.full([4, 4, 1], value)] * count, str(path), "A title")
        drawn.add(path.read_bytes())
        assert struct.unpack(">II", path.read_bytes()[16:24]) == (720, height)
    assert len(drawn) == 3


def images(*values):
    return np.array(values, np.float32).reshape(-1, 1, 1, 1)


def test_distances_are_those_to_the_nearest():
    data = mnist.Dataset(
        "numbers",
        mnist.Examples(images(0.0, 10.0), np.zeros(2)),
        mnist.Examples(images(1.0, 6.0), np.zeros(2)),
    )
    found = gan.distances(images(2.0, 9.0, 9.0), data)
    np.testing.assert_allclose(found["sample to image"], (2 + 1 + 1) / 3, rtol=1e-5)
    np.testing.assert_allclose(found["test to image"], (1 + 4) / 2, rtol=1e-5)
    np.testing.assert_allclose(found["test to sample"], (1 + 3) / 2, rtol=1e-5)


@pytest.mark.parametrize(
    ("steps", "nearest", "farthest"),  # An image has 64 pixels in [0, 1].
    [
        pytest.param(2, 3.0, 8.0, marks=pytest.mark.broad),
        pytest.param(200, 0.0, 2.6, marks=pytest.mark.slow),
    ],
)
def test_samples_come_near_to_images(run_program, tmp_path, steps, nearest, farthest):
    arguments = (f"--model_dir={tmp_path}", "--progress=off", "--eval_every_steps=200")
    arguments += ("--batch_size=64", "--learning_rate=0.004", f"--train_steps={steps}")
    done = run_program("gan", *arguments)
    assert done.code == 0, done.err
    assert "2 towers" in done.out
    assert nearest < done.number("sample to image") < farthest
    assert (tmp_path / "samples.png").read_bytes()[:4] == b"\x89PNG"
