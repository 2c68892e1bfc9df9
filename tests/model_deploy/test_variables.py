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
def test_copies_share_the_same_variable(graph, model):
    variables = build_copies(model)
    assert all(variable is variables[0] for variable in variables)
    assert len(v1.global_variables()) == 1
    assert not variables[0].op.name.startswith("copy_")


@pytest.mark.parametrize("value", [np.array([1.0, 2.0]), 3])
def test_initial_value_decides_the_type_in_every_copy(graph, value):
    def model(_):
        return v1.get_variable("w", initializer=tf.constant(value))

    variables = build_copies(model)
    assert all(variable is variables[0] for variable in variables)
    assert variables[0].dtype.base_dtype == tf.constant(value).dtype


def test_keras_layers_are_shared(graph):
    build_copies(keras_dense)
    assert len(v1.trainable_variables()) == 2


def test_variables_of_different_makers_keep_their_order(graph):
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


@pytest.mark.parametrize(("collections", "count"), [([], 3), (None, 1)])
def test_variables_of_keras_metrics_are_not_shared(graph, collections, count):
    def model(_):
        return v1.Variable(
            0.0,
            collections=collections,
            synchronization=tf.VariableSynchronization.ON_READ,
            aggregation=tf.VariableAggregation.SUM,
        )

    variables = build_copies(model)
    assert len({variable.ref() for variable in variables}) == count


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


def test_made_lists_variables_not_made_by_get_variable(graph):
    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        get_variable(0)
        bare = bare_variable(0)
    assert shared.made == (bare,)


@pytest.mark.parametrize("model", [get_variable, bare_variable])
def test_a_copy_may_get_a_substitute(graph, model):
    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        first = model(0)
    stand_in = tf.Variable(first.initial_value, name="stand_in")
    substitutes = {first.ref(): stand_in}
    with shared.copy(1, "copy 1", substitute=lambda variable: substitutes[variable.ref()]):
        assert model(1) is stand_in


def test_a_partitioned_variable_is_shared_without_substitute(graph):
    def model():
        return v1.get_variable("p", [4, 1], partitioner=v1.fixed_size_partitioner(2))

    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        first = model()
    with shared.copy(1, "copy 1", substitute=lambda variable: variable.ref()):
        second = model()
    assert [part.ref() for part in second] == [part.ref() for part in first]


def test_outer_auto_reuse_scope_is_kept(graph):
    with v1.variable_scope("outer", reuse=v1.AUTO_REUSE):
        first = build_copies(get_variable, count=2)
        again = build_copies(get_variable, count=2)
    assert first[0] is again[1]


@pytest.mark.parametrize(
    ("first", "second", "difference"),
    [
        ([], ["b"], r"also makes b \(\) float32\. copy 0 made \[\]; copy 1 made \[b"),
        (["a", "b"], ["a"], r"does not make b\. copy 0 made \[a .*, b .*\]; copy 1 made \[a"),
    ],
)
def test_different_number_of_variables_is_refused(graph, first, second, difference):
    shared = SharedVariables()

    def build(index, names):
        with (
            v1.name_scope(f"copy_{index}") as scope,
            shared.copy(index, f"copy {index}", name_scope=scope),
        ):
            for name in names:
                tf.Variable(1.0, name=name)

    build(0, first)
    with pytest.raises(ValueError, match=rf"copy 1 disagrees with copy 0: it {difference}"):
        build(1, second)


def test_fewer_trainable_variables_of_get_variable_are_refused(graph):
    def model(index):
        for name in "ab"[: 2 - index]:
            v1.get_variable(name, shape=[2])

    with pytest.raises(
        ValueError, match=r"does not make b\. copy 0 made \[a, b\]; copy 1 made \[a\]"
    ):
        build_copies(model)


def test_error_lists_the_variables_of_both_copies(graph):
    def model(index):
        v1.get_variable("a", shape=[2])
        tf.Variable(1.0 if index else [1.0, 2.0], name="b")

    shared = SharedVariables()
    with shared.copy(0, "tower 0"):
        model(0)
    with (
        pytest.raises(
            ValueError,
            match=r"tower 1 disagrees with tower 0: in place of b \(2,\) float32 it makes "
            r"b \(\) float32\. tower 0 made \[a, b \(2,\) float32\]; "
            r"tower 1 made \[a, b \(\) float32\]\. .* on every call",
        ),
        v1.name_scope("tower_1") as scope,
        shared.copy(1, "tower 1", name_scope=scope),
    ):
        model(1)


@pytest.mark.parametrize("reuse", [None, v1.AUTO_REUSE])
def test_additional_get_variable_is_named(graph, reuse):
    def model(index):
        with v1.variable_scope("layer", reuse=reuse):
            v1.get_variable("w", shape=[2])
            if index == 1:
                v1.get_variable("late", shape=[2])

    with pytest.raises(
        ValueError,
        match=r"it also makes layer/late\. copy 0 made \[layer/w\]; "
        r"copy 1 made \[layer/w, layer/late\]",
    ):
        build_copies(model)


def test_different_dtype_is_refused(graph):
    def model(index):
        tf.Variable(1 if index else 1.0, name="w")

    with pytest.raises(ValueError, match=r"in place of w \(\) float32 it makes .*w \(\) int32"):
        build_copies(model)


def test_what_only_the_first_copy_counts_with_is_not_missed(graph):
    def model(index):
        weight = v1.get_variable("w", shape=[2])
        if index == 0:
            v1.get_variable("steps", shape=[], trainable=False)
        return weight

    first, second = build_copies(model, count=2)
    assert first is second


def test_an_error_inside_a_copy_is_not_changed(graph):
    def model(index):
        if index:
            raise KeyError("mine")
        tf.Variable(1.0)

    with pytest.raises(KeyError, match="mine"):
        build_copies(model)


def test_ordinary_errors_of_get_variable_pass(graph):
    def model(index):
        v1.get_variable("w", shape=[2 + index])

    with pytest.raises(ValueError, match="shape"):
        build_copies(model)


def named(model, scope_name):
    """Builds one copy in its own name scope and returns the names of its variables."""
    shared = SharedVariables()
    with v1.name_scope(scope_name) as scope, shared.copy(0, "copy 0", name_scope=scope):
        model(0)
    return [variable.op.name for variable in v1.global_variables()]


@pytest.mark.parametrize("model", [bare_variable, v1_variable, get_variable])
def test_name_scope_of_the_copy_is_left_out_of_variable_names(graph, model):
    plain = "layer/w" if model is get_variable else "w"
    assert named(model, "clone_0") == [plain]


def test_scopes_around_and_inside_the_copy_are_kept_in_names(graph):
    def model(index):
        with v1.name_scope("inner"):
            bare_variable(index)
        with v1.name_scope("inner"):
            bare_variable(index)
        with v1.name_scope(None):
            bare_variable(index)

    with v1.name_scope("outer"):
        assert named(model, "clone_0") == ["outer/inner/w", "outer/inner_1/w", "w"]


def test_a_name_used_in_the_copy_is_reserved_for_its_variables(graph):
    def model(index):
        tf.constant(1.0, name="w")
        bare_variable(index)
        assert tf.constant(1.0, name="w").op.name == "clone_0/w_2"

    assert named(model, "clone_0") == ["w_1"]


def test_initial_values_are_made_without_the_scope_too(graph):
    named(v1_variable, "clone_0")
    inside = [each.name for each in graph.get_operations() if each.name.startswith("clone_0/")]
    assert inside == []
