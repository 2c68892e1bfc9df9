"""Every name of tf.estimator is one of replicate's, or says what stands in for it."""

import pytest
import tensorflow as tf

import replicate
from replicate.absent_names import HINTS

if not hasattr(tf, "estimator"):
    pytest.skip("needs tf.estimator: run make test-tf215", allow_module_level=True)

OLD = {"tf.estimator": tf.estimator, "tf.compat.v1.estimator": tf.compat.v1.estimator}
SPACES = {
    **OLD,
    **{f"{name}.experimental": space.experimental for name, space in OLD.items()},
    "tf.compat.v1.estimator.tpu": tf.compat.v1.estimator.tpu,
}


@pytest.mark.parametrize("space", SPACES)
def test_names_are_there_or_have_a_hint(space):
    names = {name for name in dir(SPACES[space]) if not name.startswith("_")}
    assert names - set(replicate.__all__) - set(HINTS) == set()
