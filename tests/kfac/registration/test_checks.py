"""Checks of a registration: default approximations, and reuse flags."""

import pytest
import tensorflow as tf

from kfac.registration.layer_table import LayerTable
from kfac.registration.scope import VARIABLE_SCOPE, RegistrationScope, is_reuse

v1 = tf.compat.v1


def test_default_approximations(graph):
    table = LayerTable(RegistrationScope())
    table.set_default("conv2d", "kron_sua")
    with pytest.raises(ValueError, match=r"default approximation of conv2d layers: approx='x'"):
        table.set_default("conv2d", "x")
    assert (table.defaults["conv2d"], table.defaults["conv1d"]) == ("kron_sua", "kron")
    assert LayerTable(table.scope).defaults["conv2d"] == "kron"


def test_reuse_flags(graph):
    for flag in (True, False):
        for exists in (True, False):
            assert is_reuse(flag, exists) is flag
        assert is_reuse(v1.AUTO_REUSE, exists=flag) is flag
        with v1.variable_scope("model", reuse=flag):
            assert is_reuse(VARIABLE_SCOPE, exists=False) is flag
    with pytest.raises(ValueError, match=r"reuse='yes'. Accepted are True, False"):
        is_reuse("yes", exists=False)
