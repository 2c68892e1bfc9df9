"""Variables that copies of a model share, whatever made them."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from model_deploy.disagreement import Remedy
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


def test_variables_of_different_makers_and_types_keep_their_order(graph):
    def model(_):
        return (
            tf.Variable(1.0, name="a"),
            v1.get_variable("b", shape=[4]),
            tf.Variable(2.0, name="c"),
            v1.get_variable("d", initializer=tf.constant(3)),
        )

    first, second, third = build_copies(model)
    assert all(a is b is c for a, b, c in zip(first, second, third, strict=True))
    assert first[-1].dtype.base_dtype == tf.int32


def test_variables_named_after_operations(graph):
    def named(value, name):
        return v1.get_variable(f"{tf.identity(value, name).op.name}/mean", [])

    shared, results = SharedVariables(), []
    tf.no_op("a")
    for index in range(3):
        with v1.name_scope(f"copy_{index}" if index else None), shared.copy(index, f"{index}"):
            results.append([named(1.0, "a"), named(2.0, "a"), named(3.0, "b"), named(4.0, "b")])
    assert [each.op.name for each in results[0]] == ["a_1/mean", "a_2/mean", "b/mean", "b_1/mean"]
    for others in results[1:]:
        assert all(one is other for one, other in zip(results[0], others, strict=True))
    with (
        pytest.raises(ValueError, match="in place of b/mean it makes copy_3/a_2/mean"),
        v1.name_scope("copy_3"),
        shared.copy(3, "3"),
    ):
        [named(1.0, "a") for _ in range(3)]


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


def test_suspended_makes_variables_as_usual_and_made_lists_those_not_of_get_variable(graph):
    shared = SharedVariables()
    with shared.copy(0, "copy 0"):
        get_variable(0)
        bare = bare_variable(0)
    with shared.copy(1, "copy 1"):
        get_variable(1)
        bare_variable(1)
        with shared.suspended():
            slot = tf.Variable(1.0, name="slot")
    assert slot.op.name == "slot"
    assert len(v1.global_variables()) == 3
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
        ([], [1.0], r"it also makes b0 \(\) float32\. copy 0 made \[a\]; copy 1 made \[a, b0 \("),
        ([1.0, 1.0], [1.0], r"it does not make b1\. copy 0 made \[a, b0 .*, b1 .*\]; copy 1 made"),
        ([1.0], [1], r"in place of b0 \(\) float32 it makes b0 \(\) int32\. copy 0 .* every call"),
        ([[1.0, 2.0]], [1.0], r"in place of b0 \(2,\) float32 it makes b0 \(\) float32"),
    ],
)
def test_different_variables_are_refused_with_both_lists(graph, first, second, difference):
    shared = SharedVariables()

    def build(index, values):
        with (
            v1.name_scope(f"copy_{index}") as scope,
            shared.copy(index, f"copy {index}", name_scope=scope),
        ):
            v1.get_variable("a", shape=[2])
            for number, value in enumerate(values):
                tf.Variable(value, name=f"b{number}")

    build(0, first)
    with pytest.raises(ValueError, match=rf"copy 1 disagrees with copy 0: {difference}"):
        build(1, second)


def test_different_calls_of_get_variable_are_refused_in_a_scope_that_reuses(graph):
    def model(index):
        with v1.variable_scope("s", reuse=v1.AUTO_REUSE):
            for name in "wb" if index else "w":
                v1.get_variable(name, shape=[2])

    text = r"also makes s/b\. copy 0 made \[s/w\]; copy 1 made \[s/w, s/b\]"
    with pytest.raises(ValueError, match=text):
        build_copies(model)


def test_what_only_the_first_copy_counts_with_is_not_missed(graph):
    def model(index):
        weight = v1.get_variable("w", shape=[2])
        if index == 0:
            v1.get_variable("steps", shape=[], trainable=False)
        return weight

    first, second = build_copies(model, count=2)
    assert first is second


def get(*names):
    return lambda: [v1.get_variable(name, shape=[2]) for name in names]


def make(*values, name="b"):
    return lambda: [tf.Variable(value, name=name) for value in values]


def shaped(*shape, dtype=tf.float32):
    return lambda: v1.get_variable("w", shape, dtype)


@pytest.mark.parametrize(
    ("first", "second", "difference", "remedy"),
    [
        (get("a"), get("a", "b"), "it also makes b", "MAKE_IT_AT_FIRST"),
        (make(1.0), make(1.0, 2.0), r"it also makes copy_1/b \(\) float32", "MAKE_IT_AT_FIRST"),
        (get("a", "b"), get("a"), "it does not make b", "MAKE_IT_AGAIN"),
        (make(1.0, 2.0), make(1.0), r"it does not make b_1", "MAKE_IT_AGAIN"),
        (get("w", "a_1"), get("w", "a_2"), "in place of a_1 it makes a_2", "KEEP_THE_NAME"),
        (get("a", "w"), get("w", "x"), "it also makes x", "MAKE_IT_AT_FIRST"),
        (shaped(2), shaped(3), r"Trying .* shape \(3,\) and found shape \(2,\)", "KEEP_THE_SHAPE"),
        (shaped(2), shaped(2, dtype=tf.int32), "Trying .* dtype", "KEEP_THE_TYPE"),
        (make([1.0]), make([1.0, 2.0]), r"in place of b \(1,\) .* \(2,\)", "KEEP_THE_SHAPE"),
        (make(1.0), make(1), "in place of b .* int32", "KEEP_THE_TYPE"),
        (make([1.0], 2.0), make(2.0, [1.0]), "in place of b .* it makes copy_1/b",
         "KEEP_THE_ORDER"),
        (make([1.0]), make(1.0, name="c"), r"in place of b .* it makes copy_1/c", "KEEP_THE_ORDER"),
    ],
)  # fmt: skip
def test_remedy_fits_how_a_copy_differs(graph, first, second, difference, remedy):
    with pytest.raises(ValueError, match=rf"copy 0: {difference}.*\. copy 0 made") as refused:
        build_copies(lambda index: second() if index else first())
    assert str(refused.value).endswith(Remedy[remedy].value)


def test_errors_inside_a_copy_are_not_changed(graph):
    def model(index):
        v1.get_variable("w", [2] if index else None, initializer=tf.zeros([2]))

    with pytest.raises(ValueError, match=r"^If initializer is a constant"):
        build_copies(model)


def named(model, scope_name):
    """Builds one copy in its own name scope and returns the names of its variables."""
    shared = SharedVariables()
    with v1.name_scope(scope_name) as scope, shared.copy(0, "copy 0", name_scope=scope):
        model(0)
    return [variable.op.name for variable in v1.global_variables()]


@pytest.mark.parametrize("model", [bare_variable, v1_variable])
def test_name_scope_of_the_copy_is_left_out_of_names_of_variables_and_initial_values(graph, model):
    assert named(model, "clone_0") == ["w"]
    inside = [each.name for each in graph.get_operations() if each.name.startswith("clone_0/")]
    assert inside == []
