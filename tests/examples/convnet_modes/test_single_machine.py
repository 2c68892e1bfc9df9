"""One device, one graph: a step from the same seed is the same step."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from examples import mnist
from examples.convnet_modes import single_machine

PARAMS = {"optimizer": "momentum", "learning_rate": 0.05, "momentum": 0.9}


def test_runs_with_one_seed_are_equal(tmp_path, capsys, make_settings, noise):
    data = mnist.Dataset("noise", noise(16), noise(16))
    losses = []
    for folder in ("first", "second"):
        single_machine.run(data, make_settings(tmp_path / folder, eval_every_steps=1), PARAMS)
        printed = capsys.readouterr().out
        assert "1 tower: " in printed
        losses.append([float(loss) for loss in re.findall(r"loss (\S+)", printed)])
    assert len(losses[0]) == 3
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-3)
