"""The ways of training that are timed against each other make the same steps."""

import numpy as np
import pytest

from benchmarks.tower_step import tower_models, tower_programs

DEVICES = ["/cpu:0", "/cpu:1"]
MODELS = [
    tower_models.ConvNet(8, 16),
    tower_models.Embedding(rows=50, width=4, words=3, batch_size=16),
]


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_all_ways_train_equally(model):
    builds = (tower_programs.one_tower, tower_programs.by_hand, tower_programs.replicated)
    programs = [tower_programs.GraphProgram(model, DEVICES, build) for build in builds]
    for program in programs:
        program.run(3)
    expected = programs[0].parameters()
    assert all((a != b).any() for a, b in zip(expected, model.parameters.values(), strict=True))
    for program in programs[1:]:
        for found, value in zip(program.parameters(), expected, strict=True):
            np.testing.assert_allclose(found, value, rtol=0, atol=2e-6 * np.abs(value).max())


def test_mirrored_strategy_trains_equally():  # once: a process can only have one such strategy
    model = MODELS[1]
    mirrored = tower_programs.MirroredProgram(model, DEVICES)
    program = tower_programs.GraphProgram(model, DEVICES, tower_programs.one_tower)
    for each in (mirrored, program):
        each.run(3)
    for found, value in zip(mirrored.parameters(), program.parameters(), strict=True):
        np.testing.assert_allclose(found, value, rtol=0, atol=2e-6 * np.abs(value).max())
