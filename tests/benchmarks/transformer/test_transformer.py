import numpy as np
import pytest
import tensorflow as tf

from benchmarks.transformer import __main__ as benchmark

if str(getattr(tf.keras, "__version__", "2.")).startswith("2."):
    pytest.skip("tf.keras is not Keras 3 here", allow_module_level=True)

from benchmarks.keras_fit.race import Curve
from benchmarks.transformer import race, text


def test_text_and_grid(tmp_path):
    for number in range(11):
        (tmp_path / f"{number:02}.py").write_text(f"{number:02}" * 20)
    loaded = text.load(str(tmp_path))
    assert bytes(loaded.held_out) == b"00" * 20 + b"10" * 20
    windows = loaded.windows(3, 5, np.random.default_rng(0))
    assert windows.shape == (3, 6)
    assert windows.max() < text.CHARACTERS
    assert race.grid("AdamW", 3)[::2] == [(0.00095, 0.0), (0.003, 0.0), (0.0095, 0.0)]


def test_row_has_medians():
    curves = [Curve([0, 10, 20], [0.0, 1.0, 2.0], [3.0, x, 1.9]) for x in (2.4, 2.6)]
    row = benchmark.row("SOAP", (0.1, 0), curves, [2.5, 1.0])
    assert (
        row == "| SOAP | 0.1 and 0 | 100 | 15 steps, 1.5 s | 0 of 2 runs | 1.900 [1.900, 1.900] |"
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", race.OPTIMIZERS)
def test_run(name):
    size = race.Size(blocks=1, width=16, heads=2, length=8, batch=4, steps=8, every=4)
    setting = race.grid(name, 1)[0]
    curve = race.train(name, setting, text.load(), size, seed=0)
    assert curve.steps == [0, 4, 8]
    assert curve.losses[-1] < curve.losses[0]
