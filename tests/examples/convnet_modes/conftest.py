"""Settings of the program's short runs."""

import pytest

from examples import cli


@pytest.fixture
def make_settings():
    """Makes settings of a run of three steps in a model directory; a test chooses some itself."""

    def make(model_dir, **chosen):
        settings = {
            "data_dir": None,
            "num_towers": None,
            "devices": None,
            "batch_size": 8,
            "train_steps": 3,
            "eval_every_steps": 3,
            "save_every_steps": None,
            "seed": 1,
            "progress": "off",
        }
        return cli.RunSettings(model_dir=str(model_dir), **{**settings, **chosen})

    return make
