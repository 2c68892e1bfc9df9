"""Checks of a registration: approximation, reuse flag, graph."""

import pytest
import tensorflow as tf

from kfac.registration import approximations
from kfac.registration.approximations import DefaultApproximations, check_approximation
from kfac.registration.scope import VARIABLE_SCOPE, RegistrationScope, is_reuse

v1 = tf.compat.v1


def test_default_approximations():
    defaults = DefaultApproximations()
    defaults.set("conv2d", "kron_sua")
    with pytest.raises(ValueError, match=r"default approximation of conv2d layers: approx='x'"):
        defaults.set("conv2d", "x")
    assert (defaults.of("conv2d"), defaults.of("conv1d")) == ("kron_sua", "kron")
    assert DefaultApproximations().of("conv2d") == "kron"


def test_unknown_approximation_is_refused():
    assert check_approximation("conv1d", "kron", "register layer 'w'") == "kron"
    with pytest.raises(
        ValueError, match=r"register layer 'w': approx='diagonal'. Accepted are 'kr"
    ):
        check_approximation("conv1d", "diagonal", "register layer 'w'")


def test_names_of_approximations_are_distinct():
    names = [v for k, v in vars(approximations).items() if k.startswith("APPROX_")]
    assert len(set(names)) == len(names) == 14


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_plain_flags_hold_for_new_and_existing_layers(graph, flag, exists):
    assert is_reuse(flag, exists) is flag


@pytest.mark.parametrize("exists", [True, False])
def test_auto_reuse_follows_existence(graph, exists):
    assert is_reuse(v1.AUTO_REUSE, exists) is exists


@pytest.mark.parametrize("flag", [True, False])
def test_reuse_of_the_variable_scope(graph, flag):
    with v1.variable_scope("model", reuse=flag):
        assert is_reuse(VARIABLE_SCOPE, exists=False) is flag


def test_other_reuse_flags_are_refused(graph):
    with pytest.raises(ValueError, match=r"reuse='yes'. Accepted are True, False"):
        is_reuse("yes", exists=False)


def test_closed_registration(graph):
    scope = RegistrationScope(graph, "mine")
    scope.check_open("layer 'a'")
    scope.close()
    assert scope.is_closed
    with pytest.raises(ValueError, match=r"Cannot register layer 'a': mine is finalized"):
        scope.check_open("layer 'a'")


def test_tensors_of_another_graph(graph):
    scope = RegistrationScope(name="mine")
    scope.check_graph("layer 'a'", tf.ones([]))
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"layer 'a': .* than mine\."):
        scope.check_graph("layer 'a'", tf.ones([]))
