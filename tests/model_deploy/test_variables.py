"""Variables that copies of a model share, whatever made them."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from model_deploy.variables import SharedVariables

v1 = tf.compat.v1


def build_copies(model, count=3):
    shared = SharedVariables()
    results = []
    for index in range(count):
        names = v1.name_scope(f"copy_{index}") if index else contextlib.nullcontext()
        with shared.copy(index, f"copy {index}"), names:
            results.append(model(index))
    return results


def get_variable(_):
    with v1.variable_scope("layer"):
        return v1.get_variable("w", shape=[2, 3])


def bare_variable(_):
    return tf.Variable(np.ones([2, 3], np.float32), name="w")


def v1_variable(_):
    return v1.Variable(lambda: tf.ones([2, 3]), name="w")


def keras_dense(_):
    layer = tf.keras.layers.Dense(3)
    layer.build([None, 2])
    return v1.trainable_variables()[0]


@pytest.mark.parametrize("model", [get_variable, bare_variable, v1_variable])
def test_copies_get_the_same_variable(graph, model):
    variables = build_copies(model)
    assert all(variable is variables[0] for variable in variables)
    assert len(v1.global_variables()) == 1
    assert not variables[0].op.name.startswith("copy_")


def test_keras_layers_are_shared(graph):
    build_copies(keras_dense)
    assert len(v1.trainable_variables()) == 2


def test_mixture_of_makers_keeps_its_order(graph):
    def model(_):
        return (
            tf.Variable(1.0, name="a"),
            v1.get_variable("b", shape=[4]),
            tf.Variable(2.0, name="c"),
            v1.get_variable("d", initializer=tf.constant(1.0)),
        )

    first, second = build_copies(model, count=2)
    assert all(a is b for a, b in zip(first, second, strict=True))


def test_local_variables_are_not_shared(graph):
    def model(_):
        return v1.Variable(0.0, trainable=False, collections=[v1.GraphKeys.LOCAL_VARIABLES])

    variables = build_copies(model)
    assert len({variable.ref() for variable in variables}) == 3


def test_suspended_makes_variables_as_usual(graph):
    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        tf.Variable(1.0, name="w")
    with shared.copy(1, "copy 1"):
        tf.Variable(1.0, name="w")
        with shared.suspended():
            slot = tf.Variable(1.0, name="slot")
    assert slot.op.name == "slot"
    assert len(v1.global_variables()) == 2


@pytest.mark.parametrize("model", [get_variable, bare_variable])
def test_a_copy_may_get_a_substitute(graph, model):
    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        first = model(0)
    stand_in = tf.Variable(first.initial_value, name="stand_in")
    substitutes = {first.ref(): stand_in}
    with shared.copy(1, "copy 1", substitute=lambda variable: substitutes[variable.ref()]):
        assert model(1) is stand_in


def test_outer_auto_reuse_scope_is_kept(graph):
    with v1.variable_scope("outer", reuse=v1.AUTO_REUSE):
        first = build_copies(get_variable, count=2)
        again = build_copies(get_variable, count=2)
    assert first[0] is again[1]


def test_missing_variable_is_named(graph):
    def model(index):
        tf.Variable(1.0, name="a")
        if index == 0:
            tf.Variable(1.0, name="b")

    with pytest.raises(
        ValueError, match=r"copy 1 disagrees with copy 0: it made only 1.*a \(\), b"
    ):
        build_copies(model)


def test_additional_variable_is_named(graph):
    def model(index):
        if index:
            tf.Variable(1.0, name="extra")

    with pytest.raises(ValueError, match=r"copy 1 disagrees .* it also makes 'extra'"):
        build_copies(model)


@pytest.mark.parametrize("reuse", [None, v1.AUTO_REUSE])
def test_additional_get_variable_is_named(graph, reuse):
    def model(index):
        with v1.variable_scope("layer", reuse=reuse):
            v1.get_variable("w", shape=[2])
            if index == 1:
                v1.get_variable("late", shape=[2])

    with pytest.raises(
        ValueError, match=r"copy 1 makes variable 'layer/late', which copy 0 did not"
    ):
        build_copies(model)


@pytest.mark.parametrize(
    ("initial", "found"), [([1.0, 2.0], r"\(2,\) float32"), (1, r"\(\) int32")]
)
def test_other_shape_or_type_is_named(graph, initial, found):
    def model(index):
        tf.Variable(initial if index else 1.0, name="w")

    with pytest.raises(ValueError, match=rf"in place of 'w' \(\) float32 it makes 'w' {found}"):
        build_copies(model)


def test_ordinary_errors_of_get_variable_pass(graph):
    def model(index):
        v1.get_variable("w", shape=[2 + index])

    with pytest.raises(ValueError, match="shape"):
        build_copies(model)
