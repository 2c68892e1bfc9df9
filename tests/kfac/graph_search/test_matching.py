import pytest
import tensorflow as tf

from kfac.graph_search.matching import find_matches
from kfac.graph_search.records import RecordType
from kfac.graph_search.tower import Tower

v1 = tf.compat.v1


def test_all_that_a_layer_can_be(graph):
    x, w, b = tf.ones([4, 3]), v1.get_variable("w", [3, 2]), v1.get_variable("b", [2])
    y = tf.matmul(x, w) + b
    found = find_matches(Tower([y], [w, b]))
    assert [record.params for record in found.records] == [w, (w, b)]
    alone, biased = found.records
    assert set(alone.tensor_set) < set(biased.tensor_set)
    assert biased.record_type is RecordType.fully_connected
    assert biased.data == {"inputs": x, "leading": [4], "outputs": y}
    assert (alone.description, biased.description) == (
        "MatMul 'MatMul'",
        "MatMul 'MatMul' with a bias",
    )
    assert found.refusals == {}
    assert found.additions == {b.ref(): "add"}


def test_every_use_is_looked_at(graph):
    x, w = tf.ones([4, 3]), v1.get_variable("w", [3, 3])
    found = find_matches(Tower([tf.matmul(x, w), tf.exp(w), tf.matmul(w, x, False, True)], [w]))
    assert len(found.records) == 1
    assert found.refusals == {w.ref(): "goes into 'Exp', and Exp is no known layer"}


@pytest.mark.parametrize("kind", ["loop", "condition", "function"])
def test_functions_and_their_v1_forms(behavior, graph, kind):
    x, w, b = tf.ones([2, 2]), v1.get_variable("w", [2, 2]), v1.get_variable("b", [2])
    if kind == "loop":
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s @ w + b), [0, x])
    elif kind == "function":
        y = tf.function(lambda: x @ w + b)()
    else:
        y = tf.cond(v1.placeholder(tf.bool, []), lambda: x @ w + b, lambda: x)
    found = find_matches(Tower([y], [w, b]))
    assert found.records == []
    for variable in (w, b):
        assert f"goes into the {kind} '" in found.refusals[variable.ref()]
        assert "no gradients outside of it" in found.refusals[variable.ref()]
