"""Checkpoints of an earlier commit load bit for bit, and training goes on from them as it did.

`golden/models.py` has the models, and made the checkpoints and the values expected after them.
"""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from replicate.saved.checkpoint_names import saved_variables

pytestmark = pytest.mark.usefixtures("plain_sessions")

GOLDEN = Path(__file__).parent / "golden"
SPEC = importlib.util.spec_from_file_location("golden_models", GOLDEN / "models.py")
models = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(models)

TOLERANCE = 5e-6
"""Of the largest entry of a variable. On one machine and one TensorFlow the values are equal bit
for bit; where products are added up in another order they differ by up to 1e-6."""


class LoadedValues(tf.compat.v1.train.SessionRunHook):
    """Reads all variables of a checkpoint before the first step."""

    def begin(self):
        self._variables = saved_variables()

    def after_create_session(self, session, coord):
        self.values = session.run(self._variables)


def assert_same(found, wanted):
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype, name
        np.testing.assert_array_equal(found[name], value, strict=True, err_msg=name)


def assert_close(found, wanted):
    assert sorted(found) == sorted(wanted)
    for name, value in wanted.items():
        assert (found[name].shape, found[name].dtype) == (value.shape, value.dtype), name
        largest = np.abs(value).max(initial=0)
        np.testing.assert_allclose(
            found[name], value, rtol=0, atol=TOLERANCE * largest, err_msg=name
        )


def test_there_is_a_checkpoint_of_each_kind():
    assert {path.parent.name for path in GOLDEN.glob("*/checkpoint")} == set(models.KINDS)


BROAD = ("momentum", "kfac_accumulation", "kfac_independent", "kfac_spatially_uncorrelated")
"""Kinds whose parts are all in others: "input_position" trains the model of "momentum"."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.broad] * (name in BROAD)) for name in models.KINDS],
)
def test_an_old_checkpoint_loads_and_training_goes_on_from_it(name, tmp_path):
    kind, folder = models.KINDS[name], tmp_path / name
    shutil.copytree(GOLDEN / name, folder)
    kept, loaded = models.values(folder), LoadedValues()

    models.train(kind, folder, kind.batches, kind.batches + kind.more, hooks=[loaded])

    assert_same(loaded.values, kept)
    with np.load(folder / "expected.npz") as expected:
        compare = assert_same if kind.is_exact else assert_close
        compare(models.values(folder), dict(expected))
