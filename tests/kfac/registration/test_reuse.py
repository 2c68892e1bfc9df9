import pytest
import tensorflow as tf

from kfac.registration import reuse

v1 = tf.compat.v1


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_plain_flags_do_not_ask_whether_it_exists(graph, flag, exists):
    assert reuse.is_reuse(flag, exists) is flag


@pytest.mark.parametrize("exists", [True, False])
def test_auto_reuse_does_what_fits(graph, exists):
    assert reuse.is_reuse(v1.AUTO_REUSE, exists) is exists


@pytest.mark.parametrize("flag", [True, False])
def test_variable_scope(graph, flag):
    with v1.variable_scope("model", reuse=flag):
        assert reuse.is_reuse(reuse.VARIABLE_SCOPE, exists=False) is flag


def test_anything_else(graph):
    with pytest.raises(ValueError, match=r"reuse='yes'. Accepted are True, False"):
        reuse.is_reuse("yes", exists=False)
