import math

import numpy as np
import pytest
import tensorflow as tf

from benchmarks.transformer import __main__ as benchmark

if str(getattr(tf.keras, "__version__", "2.")).startswith("2."):
    pytest.skip("tf.keras is not Keras 3 here", allow_module_level=True)

from benchmarks.curves import Curve
from benchmarks.transformer import graph, race, text


def test_text_and_grid(tmp_path):
    for number in range(11):
        (tmp_path / f"{number:02}.py").write_text(f"{number:02}" * 20)
    loaded = text.load(str(tmp_path))
    assert bytes(loaded.held_out) == b"00" * 20 + b"10" * 20
    windows = loaded.windows(3, 5, np.random.default_rng(0))
    assert windows.shape == (3, 6)
    assert windows.max() < text.CHARACTERS
    assert race.grid("AdamW", 3) == ([0.003, 0.0095, 0.00095], (0.99, 0.95))


def test_runs_are_kept(tmp_path, monkeypatch):
    size, made = race.Size(steps=60, every=20), []

    def train(name, setting, characters, size, seed, best):
        del name, characters, size, seed, best
        made.append(setting)
        return Curve([0, 60], [0.0] * 2, [4.0, abs(setting[0] - 0.003) + setting[1]])

    monkeypatch.setattr(race, "train", train)
    for _ in range(2):
        runs = benchmark.Runs(str(tmp_path / "runs.json"), None, size)
        assert runs.tune("AdamW", 3) == (0.003, 0.95)
    assert made == [(0.003, 0.99), (0.0095, 0.99), (0.00095, 0.99), (0.003, 0.95)]
    with pytest.raises(ValueError, match="was asked"):
        benchmark.Runs(str(tmp_path / "runs.json"), None, race.Size())


def test_hopeless_runs():
    best = Curve([0, 20, 40, 60], [0.0] * 4, [4.0, 3.0, 2.0, 1.0])
    size = race.Size(steps=60, every=20)
    cases = [([4.0, 3.6], True), ([4.6], False), ([4.0, 3.4, 2.4], False), ([math.nan], True)]
    for losses, expected in cases:
        steps = [20 * k for k in range(len(losses))]
        assert race.is_hopeless(Curve(steps, [], losses), size, best) == expected
    assert not race.is_hopeless(Curve([0, 20], [], [4.0, 9.0]), size, None)


@pytest.mark.slow
def test_graph_mode_learns_what_keras_learns():
    size = race.Size(blocks=1, width=16, heads=2, length=8, batch=4)
    source = text.Text(np.arange(999, dtype=np.uint8) % 97, np.zeros(9, np.uint8))
    of_keras, of_graph = graph.compare("K-FAC", source, size, steps=4)
    assert of_keras.losses[-1] < of_keras.losses[0]
    np.testing.assert_allclose(of_graph.losses, of_keras.losses, rtol=0, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", race.OPTIMIZERS)
def test_run(name):
    size = race.Size(blocks=1, width=16, heads=2, length=8, batch=4, steps=8, every=4)
    rates, numbers = race.grid(name, 1)
    curve = race.train(name, (rates[0], numbers[0]), text.load(), size, seed=0)
    assert curve.steps == [0, 4, 8]
    assert curve.losses[-1] < curve.losses[0]
