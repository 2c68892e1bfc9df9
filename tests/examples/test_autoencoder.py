"""The autoencoder's shapes, loss and registration, steps on two towers, and the program."""

import re

import numpy as np
import pytest
import tensorflow as tf
from absl.testing import flagsaver

import kfac
import replicate
from examples import autoencoder

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1
IMAGES = np.random.RandomState(0).rand(12, 4, 4, 1).astype(np.float32)


def test_loss_is_the_cross_entropy_summed_over_pixels(graph, evaluate):
    logits = np.random.RandomState(1).randn(12, 16).astype(np.float32)
    loss = evaluate(autoencoder.mean_loss(tf.constant(logits), tf.constant(IMAGES)))
    p, x = 1 / (1 + np.exp(-logits)), IMAGES.reshape(12, 16)
    expected = -(x * np.log(p) + (1 - x) * np.log(1 - p)).sum(1).mean()
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


def test_predictions_are_images_and_codes_of_registered_layers(graph, evaluate):
    layers = kfac.LayerCollection()
    autoencoder.build_model(tf.constant(IMAGES), layers)
    assert len(v1.trainable_variables()) == 16
    assert set(layers.registered_variables) == set(v1.trainable_variables())
    v1.get_variable_scope().reuse_variables()
    spec = autoencoder.model_fn(tf.constant(IMAGES), None, replicate.ModeKeys.PREDICT, {})
    found = evaluate(spec.predictions)
    assert found["image"].shape == IMAGES.shape
    assert found["code"].shape == (12, 2)
    assert 0 < found["image"].min() < found["image"].max() < 1


@pytest.mark.parametrize(
    ("hidden", "steps", "most"),  # Gray images have a loss of 64 log(2).
    [
        pytest.param((8,), 2, 64 * np.log(2), marks=pytest.mark.broad),
        pytest.param(autoencoder.HIDDEN, 10, 25.5, marks=pytest.mark.slow),
    ],
)
def test_program_draws_reconstructions(monkeypatch, tmp_path, capsys, hidden, steps, most):
    monkeypatch.setattr(autoencoder, "HIDDEN", hidden)
    with flagsaver.flagsaver():
        autoencoder.define_flags()
        flags = (f"--train_steps={steps}", f"--eval_every_steps={steps}", "--batch_size=128")
        flags += ("--num_towers=1", "--progress=off", f"--model_dir={tmp_path}")
        autoencoder.FLAGS(["autoencoder", *flags])
        autoencoder.main()
    out = capsys.readouterr().out
    assert "128 = 1 x 128" in out
    losses = [float(loss) for loss in re.findall(r"loss ([\d.]+) error", out)]
    assert len(losses) == 2
    assert max(losses) < most
    assert f"{tmp_path}/autoencoder.png\n" in out
    assert (tmp_path / "autoencoder.png").read_bytes()[:4] == b"\x89PNG"
