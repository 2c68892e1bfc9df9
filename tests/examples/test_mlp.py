"""The perceptron's arithmetic, steps on two towers and on one, and the program in both modes."""

import json

import numpy as np
import pytest
import tensorflow as tf

import kfac
from examples import mlp

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")

v1 = tf.compat.v1


def test_layers_match_numpy_and_have_kronecker_blocks(graph, evaluate, noise):
    images, _ = noise(3)
    model = mlp.build_model(tf.constant(images))
    layers = kfac.LayerCollection()
    mlp.register(layers, model)
    assert set(layers.registered_variables) == set(v1.trainable_variables())
    assert all(note.startswith("kron") for note in layers.describe().values())
    with v1.variable_scope("", reuse=True):
        digits = mlp.predict(tf.constant(images))
    params, logits, predicted = evaluate(
        [[layer.params for layer in model], model[-1].outputs, digits]
    )
    np.testing.assert_array_equal(predicted, logits.argmax(axis=1))
    activations = images.reshape(3, 64)
    for weights, bias in params[:-1]:
        activations = np.tanh(activations @ weights + bias)
    weights, bias = params[-1]
    np.testing.assert_allclose(logits, activations @ weights + bias, rtol=1e-4, atol=1e-6)
    assert [weights.shape for weights, _ in params] == [(64, 64), (64, 32), (32, 10)]


@pytest.mark.parametrize("mode", ["estimator", pytest.param("plain", marks=pytest.mark.slow)])
def test_reaches_an_accuracy(run_program, tmp_path, mode):
    done = run_program(
        "mlp",
        f"--mode={mode}",
        f"--model_dir={tmp_path}",
        "--train_steps=40",
        "--eval_every_steps=40",
    )
    assert done.code == 0, done.err
    towers = 2 if mode == "estimator" else 1
    shown = "towers          2: " if mode == "estimator" else "1 tower: "
    assert shown in done.out + done.err
    assert f"128 = {towers} x {128 // towers}" in done.out
    assert done.number("test accuracy") >= 0.85
    assert f"{tmp_path}/model.ckpt-40\n" in done.out
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["program"] == "examples.mlp"
    assert (config["flags"]["train_steps"], config["params"]["damping"]) == (40, 0.03)
    if mode == "estimator":
        for folder in (tmp_path, tmp_path / "eval_train", tmp_path / "eval_test"):
            [line] = (folder / "metrics.jsonl").read_text().splitlines()
            assert json.loads(line)["step"] == 40
