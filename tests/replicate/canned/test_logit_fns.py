"""Functions of logits get the arguments that they name."""

import pytest
import tensorflow as tf

from replicate.canned.logit_fns import call_logit_fn
from replicate.spec import ModeKeys


def call(logit_fn):
    return call_logit_fn(logit_fn, {"x": 1}, ModeKeys.EVAL, {"rate": 2}, "config")


def test_function_gets_what_it_names(graph):
    logits, given = tf.constant(1.0), {}

    def all_of_them(features, mode, params, config):
        given.update(features=features, mode=mode, params=params, config=config)
        return logits

    assert call(all_of_them) is logits
    assert given == {
        "features": {"x": 1},
        "mode": ModeKeys.EVAL,
        "params": {"rate": 2},
        "config": "config",
    }
    assert call(lambda features: logits) is logits
    assert call(lambda mode, features: {"head": logits}) == {"head": logits}


@pytest.mark.parametrize("result", [1.0, None, {"head": 2}])
def test_other_results_are_refused(result):
    with pytest.raises(ValueError, match="logit_fn '<lambda>' must return a Tensor of logits"):
        call(lambda features: result)
