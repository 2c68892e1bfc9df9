"""The benchmark of checkpoints: its programs and its output."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import checkpoint_time as programs
from examples.slim.networks import factory

v1 = tf.compat.v1


@pytest.fixture(scope="module")
def trained():
    """A LeNet of a sixteenth of its width."""
    make = factory.get_network_fn

    def narrow(*args, **kwargs):
        return functools.partial(make(*args, **kwargs), depth_multiplier=1 / 16)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "get_network_fn", narrow)
        return programs.Trained("lenet", side=8, towers=2)


@pytest.mark.parametrize("make", [programs.EstimatorWay, programs.PlainWay])
def test_one_checkpoint_is_kept_and_restores_all_variables(trained, make, tmp_path):
    with trained.graph.as_default():
        way = make(trained, str(tmp_path))
        variables = v1.global_variables()
        step = trained.advance()
        saved = trained.session.run(variables)
        way.save()
        (index,) = tmp_path.glob("*.index")
        assert index.stem == f"model.ckpt-{step}"
        listed = tf.train.load_checkpoint(str(tmp_path)).get_variable_to_shape_map()
        assert len(listed) == len(trained.variables)
        assert sum(np.prod(shape) for shape in listed.values()) == trained.number_count
        assert any("cov" in name for name in listed)
        zeros = [v1.assign(x, tf.zeros_like(x)) for x in variables]
        for restore in (way.restore, way.find_and_restore):
            trained.session.run(zeros)
            restore()
            for found, expected in zip(trained.session.run(variables), saved, strict=True):
                np.testing.assert_array_equal(found, expected)
