"""The race to a loss: what is measured, where it begins, and its settings."""

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import harness, rivals
from benchmarks.time_to_loss import loss_programs, loss_race, race_settings
from benchmarks.time_to_loss.initial_weights import CONNECTIONS, INITIALIZERS
from benchmarks.time_to_loss.race_settings import Problem

v1 = tf.compat.v1


def test_race_from_given_weights_draws_the_batches_of_its_seed(monkeypatch, tmp_path):
    """The rival reads our weights, and both draw the same batches, so Adam's losses are equal."""
    monkeypatch.setattr(loss_programs, "UNITS", (4, 2))
    monkeypatch.setattr(loss_programs, "BATCH_SIZE", 16)
    monkeypatch.setitem(race_settings.BLOCK, "adam", 4)
    problem, path = Problem("autoencoder"), tmp_path / "weights.npz"
    loss_race.write_weights(path, problem, 3)
    weights = loss_race.read_weights(path)
    (ours,) = loss_race.race(problem, {"adam": 0.01}, 3, 8)
    (given,) = loss_race.race(problem, {"adam": 0.01}, 3, 8, weights)
    assert ours.steps == given.steps == [0, 4, 8]
    assert given.losses == pytest.approx(ours.losses, rel=1e-6)
    (moved,) = loss_race.race(problem, {"adam": 0.01}, 3, 4, [2 * each for each in weights])
    assert moved.losses[0] != pytest.approx(ours.losses[0], rel=1e-3)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_programs_run_with_tensorflow_kfac():
    """Installs it into the benchmarks' environment if it is not there."""
    python = rivals.install(str(rivals.FOLDER))
    options = ["--model=convnet", "--batch_size=8", "--repeats=1", "--here"]
    found = harness.read_json(rivals.command(python, "kfac_step", *options), "time it", 600)
    assert min(found["momentum"][0], found["K-FAC"][0]) > 0


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
