"""The race to a loss: what is measured, where it begins, and its settings."""

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import harness
from benchmarks.rivals import environments
from benchmarks.time_to_loss import loss_programs, loss_race, race_settings
from benchmarks.time_to_loss.initial_weights import CONNECTIONS, INITIALIZERS
from benchmarks.time_to_loss.race_settings import Problem
from examples import mnist

v1 = tf.compat.v1


@pytest.mark.slow
@pytest.mark.parametrize("model", ["convnet", "autoencoder"])
def test_rivals_have_the_same_weights_and_batches(model, monkeypatch, run_python):
    def run_in_fork(command, *_):
        program, *arguments = command[3:]
        code = f"import runpy, sys; sys.path[0] = {str(Path(program).parent)!r}; "
        done = run_python(code + f"runpy.run_path({program!r}, run_name='__main__')", *arguments)
        assert done.code == 0, done.err
        return json.loads(done.out.splitlines()[-1])

    monkeypatch.setattr(harness, "read_json", run_in_fork)
    # This project's `kfac` takes the same arguments as the one that the program is written for.
    name = "tensorflow-kfac"
    settings = {"adam": {model: (0.01,)}, "kfac": {model: (0.1,)}}
    monkeypatch.setitem(race_settings.RIVAL_SETTINGS, name, settings)
    monkeypatch.setitem(race_settings.BLOCK, "adam", 4)
    problem, rival = Problem(model), (name, sys.executable)
    (adam, kfac), troubles = loss_race.race_rival(rival, problem, ["kfac"], 3, steps=8, seconds=600)
    assert troubles == []
    assert adam._replace(seconds=[], losses=[]) == loss_race.Curve(
        model, "adam", 0.01, 3, [0, 4, 8], [], []
    )
    assert kfac.steps == [0, 5, 10]
    assert kfac.losses[0] == adam.losses[0] > adam.losses[-1]
    assert math.isfinite(kfac.losses[-1])

    assert adam.losses == pytest.approx(our_losses(problem, "adam", 0.01), rel=1e-4)


def our_losses(problem, name, setting):
    """Losses at the start and after each of two blocks."""
    ours = loss_programs.Program(problem, name, setting, 3)
    losses = [ours.loss()]
    for _ in range(2):
        ours.run(4)
        losses.append(ours.loss())
    ours.close()
    return losses


def test_rows_are_the_examples_that_programs_draw(monkeypatch):
    monkeypatch.setattr(loss_programs, "UNITS", (4, 2))
    monkeypatch.setattr(loss_programs, "BATCH_SIZE", 16)
    monkeypatch.setattr(loss_programs, "WARM_UP", 2)
    problem = Problem("autoencoder")
    program = loss_programs.Program(problem, "momentum", 0.1, seed=5)
    before = program.weights()
    program.run(1)
    step = (before[-1] - program.weights()[-1]) / 0.1  # Gradient of the last bias.
    program.close()
    rows = loss_programs.draw_rows(problem, 5, steps=3)
    assert rows.shape == (3, 16)
    images = mnist.load_digits().train.images[rows[0]].reshape(16, -1)
    values = images
    for index, (weights, bias) in enumerate(zip(before[::2], before[1::2], strict=True)):
        outputs = values @ weights + bias
        values = outputs if index == 1 else np.tanh(outputs)
    expected = (1 / (1 + np.exp(-outputs)) - images).mean(axis=0)
    np.testing.assert_allclose(step, expected, atol=1e-5)


def test_race_of_a_rival_has_its_settings_and_blocks(monkeypatch):
    tasks, troubles = [], {"soap": "ImportError: no SOAP"}

    def read_json(command, *_):
        tasks.append(json.loads(command[-1]))
        run = {"setting": 0.1, "steps": [0, 40], "seconds": [0.0, 1.0], "losses": [2.0, 1.0]}
        return {"runs": [{"optimizer": "adam", **run}], "troubles": troubles}

    monkeypatch.setattr(loss_race, "_write_start", lambda *_: None)
    monkeypatch.setattr(harness, "read_json", read_json)
    race = ("pytorch", "python"), Problem("convnet"), ["soap"], 2, 90, 5
    (run,), told = loss_race.race_rival(*race)
    assert (run.problem, run.optimizer, run.seed, run.losses) == ("convnet", "adam", 2, [2.0, 1.0])
    assert told == ["soap does not race on convnet: ImportError: no SOAP"]
    (task,) = tasks
    assert (task["rounds"], len(task["grid"])) == (2, 3)
    assert task["blocks"] == {"momentum": 40, "adam": 40, "soap": 10}
    troubles["adam"] = "ImportError: no torch"
    with pytest.raises(harness.ChildError, match=r"Could not race pytorch.*no torch"):
        loss_race.race_rival(*race)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("model", race_settings.MODELS)
def test_pytorch_optimizers_learn_from_our_weights_and_batches(model, tmp_path, monkeypatch):
    """Installs PyTorch into the benchmarks' environment if it is not there."""
    rival = "pytorch", environments.install("pytorch", str(environments.FOLDER))
    problem, optimizers = Problem(model), list(race_settings.RIVAL_SETTINGS["pytorch"])
    for name in ("adam", "momentum"):
        monkeypatch.setitem(race_settings.BLOCK, name, 4)
    runs, troubles = loss_race.race_rival(rival, problem, optimizers, 3, steps=20, seconds=600)
    assert troubles == []
    assert [run.optimizer for run in runs] == 3 * optimizers
    by_optimizer = {name: [r for r in runs if r.optimizer == name] for name in optimizers}
    for name, theirs in by_optimizer.items():
        assert min(run.lowest for run in theirs) < 0.9 * theirs[0].losses[0], name

    theirs = by_optimizer["momentum"][0]  # Adam adds its epsilon at another place in PyTorch.
    losses = our_losses(problem, "momentum", theirs.setting)
    assert theirs.losses[:3] == pytest.approx(losses, rel=1e-4)


def drawn(kind, shape):
    with tf.Graph().as_default():
        v1.set_random_seed(1)
        with v1.variable_scope("", initializer=INITIALIZERS[kind]):
            weights = v1.get_variable("weights", shape)
        with v1.Session() as session:
            session.run(weights.initializer)
            return session.run(weights)


@pytest.mark.parametrize("inputs", [100, 4])
def test_sparse_units_have_as_many_normal_weights(inputs):
    weights = drawn("sparse", [inputs, 400])
    counts = np.count_nonzero(weights, axis=0)
    assert set(counts) == {min(CONNECTIONS, inputs)}
    found = weights[weights != 0]
    assert (found.mean(), found.std()) == pytest.approx((0, 1), abs=0.1)
    assert np.count_nonzero(weights, axis=1).min() > 0


def test_glorot_weights_are_uniform():
    weights = drawn("glorot", [100, 50])
    assert 0.99 * 0.2 < np.abs(weights).max() <= 0.2
    assert weights.std() == pytest.approx(0.2 / 3**0.5, rel=0.05)
