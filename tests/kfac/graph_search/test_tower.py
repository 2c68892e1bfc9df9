import pytest
import tensorflow as tf

from kfac.graph_search.tower import Tower

v1 = tf.compat.v1


def test_variables_and_their_copies(graph):
    w, b, other = (v1.get_variable(name, [2, 2]) for name in ("w", "b", "other"))
    copy = tf.identity(w)
    product = tf.matmul(tf.ones([3, 2]), copy)
    tower = Tower([product, b + 1.0], [other, w, b])
    assert tower.variables == (w, b)
    assert tower.unreached == (other,)
    assert tower.variable_of(copy) is w
    assert tower.variable_of(product) is None


def test_uses_are_in_the_order_of_the_graph(graph):
    w, x = v1.get_variable("w", [2, 2]), tf.ones([2, 2])
    for _ in range(3):
        x = tf.matmul(x, tf.identity(w))
    tower = Tower([x], [w])
    assert [use.op.name for use in tower.uses(w)] == ["MatMul", "MatMul_1", "MatMul_2"]
    places = [tower.order(use.op) for use in tower.uses(w)]
    assert places == sorted(places)


def test_only_consumer(graph):
    x = tf.identity(tf.ones([2]))
    once, twice = tf.exp(x), tf.identity(x)
    outputs = [tf.exp(once), tf.exp(twice), tf.sin(twice)]
    tf.tanh(once)
    tower = Tower(outputs, [])
    assert tower.only_consumer(once).op is outputs[0].op
    assert tower.only_consumer(twice) is None
    assert tower.only_consumer(outputs[0]) is None
    assert Tower([*outputs, once], []).only_consumer(once) is None


def test_rows(graph, session):
    some, many = v1.placeholder(tf.float32, [None, 2]), tf.ones([6, 2])
    assert Tower([many, many], []).rows() == 6
    assert Tower([some, many], []).rows() == 6
    assert Tower([many, tf.ones([3])], []).rows() is None
    assert Tower([many, tf.constant(1.0)], []).rows() is None
    rows = Tower([some], []).rows()
    assert session.run(rows, {some: [[1.0, 2.0]] * 4}) == 4


def test_first_axis_of_examples(graph):
    tower, some = Tower([tf.ones([6, 2])], []), v1.placeholder(tf.float32, [None, 2])
    assert tower.is_by_example(tf.ones([12, 2]))
    assert tower.is_by_example(some)
    assert not tower.is_by_example(tf.ones([4, 2]))
    assert Tower([some], []).is_by_example(tf.ones([4, 2]))


def test_what_is_made_from_variables_only(graph):
    w, b = v1.get_variable("w", [3, 3]), v1.get_variable("b", [3], use_resource=False)
    x, ids = v1.placeholder(tf.float32, [None, 3]), v1.placeholder(tf.int32, [None])
    of_data = [x, tf.exp(x @ w), tf.ones([3, 3]) @ w, tf.gather(w, ids), tf.fill([8, 3], 0.0)]
    of_variables = [w * 2.0, tf.exp(b), tf.reduce_sum(w, [0])]
    tower = Tower([*of_data, *of_variables], [w, b])
    assert not any(map(tower.is_of_variables, of_data))
    assert all(map(tower.is_of_variables, of_variables))


@pytest.mark.parametrize("use_resource", [True, False])
def test_batch_that_a_variable_holds_is_data(graph, use_resource):
    def variable(name, shape, trainable=False):
        return v1.get_variable(name, shape, trainable=trainable, use_resource=use_resource)

    batch, of_all_towers = variable("batch", [4, 3]), variable("of_all_towers", [8, 3])
    others = variable("w", [4, 3], True), variable("average", [4]), variable("kept", [3, 3])
    both = [tf.exp(each) for each in (batch, of_all_towers)]
    none = [tf.exp(each) for each in others]
    outputs = [tf.ones([4, 2]), *(tf.fill([4, 1], tf.reduce_sum(each)) for each in (*both, *none))]
    tower = Tower(outputs, [])
    assert [tower.is_of_variables(each) for each in both] == [False] * 2
    assert [tower.is_of_variables(each) for each in none] == [True] * 3
    asked_for = Tower(outputs, [batch])
    assert asked_for.is_of_variables(both[0])
