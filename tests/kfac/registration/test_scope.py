import pytest
import tensorflow as tf

from kfac.registration.scope import RegistrationScope


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
