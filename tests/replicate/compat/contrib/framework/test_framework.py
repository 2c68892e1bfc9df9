"""Small functions of tf.contrib.framework, and functions on structures that tf.nest lacks."""

import collections

import numpy as np
import pytest
import tensorflow as tf

from replicate.compat.contrib import framework
from replicate.compat.contrib.framework import nest

v1 = tf.compat.v1
pytestmark = pytest.mark.usefixtures("graph")


@pytest.fixture
def warnings(monkeypatch):
    logged = []
    monkeypatch.setattr(v1.logging, "warning", lambda text, *args: logged.append(text % args))
    return logged


def test_deprecated_functions_and_classes_warn_once_and_work(warnings):
    @framework.deprecated("2018-01-01", "Use other.")
    def function(x):
        """Doubles."""
        return 2 * x

    @framework.deprecated(None, "Use another.")
    class Thing:
        def __init__(self, x):
            self.x = x

    assert [function(2), function(3), Thing(4).x] == [4, 6, 4]
    assert function.__doc__ == "Doubles."
    assert isinstance(Thing(1), Thing)
    assert len(warnings) == 2
    assert "function is deprecated and goes away after 2018-01-01. Use other." in warnings[0]
    assert "in a future version. Use another." in warnings[1]


def test_deprecated_arguments_warn(warnings):
    @framework.deprecated_args(None, "Leave it out.", "old", ("other", None), warn_once=False)
    def by_name(x, old=1, other=None):
        return x + old

    @framework.deprecated_arg_values(None, "Use 1.", x=0)
    def by_value(x):
        return x

    assert (by_name(1), by_name(1, other=None)) == (2, 2)
    assert warnings == []
    assert (by_name(1, 2), by_name(1, other=3), by_value(0), by_value(1)) == (3, 2, 0, 1)
    assert len(warnings) == 3


def test_scopes_of_names():
    for name, scope, longer, shorter in (
        ("a/b", "a", "a/a/b", "b"),
        ("^a/b", "a", "^a/a/b", "^b"),
        ("loc:@a/b", "a", "loc:@a/a/b", "loc:@b"),
        ("b", "a", "a/b", "b"),
        ("a/b", None, "a/b", "a/b"),
    ):
        assert framework.prepend_name_scope(name, scope) == longer
        assert framework.strip_name_scope(name, scope) == shorter


def test_shapes_are_checked(evaluate):
    unknown = v1.placeholder(tf.float32)
    assert framework.get_placeholders(v1.get_default_graph()) == [unknown]
    checked = framework.with_shape([2, None], unknown)
    assert checked.shape.as_list() == [2, None]
    assert evaluate(checked, {unknown: np.ones([2, 3])}).sum() == 6
    with pytest.raises(tf.errors.InvalidArgumentError):
        evaluate(framework.with_shape([3], unknown), {unknown: [1.0]})
    with pytest.raises(tf.errors.InvalidArgumentError):
        evaluate(framework.with_same_shape(tf.ones([2]), unknown), {unknown: [1.0]})
    with pytest.raises(ValueError, match="incompatible"):
        framework.with_shape([3], tf.ones([2]))
    size = v1.placeholder(tf.int32, [1])
    checked = framework.with_shape(size, unknown)
    assert evaluate(checked, {size: [2], unknown: [1.0, 2.0]}).sum() == 3
    shorter = v1.placeholder_with_default([1.0], [None])
    with pytest.raises(tf.errors.InvalidArgumentError):
        evaluate(framework.with_same_shape(shorter, tf.ones([2])))


def test_types_are_checked(evaluate):
    assert framework.assert_same_float_dtype([tf.ones([1], tf.float64), None]) == tf.float64
    assert framework.assert_same_float_dtype() == tf.float32
    with pytest.raises(ValueError, match="must have one type"):
        framework.assert_same_float_dtype([tf.ones([]), tf.ones([], tf.float16)])
    with pytest.raises(ValueError, match="floating-point type, got int32"):
        framework.assert_same_float_dtype(dtype=tf.int32)
    assert evaluate(framework.assert_scalar_int(tf.constant(3))) == 3
    with pytest.raises(ValueError, match="int32 or int64"):
        framework.assert_scalar_int(tf.constant(1.0))
    with pytest.raises(ValueError, match="scalar"):
        framework.assert_scalar_int(tf.constant([1]))


def test_small_numbers(evaluate):
    assert evaluate(framework.reduce_sum_n([tf.ones([2]), tf.fill([3], 2.0)])) == 8
    with pytest.raises(ValueError, match="no tensors"):
        framework.reduce_sum_n([])
    for pair in ((tf.ones([3, 1]), tf.ones([3])), (tf.ones([3]), tf.ones([3, 1]))):
        predictions, labels = framework.remove_squeezable_dimensions(*pair)
        assert predictions.shape == labels.shape == [3]
    np.testing.assert_array_equal(evaluate(framework.sort([3, 1, 2])), [1, 2, 3])
    np.testing.assert_array_equal(evaluate(framework.argsort([3, 1, 2])), [1, 2, 0])
    assert framework.is_tensor(tf.ones([]))
    assert not framework.is_tensor(1.0)


def test_conditions_that_are_known_make_no_operations(evaluate):
    assert framework.smart_cond(True, lambda: 1, lambda: 2) == 1
    assert framework.smart_cond(tf.constant(False), lambda: 1, lambda: 2) == 2
    assert framework.smart_constant_value(1) is True
    fed = v1.placeholder(tf.bool, [])
    chosen = framework.smart_cond(fed, lambda: tf.constant(1), lambda: tf.constant(2))
    assert evaluate(chosen, {fed: False}) == 2
    pairs = [(False, lambda: 1), (True, lambda: 2)]
    assert framework.smart_case(pairs) == 2
    assert framework.smart_case(collections.OrderedDict(pairs[:1]), lambda: 3) == 3
    dynamic = [(fed, lambda: tf.constant(1))]
    assert evaluate(framework.smart_case(dynamic, lambda: tf.constant(5)), {fed: False}) == 5
    with pytest.raises(TypeError, match="a bool or a Tensor, got 'x'"):
        framework.smart_constant_value("x")


def test_functions_on_variables_are_those_of_slim(tmp_path):
    with v1.variable_scope("a"):
        weights = framework.model_variable("weights", initializer=[1.0, 2.0])
    local = framework.local_variable(tf.zeros([]), name="local")
    other = framework.variable("other", [1])
    step = framework.get_or_create_global_step()
    assert framework.get_model_variables() == [weights]
    assert framework.get_local_variables() == [local]
    assert framework.get_variables("a") == framework.get_variables_by_name("weights") == [weights]
    assert framework.get_variables_to_restore(exclude=["a", "other"]) == [step]
    assert framework.get_unique_variable("a/weights") is weights
    init = framework.assign_from_values_fn({"a/weights": np.array([3.0, 4.0], "f4")})
    with v1.Session() as session:
        session.run([v1.global_variables_initializer(), v1.local_variables_initializer()])
        path = v1.train.Saver([weights]).save(session, str(tmp_path / "model"))
        init(session)
        np.testing.assert_array_equal(session.run(weights), [3, 4])
        read = framework.assign_from_checkpoint_fn(path, [weights, other], ignore_missing_vars=True)
        read(session)
        np.testing.assert_array_equal(session.run(weights), [1, 2])
    assert framework.list_variables(path) == [("a/weights", [2])]


def test_default_arguments_are_scoped():
    @framework.add_arg_scope
    def function(x, y=1):
        return x, y

    assert framework.has_arg_scope(function)
    with framework.arg_scope([function], y=2) as scope:
        assert function(1) == (1, 2)
        assert function(1, y=3) == (1, 3)
    with framework.arg_scope(scope):
        assert function(4) == (4, 2)
    assert function(1) == (1, 1)
    assert framework.arg_scope_func_key(function) in scope


Pair = collections.namedtuple("Pair", "first second")
TREE = {"b": [1, Pair(2, 3)], "a": (4,)}


def test_public_functions_are_those_of_tf_nest():
    assert nest.flatten(TREE) == [4, 1, 2, 3]
    assert nest.map_structure(lambda x: -x, TREE) == {"b": [-1, Pair(-2, -3)], "a": (-4,)}
    assert nest.pack_sequence_as(TREE, [1, 2, 3, 4]) == {"b": [2, Pair(3, 4)], "a": (1,)}
    assert nest.is_sequence([1])
    assert not nest.is_sequence("text")


def test_paths_are_in_the_order_of_flatten():
    assert nest.flatten_with_tuple_paths(TREE) == [
        (("a", 0), 4),
        (("b", 0), 1),
        (("b", 1, "first"), 2),
        (("b", 1, "second"), 3),
    ]
    assert nest.flatten_with_joined_string_paths({"a": [1]}, "-") == [("a-0", 1)]
    named = nest.map_structure_with_paths(lambda path, x, y: f"{path}={x + y}", TREE, TREE)
    assert named == {"b": ["b/0=2", Pair("b/1/first=4", "b/1/second=6")], "a": ("a/0=8",)}


def test_structures_are_taken_up_to_a_shallower_one():
    shallow = {"a": 0, "b": [0, 0]}
    assert nest.flatten_up_to(shallow, TREE) == [(4,), 1, Pair(2, 3)]
    both = nest.map_structure_up_to(shallow, lambda x, y: (x, y), TREE, TREE)
    assert both["b"][0] == (1, 1)
    assert nest.flatten_up_to(0, TREE) == [TREE]


@pytest.mark.parametrize(
    ("shallow", "deep", "error", "message"),
    [
        ([0], 1, TypeError, "Expected a structure like"),
        ([0], (1,), TypeError, "Expected a list like"),
        ([0], [1, 2], ValueError, "must have the same elements"),
        ({"a": 0}, {"b": 0}, ValueError, r"must have the same elements: \['a'\] and \['b'\]"),
    ],
)
def test_structures_that_begin_otherwise_are_refused(shallow, deep, error, message):
    with pytest.raises(error, match=message):
        nest.assert_shallow_structure(shallow, deep)


def test_types_are_checked_if_asked_for():
    nest.assert_shallow_structure([0], (1,), check_types=False)
    with pytest.raises(ValueError, match="got no structure"):
        nest.map_structure_up_to([0], abs)


def test_keys_of_a_dict_are_flattened():
    assert nest.flatten_dict_items({(4, 5): ("a", "b"), 6: ["c"]}) == {4: "a", 5: "b", 6: ["c"]}
    with pytest.raises(TypeError, match="takes a dict"):
        nest.flatten_dict_items([1])
    with pytest.raises(ValueError, match="occurs twice"):
        nest.flatten_dict_items({(1, 2): (3, 4), 1: 5})
    with pytest.raises(ValueError, match="different structures"):
        nest.flatten_dict_items({(1, 2): (3,)})
